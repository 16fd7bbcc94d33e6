"""Layers of integers that are no products of weights: pools, resizing, attention, extrema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import rnncc
from tests.frontends.onnx import random_quantised
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)

WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_shape": [2, 3]},
    "strides and pads": {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 2, 1, 0]},
    "rounded up": {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
}


def pooled(kind: str, dtype: str, names: str, **more: Any) -> Any:
    """A pool over x [N, 3, H, 7] of bytes."""
    scales = {"s": np.float32(0.02), "t": np.float32(0.015)}
    zeros = {"z": np.array(7, random_quantised.TYPES[dtype])}
    constants = {k: v for k, v in (scales | zeros).items() if k in names.split()}
    return model(
        [node(kind, names, "y", **more)],
        [info("x", ["N", 3, "H", 7], dtype)],
        [info("y", None, dtype)],
        constants,
        domains={"com.microsoft": 1},
    )


@pytest.mark.peers
@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("kind", ["MaxPool", "QLinearAveragePool"])
def test_pools_of_bytes(kind: str, windows: str, dtype: str) -> None:
    pytest.importorskip("onnxruntime")
    if kind == "MaxPool":
        made = pooled(kind, dtype, "x", **WINDOWS[windows])
    else:
        more = WINDOWS[windows] | {"domain": "com.microsoft"}
        made = pooled(kind, dtype, "x s z t z", **more)
    limits = np.iinfo(random_quantised.TYPES[dtype])
    rng, compiled = np.random.default_rng(0), rnncc.compile(made)
    for rows in (5, 8):
        x = rng.integers(limits.min, limits.max + 1, (2, 3, rows, 7)).astype(limits.dtype)
        got, want = compiled.run({"x": x})["y"], by_onnxruntime(made, {"x": x})["y"]
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)


@pytest.mark.peers
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(("a", "b"), [((5,), (5, 3)), ((2, 4, 5), (5,)), ((5,), (5,))])
def test_integer_products_of_vectors(
    a: tuple[int, ...], b: tuple[int, ...], quantised: bool
) -> None:
    rng = np.random.default_rng(2)
    x = {"x": rng.integers(0, 255, a, np.uint8)}
    held = {"w": rng.integers(-99, 99, b, np.int8), "xz": np.uint8(7), "wz": np.int8(-3)}
    op, names, kind = "MatMulInteger", "x w xz wz", "i32"
    if quantised:
        scales = rng.uniform(0.01, 0.02, b[1:]).astype(np.float32)
        held |= {"xs": np.float32(0.02), "ws": scales, "wz": np.zeros(b[1:], np.int8)}
        held |= {"ys": np.float32(0.3), "yz": np.uint8(100)}
        op, names, kind = "QLinearMatMul", "x xs xz w ws wz ys yz", "u8"
    made = model([node(op, names, "y")], [info("x", list(a), "u8")], [info("y", None, kind)], held)
    assert_close(interpreted(made, x), by_onnxruntime(made, x))


@pytest.mark.peers
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_integers_are_resized_by_sums_rounded_towards_zero(dtype: Any) -> None:
    """Where a sum is an integer its last bit decides: one level is no difference."""
    kind = {np.int8: "i8", np.uint8: "u8", np.int32: "i32"}[dtype]
    made = model(
        [node("Resize", "x _ _ size", "y", mode="linear")],
        [info("x", [1, 3, 9], kind)],
        [info("y", None, kind)],
        {"size": np.array([1, 3, 16])},
    )
    x = np.random.default_rng(0).integers(0, 99, (1, 3, 9)) - (0 if dtype == np.uint8 else 50)
    want = by_onnxruntime(made, {"x": x.astype(dtype)})["y"]
    got = interpreted(made, {"x": x.astype(dtype)})["y"]
    assert got.dtype == want.dtype
    assert np.abs(got.astype(int) - want).max() <= 1
    assert (got != want).mean() < 0.05


@pytest.mark.peers
@pytest.mark.parametrize("scales", [1, 24])
def test_attention_of_numbers(scales: int) -> None:
    rng = np.random.default_rng(scales)
    constants = {
        # of so few bits that ONNX Runtime's sums of 16 bits are exact on older processors (MLAS)
        "w": rng.integers(-64, 64, (8, 24)).astype(np.int8),
        "b": rng.standard_normal(24).astype(np.float32),
        "ws": rng.uniform(0.002, 0.01, scales).astype(np.float32)[() if scales > 1 else 0],
        "wz": np.zeros(scales, np.int8)[() if scales > 1 else 0],
    }
    kind = {"num_heads": 2, "unidirectional": 1, "domain": "com.microsoft"}
    names = "x w b s ws held z wz past"
    inputs = [info("x", ["N", "T", 8], "u8"), info("s", []), info("z", [], "u8")]
    inputs += [info("held", ["N"], "i32"), info("past", [2, "N", 2, 3, 4])]
    outputs = [info("y", None), info("present", None)]
    made = model([node("QAttention", names, "y present", **kind)], inputs, outputs, constants)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    x = {"x": rng.integers(0, 255, (2, 5, 8)).astype(np.uint8), "s": np.array(0.02, np.float32)}
    x |= {"z": np.array(120, np.uint8), "held": np.array([8, 6], np.int32)}
    x["past"] = rng.standard_normal((2, 2, 2, 3, 4)).astype(np.float32)
    assert_close(interpreted(made, x), by_onnxruntime(made, x))


@pytest.mark.peers
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_what_is_no_number_is_the_least(dtype: Any) -> None:
    """Of rows that a mask takes out later: 0 times NaN would not be 0."""
    numbers = {"s": np.float32(0.5), "z": np.array(5, dtype), "zero": np.float32(0)}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    nodes += [node("Mul", "y zero", "masked")]
    outputs = [
        helper.make_tensor_value_info("q", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
    ]
    made = model(
        nodes, [info("x", ["N"])], [*outputs, info("y", None), info("masked", None)], numbers, 21
    )
    x = np.resize(np.array([np.nan, 1, np.inf, -np.inf], "f4"), 37)
    want = by_onnxruntime(made, {"x": x})
    for got in (rnncc.compile(made).run({"x": x}), interpreted(made, {"x": x})):
        for name, expected in want.items():
            np.testing.assert_array_equal(got[name], expected)
