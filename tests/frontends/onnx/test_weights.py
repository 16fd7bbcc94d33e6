"""Denormal numbers: gone from the weights of layers, kept everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.models import imported, info, interpreted, model, node

TINY = 1e-40
"""A denormal float32."""


def dead(*dims: int) -> Any:
    """Weights of which every other one is denormal."""
    made = np.arange(1, 1 + np.prod(dims), dtype=np.float32).reshape(dims)
    made.reshape(-1)[::2] = TINY
    return made


CONSTANTS: dict[str, Any] = {
    **{"w": dead(2, 20, 3), "m": dead(4, 5), "b": dead(2), "v": np.full(2, TINY, np.float32)},
    **{"wide": dead(20, 2, 3), "gates": dead(1, 8, 4), "back": dead(1, 8, 2)},
}
LAYERS: dict[str, list[Any]] = {
    "Conv": [node("Conv", "x wide", "y")],
    "ConvTranspose": [node("ConvTranspose", "x w", "y")],
    "MatMul": [node("MatMul", "x m", "y")],
    "LSTM": [node("LSTM", "x gates back", "y", hidden_size=2)],
}


def _model(nodes: list[Any]) -> Any:
    return model(nodes, [info("x", [3, 2, 4])], [info("y", None)], CONSTANTS)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_of_layers(name: str) -> None:
    arrays = imported(_model(LAYERS[name])).arrays
    assert arrays
    for array in arrays.values():
        assert not ((array != 0) & (np.abs(array) < np.finfo(np.float32).tiny)).any()
        assert (array == 0).any() and array.any()


def test_statistics() -> None:
    """A variance is a divisor."""
    nodes = [node("BatchNormalization", "x b b b v", "y", epsilon=0.0)]
    x = np.ones((3, 2, 4), np.float32)
    got = interpreted(_model(nodes), {"x": x})["y"]
    assert np.isfinite(got).all() and (got[:, 0] == 0).all() and (got[:, 1] != 0).all()


def test_other_constants() -> None:
    nodes = [node("Abs", "x", "a"), node("Add", "a v", "s"), node("Log", "s", "y")]
    made = model(nodes, [info("x", ["N", 2])], [info("y", None)], CONSTANTS)
    got = interpreted(made, {"x": np.zeros((1, 2), np.float32)})["y"]
    np.testing.assert_allclose(got, np.log(CONSTANTS["v"])[None], 1e-6)
