"""Layers with weights of low precision: wide ones, in pieces, by several threads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from rnncc_runtime import Pool

import rnncc
from rnncc import cells
from tests.precision.nets import BOUNDS, ONE_OFF, Low, assert_near
from tests.teams import insistent

both = pytest.mark.parametrize("precision", BOUNDS)
CELLS = {"lstm": cells.lstm, "gru": cells.gru, "elman": cells.elman}


def drawn(steps: int, batch: int, width: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(steps).standard_normal((steps, batch, width))
    return {"x": x.astype(np.float32)}


@cache
def wide(kind: str, precision: str) -> Low:
    return Low(CELLS[kind](75, 203, layout="TNC"), precision)


@both
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("batch", [1, 37])
def test_wide_layers(kind: str, precision: str, batch: int) -> None:
    """Panels of weights that are read in runs; rows in several blocks."""
    inputs, sizes = drawn(9, batch, 75), {"T": 9, "N": batch}
    low = wide(kind, precision)
    got = low.run(inputs, sizes)
    assert_near(got, wide(kind, "fp32").run(inputs, sizes), BOUNDS[precision])
    assert_near(got, low.meaning(inputs, sizes), ONE_OFF)


@both
def test_a_stream_gives_the_same_bits(precision: str) -> None:
    model = rnncc.compile(cells.lstm(20, 70, layout="TNC"), precision=precision)
    assert model.metadata["precision"] == precision
    inputs = drawn(12, 3, 20)
    stream = model.stream(batch=3)
    pieces = [stream.step({"x": inputs["x"][a:b]})["y"] for a, b in ((0, 1), (1, 5), (5, 12))]
    np.testing.assert_array_equal(np.concatenate(pieces), model.run(inputs)["y"])


@both
@pytest.mark.parametrize("batch", [1, 120])
def test_threads_give_the_same_bits(precision: str, batch: int) -> None:
    layer = cells.lstm(33, 90, layout="TNC")
    model = insistent(rnncc.compile(layer, precision=precision, threads=True))
    inputs = drawn(7, batch, 33)
    want = model.run(inputs)
    for threads in (2, 3):
        with Pool(threads) as pool:
            for _ in range(5):
                for name, array in model.run(inputs, pool=pool).items():
                    np.testing.assert_array_equal(array, want[name])


@both
def test_stacks(precision: str) -> None:
    """Equal layers, whose products are one function of the library."""
    layer = cells.lstm(130, 130, layout="TNC", layers=3)
    inputs, sizes = drawn(5, 7, 130), {"T": 5, "N": 7}
    low = Low(layer, precision)
    got = low.run(inputs, sizes)
    assert_near(got, Low(layer, "fp32").run(inputs, sizes), BOUNDS[precision])
    assert_near(got, low.meaning(inputs, sizes), ONE_OFF)
