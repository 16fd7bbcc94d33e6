"""Weights of whole numbers: the same as a net of their floats, and near to ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.models import assert_close, by_onnxruntime, info, interpreted, model, node

T, N, SIZE, H = 5, 3, 4, 6


def quantised(rng: np.random.Generator, shape: tuple[int, ...], per_unit: bool) -> list[Any]:
    """Whole numbers [1, K, 4H], scales, zero points, and the floats that they stand for."""
    size = (1, shape[-1]) if per_unit else (1,)
    whole = rng.integers(-127, 128, shape).astype(np.int8)
    scale = rng.uniform(0.002, 0.01, size).astype(np.float32)
    zero = np.zeros(size, np.int8) if per_unit else rng.integers(-9, 9, size).astype(np.int8)
    wide = [a.reshape(1, 1, -1).astype(np.float32) for a in (zero, scale)]
    return [whole, scale, zero, ((whole - wide[0]) * wide[1]).swapaxes(1, 2)]


@pytest.mark.peers
@pytest.mark.parametrize("per_unit", [False, True])
def test_dynamic_quantize_lstm(per_unit: bool) -> None:
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    w, w_scale, w_zero, w_floats = quantised(rng, (1, SIZE, 4 * H), per_unit)
    r, r_scale, r_zero, r_floats = quantised(rng, (1, H, 4 * H), per_unit)
    bias = rng.standard_normal((1, 8 * H)).astype(np.float32) / 4
    names = "x w r b _ _ _ _ ws wz rs rz"
    constants = {
        "w": w,
        "r": r,
        "b": bias,
        "ws": w_scale,
        "wz": w_zero,
        "rs": r_scale,
        "rz": r_zero,
    }
    made = model(
        [node("DynamicQuantizeLSTM", names, "y yh yc", hidden_size=H, domain="com.microsoft")],
        [info("x", [T, N, SIZE])],
        [info("y", None), info("yh", None), info("yc", None)],
        constants,
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    floats = model(
        [node("LSTM", "x w r b", "y yh yc", hidden_size=H)],
        [info("x", [T, N, SIZE])],
        [info("y", None), info("yh", None), info("yc", None)],
        {"w": w_floats, "r": r_floats, "b": bias},
    )
    x = rng.standard_normal((T, N, SIZE)).astype(np.float32)
    got = interpreted(made, {"x": x})
    assert_close(got, interpreted(floats, {"x": x}))
    for name, theirs in by_onnxruntime(made, {"x": x}).items():
        np.testing.assert_allclose(got[name], theirs, atol=0.03)


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantised_constants(axis: int) -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 255, (4, 3)).astype(np.uint8)
    size = whole.shape[axis]
    scale = rng.uniform(0.1, 1, size).astype(np.float32)
    zero = rng.integers(0, 255, size).astype(np.uint8)
    made = model(
        [node("DequantizeLinear", "w s z", "f", axis=axis), node("MatMul", "x f", "y")],
        [info("x", ["N", 4])],
        [info("y", None)],
        {"w": whole, "s": scale, "z": zero},
    )
    x = rng.standard_normal((2, 4)).astype(np.float32)
    wide = [np.expand_dims(a.astype(np.float32), 1 - axis) for a in (zero, scale)]
    want = x @ ((whole - wide[0]) * wide[1])
    np.testing.assert_allclose(interpreted(made, {"x": x})["y"], want, 1e-5, 1e-4)
