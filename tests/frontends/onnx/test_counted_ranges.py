"""Ranges up to computed numbers, as synthesisers count frames by, and windows over such rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import graph, info, model, node
from tests.frontends.onnx.partial_rows import compared, rows

pytest.importorskip("onnxruntime")
MOST = "3*T + 2"
CONSTANTS: dict[str, Any] = {
    **{"zero": np.array(0), "one": np.array(1), "two": np.array(2), "five": np.array(5)},
    **{"down": np.array(-2), "first": np.array([0]), "last": np.array([1]), "pair": np.array([2])},
    **{"f0": np.float32(0), "f1": np.float32(1), "start": np.float32(0.5), "k": np.float32(0.25)},
    **{"w": rows(3, 2 * 3).reshape(3, 2, 3), "v": rows(2, 3 * 4).reshape(2, 3, 4)},
    **{
        "shape": np.array([1, 2, 2, -1]),
        "flat": np.array([1, 2, -1]),
        "times": np.array([1, 1, 1, 2]),
    },
    **{
        "mask": np.array([-1, -1]),
        "ones": np.array([1, 1]),
        "around": np.array([0, 0, 2, 0, 0, 1]),
    },
    "number": np.float32(1.5),
}
COUNT = [node("ReduceSum", "d", "n", keepdims=0), node("Range", "zero n one", "r")]
LARGEST = [node("ReduceMax", "d", "l", keepdims=0)]
FRAMES = [
    *COUNT,
    *(node("CumSum", "d zero", "c"), node("Unsqueeze", "r last", "rows")),
    *(node("Unsqueeze", "c first", "cs"), node("GreaterOrEqual", "rows cs", "behind")),
    *(node("Cast", "behind", "b", to=7), node("ReduceSum", "b last", "at", keepdims=0)),
    node("Gather", "x at", "f", axis=2),
]
"""Each of x [1, 2, T] as often as d says."""
NEAREST: Any = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
ONE = from_array(np.ones(1, np.int64))
REPEATED = [
    *(node("SequenceAt", "ds i", "r1"), node("SequenceAt", "xs i", "v1")),
    *(node("Concat", "r1 ends", "shape2", axis=0), node("Expand", "v1 shape2", "e1")),
    *(node("SequenceInsert", "l e1", "l2"), node("Identity", "go1", "go2")),
]
LIST = helper.make_tensor_sequence_value_info
REPEATING = (
    [info("i", [], "i64"), info("go1", [], "i1"), LIST("l", TensorProto.FLOAT, None)],
    [info("go2", [], "i1"), LIST("l2", TensorProto.FLOAT, None)],
)
"""As PyTorch's first exporter writes `repeat_interleave`: the run decides how long parts are."""
NODES: dict[str, list[Any]] = {
    "up": [*COUNT, node("Identity", "r", "y")],
    "in steps": [*COUNT, node("Range", "one n two", "y")],
    "down": [*COUNT, node("Neg", "n", "m"), node("Range", "five m down", "y")],
    "as many from a computed number on": [
        *(*COUNT, node("Size", "d", "t"), node("Add", "n t", "limit")),
        node("Range", "n limit two", "y"),
    ],
    "between computed numbers": [*COUNT, *LARGEST, node("Range", "l n one", "y")],
    "down to a computed number": [*COUNT, *LARGEST, node("Range", "n l down", "y")],
    "of a count": [
        *(*COUNT, node("Shape", "r", "s"), node("Gather", "s zero", "c")),
        *(node("Cast", "c", "limit", to=1), node("Range", "f0 limit f1", "y")),
    ],
    "of floats": [
        *(*COUNT, node("Cast", "n", "m", to=1), node("Mul", "m start", "limit")),
        node("Range", "start limit k", "y"),
    ],
    "like a shape": [
        *(*COUNT, node("Unsqueeze", "r last", "c"), node("Shape", "c", "s")),
        *(node("Equal", "s mask", "open"), node("Where", "open ones s", "t")),
        node("Expand", "c t", "y"),
    ],
    "frames": [*FRAMES, node("Relu", "f", "y")],
    "windows": [*FRAMES, node("Conv", "f w", "y", pads=[1, 1])],
    "windows in strides": [*FRAMES, node("Conv", "f w", "y", pads=[2, 1], strides=[2])],
    "transposed": [*FRAMES, node("ConvTranspose", "f v", "y", strides=[2], pads=[1, 1])],
    "padded": [*FRAMES, node("Pad", "f around number", "y")],
    "twice each": [
        *(*FRAMES, node("Unsqueeze", "f three", "g"), node("Tile", "g times", "t")),
        node("Reshape", "t flat", "y"),
    ],
    "as many": [
        *(
            *FRAMES,
            node("Shape", "f", "s"),
            node("Gather", "s two", "l"),
            node("Mul", "l two", "m"),
        ),
        *(node("Unsqueeze", "m first", "e"), node("Concat", "last pair e", "t", axis=0)),
        *(node("Unsqueeze", "f three", "g"), node("Tile", "g times", "k2")),
        node("Reshape", "k2 t", "y"),
    ],
    "put among them": [
        *(*COUNT, node("Unsqueeze", "r last", "rows"), node("Identity", "rows", "x2")),
        *(node("Neg", "rows", "places"), node("ScatterND", "x2 places rows", "y")),
    ],
}
NODES |= {
    "normed": [*FRAMES, node("InstanceNormalization", "f two2 two2", "y")],
    "nearest": [*FRAMES, node("Resize", "f _ twice", "y", **NEAREST)],
    "linear": [*FRAMES, node("Resize", "f _ twice", "y", mode="linear")],
    "up and down": [
        *(*FRAMES, node("Resize", "f _ six", "g", **NEAREST)),
        node("Resize", "g _ third", "y", mode="linear"),
    ],
    "windows of integers": [
        *(*FRAMES, node("DynamicQuantizeLinear", "f", "q scale zero_point")),
        node("ConvInteger", "q w8 zero_point", "y", pads=[2, 1], strides=[2]),
    ],
    "quantised windows": [
        *(*FRAMES, node("QuantizeLinear", "f step z7", "q")),
        *(node("QLinearConv", "q step z7 w8 step z0 step z7", "p", pads=[1, 1]),),
        node("DequantizeLinear", "p step z7", "y"),
    ],
    "padded with copies": [*FRAMES, node("Pad", "f around", "y", mode="edge")],
    "by a list of parts": [
        *(node("Shape", "d", "t"), node("ConstantOfShape", "t", "each", value=ONE)),
        *(node("SplitToSequence", "d each", "ds"), node("Transpose", "x", "xt", perm=[2, 0, 1])),
        *(node("SplitToSequence", "xt each", "xs"), node("SequenceEmpty", "", "none")),
        *(node("Squeeze", "t first", "steps"), node("Cast", "one", "go", to=9)),
        node("Loop", "steps go none", "parts", body=graph(REPEATED, *REPEATING)),
        node("ConcatFromSequence", "parts", "y", axis=0),
    ],
}
CONSTANTS |= {"w8": np.arange(-6, 6, dtype=np.int8).reshape(2, 2, 3), "z0": np.array(0, np.int8)}
CONSTANTS |= {"step": np.array(0.0371, np.float32), "z7": np.array(7, np.uint8)}
CONSTANTS |= {"two2": np.array([1.5, -2], np.float32), "ends": np.array([1, 2])}
CONSTANTS |= {
    name: np.array([1, 1, times], np.float32)
    for name, times in (("twice", 2), ("six", 6), ("third", 1 / 3))
}
CONSTANTS["three"] = np.array([3])
CALLS = [[1, 0, 3], [2], [0, 5, 1, 1], [0, 1, 0]]


@pytest.mark.parametrize("name", NODES)
def test_counted_ranges(name: str) -> None:
    made = _model(NODES[name])
    compared(made, [_inputs(durations) for durations in CALLS], max_iterations=MOST)


def _model(nodes: list[Any]) -> Any:
    inputs = [info("d", ["T"], "i64"), info("x", [1, 2, "T"])]
    made = model(nodes, inputs, [info("y", None)], CONSTANTS)
    made.graph.output[0].ClearField("type")
    return made


def _inputs(durations: list[int]) -> dict[str, Any]:
    return {"d": np.array(durations), "x": rows(2, len(durations))[None]}


def test_mirrored_rows() -> None:
    """Too few to mirror are an error of the run, as is a single one that a Squeeze would drop."""
    made = _model([*FRAMES, node("Pad", "f around", "y", mode="reflect")])
    calls = [_inputs(durations) for durations in CALLS]
    compared(made, [calls[0], calls[2]], max_iterations=MOST)
    with pytest.raises(RunError):
        rnncc.compile(made, max_iterations=MOST).run(calls[1])
    made = _model([*FRAMES, node("ReduceMax", "f", "m", axes=[1]), node("Squeeze", "m", "y")])
    compared(made, calls[:3], max_iterations=MOST)
    with pytest.raises(RunError):
        rnncc.compile(made, max_iterations=MOST).run(calls[3])


def test_more_than_the_bound() -> None:
    compiled = rnncc.compile(_model(NODES["up"]), max_iterations=MOST)
    assert len(compiled.run(_inputs([1, 0, 10]))["y"]) == 11
    with pytest.raises(RunError):
        compiled.run(_inputs([1, 0, 11]))


def test_without_a_bound() -> None:
    with pytest.raises(CompileError, match=r"must be known .*; --max-iterations may bound it"):
        rnncc.compile(_model(NODES["up"]))
    with pytest.raises(CompileError, match="the inputs have no size S"):
        rnncc.compile(_model(NODES["up"]), max_iterations="2*S")


def test_longest_of_computed_lengths() -> None:
    """No size of the model is this one, which another one would be taken for."""
    nodes = [
        *(node("Mul", "d two", "e"), node("ReduceMax", "e", "n", keepdims=0)),
        *(node("Range", "zero n one", "r"), node("Unsqueeze", "e last", "behind")),
        *(node("Less", "r behind", "within"), node("Cast", "within", "y", to=1)),
    ]
    with pytest.raises(CompileError, match="--max-iterations bounds it"):
        rnncc.compile(_model(nodes))
    compared(_model(nodes), [_inputs([1, 3]), _inputs([0]), _inputs([7, 2, 8])], max_iterations=16)


@pytest.mark.parametrize("start", ["start", "far"])
def test_computed_steps(start: str) -> None:
    """Upwards and downwards; a step of 0 is an error of the run."""
    nodes = [node("Neg", "to", "far"), node("Range", f"{start} to step", "y")]
    inputs = [info(name, [], "i64") for name in ("start", "to", "step")]
    made = model(nodes, inputs, [info("y", None, "i64")])

    def call(*numbers: int) -> dict[str, Any]:
        return dict(zip(("start", "to", "step"), map(np.array, numbers), strict=True))

    calls = [call(1, 9, 3), call(9, -8, -2), call(0, 4, 1 << 62), call(5, 3, 2), call(-3, -9, -3)]
    compared(made, calls, max_iterations=16)
    with pytest.raises(RunError):
        rnncc.compile(made, max_iterations=16).run(call(1, 9, 0))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_computed_steps_of_floats(dtype: str) -> None:
    """Rounded up, as many as the quotient of the numbers says that the floats are."""
    names = ("start", "to", "step")
    made = model(
        [node("Range", " ".join(names), "y")],
        [info(name, [], dtype) for name in names],
        [info("y", None, dtype)],
    )
    kind = np.float32 if dtype == "f32" else np.float64

    def call(*numbers: float) -> dict[str, Any]:
        return {name: np.array(x, kind) for name, x in zip(names, numbers, strict=True)}

    calls = [call(0, 1, 0.1), call(5, 1, -0.3), call(1, 0, 0.5), call(0, 1, 1 / 3)]
    compared(made, calls, max_iterations=16)
    compiled = rnncc.compile(made, max_iterations=16)
    for wrong in (call(0, 1, 0), call(0, np.inf, 1), call(0, 1, np.nan), call(0, 1e30, 1)):
        with pytest.raises(RunError):
            compiled.run(wrong)


def test_a_bound_without_a_number() -> None:
    source = model(
        [node("Range", "zero x one", "y")],
        [info("x", [0], "i64")],
        [info("y", None, "i64")],
        {name: CONSTANTS[name] for name in ("zero", "one")},
    )
    with pytest.raises(CompileError, match="has 0 numbers for a bound of its range"):
        rnncc.compile(source)
