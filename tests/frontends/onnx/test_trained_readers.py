"""An initialiser is one parameter whatever reads it: results and gradients follow its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rnncc
from tests.frontends.onnx.models import assert_close, body, graph, info, interpreted, model, node

onnx: Any = pytest.importorskip("onnx")

RNG = np.random.default_rng(0)
ROW = np.array([0.7, -0.4, 0.5], np.float32)
SQUARE = RNG.normal(size=(3, 3)).astype(np.float32)
DENORMAL = SQUARE.copy()
DENORMAL[0, 0] = 1e-40
HELD: dict[str, Any] = {
    **{"zero": np.float32(0), "tenth": np.float32(0.1), "first": np.array([0]), "at": np.array(1)},
    **{"count": np.array(3), "yes": np.array(True)},
}


def _step(*nodes: Any, **constants: Any) -> Any:
    """A Scan's body of one state and one row."""
    last = [node("Add", "a row", "b"), node("Tanh", "b", "h2"), node("Identity", "h2", "o")]
    inputs, outputs = [info("h", None), info("row", None)], [info("h2", None), info("o", None)]
    return graph([*nodes, *last], inputs, outputs, constants)


def _branch(kind: str, **constants: Any) -> Any:
    return graph([node(kind, "x w", "r")], [], [info("r", None)], constants)


GROWN = [node("Mul", "v w", "a"), node("Concat", "a v", "v2", axis=0)]
"""Of a loop that is no scan."""
SUM = [node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "big")]
START = node("ReduceSum", "x first", "h0", keepdims=0)
POWER = [node("Abs", "x", "size"), node("Pow", "size w", "y")]
LISTED = [node("SequenceConstruct", "w w", "s"), node("ConcatFromSequence", "s", "c", axis=1)]
CUT = [node("SplitToSequence", "w", "s"), node("SequenceAt", "s at", "c")]
MASKED = [
    node("Greater", "w zero", "above"),
    node("Mul", "w tenth", "less"),
    node("Where", "above w less", "c"),
]
IN_A_SCAN = node("Scan", "h0 x", "h1 rows", num_scan_inputs=1, body=_step(node("Mul", "h w", "a")))
NESTED = _step(
    node("Unsqueeze", "row first", "rows"),
    node("Scan", "h rows", "c p", num_scan_inputs=1, body=_step(node("Mul", "h w", "a"), w=ROW)),
    node("Identity", "c", "a"),
)
IN_A_BRANCH = node("If", "big", "c", then_branch=_branch("Mul"), else_branch=_branch("Add"))
CASES: dict[str, tuple[list[Any], Any]] = {
    "exponent": (POWER, ROW[:1]),
    "lists": ([*LISTED, node("MatMul", "x c", "y")], SQUARE),
    "parts": ([*CUT, node("Mul", "x c", "y")], SQUARE),
    "wider": ([node("Cast", "w", "c", to=1), node("Mul", "x c", "y")], ROW.astype(np.float64)),
    "mask": ([*MASKED, node("Mul", "x c", "y")], ROW),
    "denormal": ([node("MatMul", "x w", "c"), node("MatMul", "w c", "y")], DENORMAL),
    "branches": ([*SUM, IN_A_BRANCH, node("Mul", "c w", "y")], ROW),
    "scan": ([START, IN_A_SCAN, node("Mul", "rows w", "y")], ROW),
    "nested": ([START, node("Scan", "h0 x", "h1 y", num_scan_inputs=1, body=NESTED)], None),
    "outside": ([node("Loop", "count yes x", "y", body=body(GROWN))], ROW),
    "inside": ([node("Loop", "count yes x", "y", body=body(GROWN))], None),
}
"""Nodes, and the initialiser `w`: without one it is a graph's inside."""
CASES["inside"][0][0].attribute[0].g.initializer.append(onnx.numpy_helper.from_array(ROW, "w"))


def _tensors(made: Any) -> Iterator[Any]:
    yield from (tensor for tensor in made.initializer if tensor.name == "w")
    for op in made.node:
        for attribute in op.attribute:
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def _with(made: Any, numbers: Any) -> Any:
    """The model with other numbers as `w`."""
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    for tensor in _tensors(changed.graph):
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, "w"))
    return changed


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_follow_a_parameter(case: str) -> None:
    nodes, w = CASES[case]
    constants = HELD if w is None else {**HELD, "w": w}
    made = model(nodes, [info("x", [3, 3])], [info("y", None)], constants)
    trained, start = rnncc.compile(made, train=True), ROW if w is None else w
    assert {*trained.parameters} == {"w"}
    inputs = {"x": np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)}
    slope, way = np.float32(1), np.random.default_rng(2).normal(size=start.shape)
    outputs, tape = trained.forward(inputs)
    gradient = trained.backward(tape, {"y": np.full_like(outputs["y"], slope)})["w"]
    sums = [
        float(interpreted(_with(made, (start + by * way).astype(start.dtype)), inputs)["y"].sum())
        for by in (4e-3, -4e-3)
    ]
    np.testing.assert_allclose((gradient * way).sum(), (sums[0] - sums[1]) / 8e-3, 1e-2, 1e-2)
    trained.parameters["w"][...] = moved = (start[::-1] * -1.5).astype(start.dtype)
    assert_close(trained.forward(inputs)[0], interpreted(_with(made, moved), inputs))


WIDE = RNG.uniform(1, 2, size=(4, 20)).astype(np.float32)


@pytest.mark.parametrize("size", [3, 20])
def test_statistics_of_batches_are_not_trained(size: int) -> None:
    """However many channels there are, and where they are computed from initialisers, too."""
    nodes = [node("Exp", "log", "v"), node("BatchNormalization", "x s b m v", "y")]
    constants = dict(zip(("s", "b", "m", "log"), WIDE[:, :size], strict=True))
    made = model(nodes, [info("x", [2, size])], [info("y", None)], constants)
    trained, inputs = rnncc.compile(made, train=True), {"x": WIDE[:2, :size]}
    assert {*trained.parameters} == {"s", "b"}
    outputs, tape = trained.forward(inputs)
    assert_close(outputs, interpreted(made, inputs))
    assert {*trained.backward(tape, outputs)} == {"x", "s", "b"}


def test_matrices_of_transforms_are_not_trained() -> None:
    constants = {"step": np.array(8), "w": WIDE[0, :16]}
    made = model(
        [node("STFT", "x step w", "y")], [info("x", [1, 32, 1])], [info("y", None)], constants
    )
    trained, inputs = rnncc.compile(made, train=True), {"x": WIDE[:2, :16].reshape(1, 32, 1)}
    assert {*trained.parameters} == {"w"}
    assert_close(trained.forward(inputs)[0], interpreted(made, inputs))


def test_scales_of_stored_integers_are_not_trained() -> None:
    constants = {"q": np.arange(9, dtype=np.int8).reshape(3, 3), "s": np.abs(ROW), "w": ROW}
    nodes = [node("DequantizeLinear", "q s", "c", axis=1), node("MatMul", "x c", "d")]
    made = model(
        [*nodes, node("Mul", "d w", "y")], [info("x", [2, 3])], [info("y", None)], constants
    )
    assert {*rnncc.compile(made, train=True).parameters} == {"w"}


def test_calls_of_a_function_share_the_parameters_inside() -> None:
    inside = node(
        "Scan", "h a", "g r", num_scan_inputs=1, body=_step(node("Mul", "h w", "a"), w=ROW)
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    function = onnx.helper.make_function("own", "Twice", ["a", "h"], ["r"], [inside], opset)
    calls = [node("Twice", "x h0", "b", domain="own"), node("Twice", "b h0", "y", domain="own")]
    inputs = [info("x", [3, 3]), info("h0", [3])]
    made = model(calls, inputs, [info("y", None)], domains={"own": 1}, functions=[function])
    assert {*rnncc.compile(made, train=True).parameters} == {"w"}
