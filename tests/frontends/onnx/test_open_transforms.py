"""Fourier transforms of axes of open size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import by_onnxruntime, info, model, node


def transform(parts: int, axis: int, **attributes: Any) -> Any:
    nodes = [node("DFT", "x _ axis", "y", **attributes)]
    return model(
        nodes, [info("x", ["N", "T", "U", parts])], [info("y", None)], {"axis": np.array(axis)}, 20
    )


CASES = {
    "real": transform(1, 1),
    "half": transform(1, 1, onesided=1),
    "complex": transform(2, 2),
    "inverse": transform(2, 1, inverse=1),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_any_length(name: str) -> None:
    made = CASES[name]
    compiled: Any = rnncc.compile(made)
    parts = made.graph.input[0].type.tensor_type.shape.dim[-1].dim_value
    for t, u in ((1, 3), (6, 8), (7, 1), (64, 5)):
        x = np.random.default_rng(t).standard_normal((2, t, u, parts)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x})["y"]
        got = compiled.run({"x": x})["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-4, 2e-5 * max(1, np.abs(want).max()))


def test_long_ones_are_refused() -> None:
    compiled: Any = rnncc.compile(CASES["real"])
    with pytest.raises(ArrayError, match="would be -1"):
        compiled.run({"x": np.zeros((1, 4097, 1, 1), np.float32)})


def test_half_a_spectrum_of_open_size_is_refused() -> None:
    with pytest.raises(CompileError, match="transforms an axis of T"):
        rnncc.compile(transform(2, 1, inverse=1, onesided=1))
