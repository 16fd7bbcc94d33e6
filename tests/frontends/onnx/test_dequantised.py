"""Convolutions and pools of floats that come from bytes, against ONNX Runtime's of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.types import dtype_of
from tests.frontends.onnx.models import assert_close, by_onnxruntime, imported, info, model, node

UNITS = 12
NODES = [node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "f")]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("scales", [1, UNITS])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [(3,), (3, 2)])
def test_sums_of_bytes(kernel: tuple[int, ...], groups: int, scales: int, zeros: bool) -> None:
    rng, rank = np.random.default_rng(len(kernel) + groups + scales), len(kernel)
    kind = np.uint8 if zeros else np.int8
    low, high = (0, 256) if zeros else (-128, 128)
    scale = rng.uniform(0.001, 0.01, scales).astype(np.float32)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": rng.integers(low, high, (UNITS, 32, *kernel)).astype(kind),
        "ws": scale if scales > 1 else scale.reshape(()),
        "b": rng.standard_normal(UNITS).astype(np.float32),
    }
    names = "w ws"
    if zeros:
        constants["wz"] = rng.integers(100, 150, UNITS if scales > 1 else ()).astype(kind)
        names += " wz"
    made = model(
        [
            *NODES,
            node("DequantizeLinear", names, "v", axis=0),
            node("Conv", "f v b", "p", group=groups, pads=[1] * 2 * rank, strides=[2] * rank),
            node("Relu", "p", "y"),
        ],
        [info("x", ["N", 32 * groups, *(7, 9)[:rank]])],
        [info("y", None)],
        constants,
    )
    program, compiled = imported(made), rnncc.compile(made)
    of_bytes = [op for op in program.module.walk() if isinstance(op, Matmul)]
    floats = zeros and scales > 1 and groups > 1
    assert any(dtype_of(op.a) == "i8" for op in of_bytes) != floats
    for batch in (1, 3):
        x = rng.standard_normal((batch, 32 * groups, *(7, 9)[:rank])).astype(np.float32)
        want = by_onnxruntime(made, {"x": x})
        for got in (run(program, {"x": x}), compiled.run({"x": x})):
            assert_close(got, want)


@pytest.mark.parametrize(
    ("weights", "groups", "told"),
    [
        ((8, 64, 3), 0, "has 64 channels in 0 groups"),
        ((8,), 1, "has data 1 x 64 x 9 and"),
    ],
)
def test_convolutions_that_are_none(weights: tuple[int, ...], groups: int, told: str) -> None:
    """Shapes are checked before it is asked whether bytes gain."""
    w = np.ones(weights, np.int8)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "w": w, "ws": np.float32(0.01)}
    nodes = [node("DequantizeLinear", "w ws", "v"), node("Conv", "f v", "y", group=groups)]
    made = model([*NODES, *nodes], [info("x", [1, 64, 9])], [info("y", None)], constants)
    with pytest.raises(CompileError, match=told):
        imported(made)


@pytest.mark.parametrize("operator", ["ConvInteger", "MatMulInteger"])
def test_a_computed_zero_point_of_a_scalar(operator: str) -> None:
    inputs = [info("x", [], "u8"), info("z", [], "u8")]
    nodes = [node(operator, "x w z", "y")]
    made = model(nodes, inputs, [info("y", None)], {"w": np.ones((8, 3, 3), np.int8)})
    with pytest.raises(CompileError, match=rf"\({operator}\)"):
        imported(made)


def test_short_sums_stay_floats() -> None:
    w = np.random.default_rng(0).integers(-128, 128, (8, 3, 3)).astype(np.int8)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "w": w, "ws": np.float32(0.01)}
    nodes = [*NODES, node("DequantizeLinear", "w ws", "v"), node("Conv", "f v", "y")]
    program = imported(model(nodes, [info("x", [1, 3, 9])], [info("y", None)], constants))
    products = [op for op in program.module.walk() if isinstance(op, Matmul)]
    assert [dtype_of(op.a) for op in products] == ["f32"]


@pytest.mark.parametrize("again", [False, True], ids=["", "quantised again"])
@pytest.mark.parametrize("scale", [0.02, -0.02])
def test_pools_of_bytes(scale: float, again: bool) -> None:
    """The largest number is the largest float, but where the scale is negative."""
    rng, kind = np.random.default_rng(5), "i32" if scale > 0 else "f32"
    constants: dict[str, Any] = {
        "xs": np.float32(scale),
        "xz": np.uint8(120),
        "v": np.float32(0.01),
    }
    constants["w"] = rng.integers(-128, 128, (UNITS, 32, 3)).astype(np.int8)
    nodes = [
        *NODES,
        node("MaxPool", "f", "p", kernel_shape=[3], strides=[2], pads=[1, 1]),
        *([node("QuantizeLinear", "p xs xz", "r")] if again else []),
        *([node("DequantizeLinear", "r xs xz", "s")] if again else []),
        node("DequantizeLinear", "w v", "k"),
        node("Conv", "s k" if again else "p k", "y"),
    ]
    made = model(nodes, [info("x", ["N", 32, 15])], [info("y", None)], constants)
    program, compiled = imported(made), rnncc.compile(made)
    pools = [op for op in program.module.walk() if isinstance(op, Reduce)]
    assert [dtype_of(op.x) for op in pools if op.kind.data == "max"] == [kind]
    for batch in (1, 2):
        x = rng.standard_normal((batch, 32, 15)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x})
        for got in (run(program, {"x": x}), compiled.run({"x": x})):
            assert_close(got, want)
