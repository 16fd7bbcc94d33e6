"""docs/determinism.md: what it says of bits and of NaN holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model

import rnncc

BUILDERS = {
    "lstm": rnncc.cells.lstm(17, 33),
    "gru": rnncc.cells.gru(3, 5),
    "layer norm": rnncc.cells.lstm(16, 40, layer_norm=True),
    "milstm": rnncc.cells.milstm(8, 64),
}


def drawn(model: Model) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    (spec,) = model.inputs.values()
    shape = [size.evaluate({"T": 9, "N": 7}) for size in spec.sizes]
    return {"x": rng.normal(size=shape).astype(np.float32)}


@pytest.mark.parametrize("name", BUILDERS)
def test_a_sequence_alone_has_the_bits_that_it_has_in_a_batch(name: str) -> None:
    model = rnncc.compile(BUILDERS[name])
    inputs = drawn(model)
    whole = model.run(inputs)
    for n in range(7):
        alone = model.run({"x": inputs["x"][:, n : n + 1]})
        for output, array in alone.items():
            axis = model.outputs[output].shape.index("N")
            assert np.array_equal(array, whole[output].take([n], axis))


@pytest.mark.parametrize("name", BUILDERS)
def test_nan_stays_in_its_sequence(name: str) -> None:
    model = rnncc.compile(BUILDERS[name])
    inputs = drawn(model)
    before = model.run(inputs)["y"]
    inputs["x"][4, 2, 1] = np.nan
    after = model.run(inputs)["y"]
    others = [n for n in range(7) if n != 2]
    assert np.array_equal(before[:, others], after[:, others])
    assert np.array_equal(before[:4, 2], after[:4, 2])
    assert np.isnan(after[4:, 2]).any(-1).all()


def test_denormals_are_kept() -> None:
    layer = rnncc.cells.elman(1, 1, activation="identity")
    for array in layer.arrays.values():
        array[...] = 0
    layer.arrays["W"][...] = 1
    x = np.full((1, 1, 1), 1e-40, np.float32)
    assert rnncc.compile(layer).run({"x": x})["y"] == x
