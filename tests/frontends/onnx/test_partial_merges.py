"""Rows whose number the run decides, of each element of an axis before them: merged into one axis,
parted again, repeated as TensorFlow's `repeat` does it, and combined with tensors of as many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from tests.frontends.onnx.models import info, model, node
from tests.frontends.onnx.partial_rows import compared, flags, rows

pytest.importorskip("onnxruntime")
CONSTANTS = {
    **{"0": np.array([0]), "1": np.array([1]), "2": np.array([2]), "4": np.array([4])},
    **{
        "rest": np.array([-1]),
        "flat": np.array([-1, 4]),
        "halves": np.array([-1, 2]),
        "wide": np.array([0, -1]),
    },
    **{"zero": np.array(0), "one": np.array(1), "w": np.eye(4, 3, 1, dtype=np.float32)},
    **{"end": np.array([1 << 31]), "none": np.array([0, 0]), "far": np.array([10**9, 2])},
    **{"two": np.array(2), "8": np.array([8])},
    **{"3": np.array([3]), "first": np.array([0, 1]), "scalar": np.zeros(0, np.int64)},
}
LONGEST = [node("ReduceMax", "n", "m", keepdims=0), node("Reshape", "m rest", "longest")]
CUT = [*LONGEST, node("Slice", "x 0 longest 1", "s")]
SIZES = [
    *(node("Shape", "x", "sx"), node("Gather", "sx 0", "N")),
    *(node("Shape", "s", "ss"), node("Gather", "ss 1", "M")),
]
EVEN = [
    *(node("ReduceMax", "n", "most", keepdims=0), node("Div", "most two", "pairs")),
    *(node("Mul", "pairs two", "m"), node("Reshape", "m rest", "longest")),
    *(node("Slice", "x 0 longest 1", "s"), *SIZES),
]
FLAT = [*CUT, *SIZES, node("Reshape", "s flat", "a"), node("MatMul", "a w", "b")]
INT32 = [node("Shape", "s", "ss"), node("Cast", "ss", "si", to=6)]
REPEATED = [
    *LONGEST,
    *(node("Unsqueeze", "x 1", "xu"), node("Concat", "1 longest 1 1", "times", axis=0)),
    *(node("Tile", "xu times", "s"), *INT32),
    *(node("Slice", "si 0 2 0", "both"), node("ReduceProd", "both", "whole", keepdims=1)),
    *(node("Slice", "si 2 end 0", "behind"), node("Concat", "whole behind", "shape", axis=0)),
    *(node("Cast", "shape", "long", to=7), node("Reshape", "s long", "each")),
    *(node("Range", "zero m one", "steps"), node("Unsqueeze", "n 1", "limits")),
    *(node("Less", "steps limits", "mask"), node("Reshape", "mask rest", "all")),
    *(node("NonZero", "all", "nz"), node("Squeeze", "nz 0", "chosen")),
    node("Gather", "each chosen", "r", axis=0),
]
NODES: dict[str, list[Any]] = {
    "merged": [*CUT, node("Reshape", "s flat", "y")],
    "cut": [*CUT, node("Reshape", "s halves", "y")],
    "wide": [*CUT, node("Reshape", "s wide", "y")],
    "flattened": [*CUT, node("Flatten", "s", "y")],
    "merged by Flatten": [*CUT, node("Flatten", "s", "y", axis=-1)],
    "summed": [*CUT, node("Reshape", "s flat", "a"), node("ReduceSum", "a 0", "y")],
    "parted": [*FLAT, node("Concat", "N rest 3", "to", axis=0), node("Reshape", "b to", "y")],
    "parted by sizes": [
        *(*FLAT, node("Concat", "N M 3", "to", axis=0)),
        node("Reshape", "b to", "y"),
    ],
    "parted by sizes of all": [
        *(*FLAT, node("Gather", "ss first", "front"), node("Concat", "front 3", "to", axis=0)),
        node("Reshape", "b to", "y"),
    ],
    "turned back": [
        *(*CUT, node("Transpose", "s", "turned", perm=[0, 2, 1]), node("Shape", "turned", "st")),
        *(node("Reshape", "turned rest", "a"), node("Gather", "st first", "front")),
        *(node("Concat", "front rest", "to", axis=0), node("Reshape", "a to", "y")),
    ],
    "by a product": [
        *(*CUT, *SIZES, node("Mul", "N M", "k")),
        *(node("Concat", "k rest", "to", axis=0), node("Reshape", "s to", "y")),
    ],
    "in pairs": [*EVEN, node("Concat", "N rest 2 4", "to", axis=0), node("Reshape", "s to", "y")],
    "pairs side by side": [
        *(*EVEN, node("Concat", "N rest 8", "to", axis=0), node("Reshape", "s to", "y")),
    ],
    "repeated": [*REPEATED, node("Unsqueeze", "r 1", "y")],
    "several axes": [*REPEATED, node("Slice", "r none far", "y")],
}


def of_lengths(nodes: list[Any]) -> Any:
    made = model(
        nodes, [info("x", ["N", "T", 4]), info("n", ["N"], "i64")], [info("y", None)], CONSTANTS
    )
    made.graph.output[0].ClearField("type")
    return made


def call(lengths: list[int], steps: int) -> dict[str, Any]:
    x = np.random.default_rng(steps).standard_normal((len(lengths), steps, 4))
    return {"x": x.astype(np.float32), "n": np.array(lengths)}


@pytest.mark.parametrize("name", NODES)
def test_rows_of_each_sequence(name: str) -> None:
    calls = [call([1, 3, 2], 4), call([5], 5), call([0, 1], 2)]
    compared(of_lengths(NODES[name]), calls, max_iterations=5)


def test_rows_of_several_each() -> None:
    nodes = [node("Compress", "x c", "r", axis=0), node("Flatten", "r", "y", axis=2)]
    made = model(nodes, [info("x", ["N", 2, 4]), info("c", ["N"], "i1")], [info("y", None)])
    made.graph.output[0].ClearField("type")
    compared(made, [{"x": rows(10).reshape(5, 2, 4), "c": flags(1, 0, 1, 1, 0)}])


def test_an_axis_that_is_none_is_refused() -> None:
    """Of rows whose number the run decides, as of any others."""
    nodes = [node("Compress", "x c", "r", axis=0), node("Flatten", "r", "y", axis=4)]
    made = model(nodes, [info("x", ["N", 2, 4]), info("c", ["N"], "i1")], [info("y", None)])
    made.graph.output[0].ClearField("type")
    with pytest.raises(rnncc.CompileError, match="axis 4 of a tensor of rank 3"):
        rnncc.compile(made)


def test_rows_left_over_fail() -> None:
    nodes = [
        *(node("Compress", "x c", "r", axis=0), node("Concat", "2 rest 4", "to", axis=0)),
        node("Reshape", "r to", "y"),
    ]
    made = model(nodes, [info("x", [6, 4]), info("c", [6], "i1")], [info("y", None)], CONSTANTS)
    made.graph.output[0].ClearField("type")
    x = rows(6)
    compared(made, [{"x": x, "c": flags(1, 0, 1, 1, 0, 1)}, {"x": x, "c": flags(*[0] * 6)}])
    with pytest.raises(RunError):
        rnncc.compile(made).run({"x": x, "c": flags(1, 0, 1, 1, 0, 0)})


def test_rows_of_a_sequence_left_over_fail() -> None:
    nodes = [*CUT, *SIZES, node("Concat", "N rest 8", "to", axis=0), node("Reshape", "s to", "y")]
    compiled: Any = rnncc.compile(of_lengths(nodes))
    assert compiled.run(call([2, 4], 5))["y"].shape == (2, 2, 8)
    with pytest.raises(RunError):
        compiled.run(call([2, 3], 5))


def test_rows_beside_a_tensor_of_as_many() -> None:
    nodes = [node("Compress", "x c", "r", axis=0), node("Mul", "r z", "y")]
    inputs = [info("x", ["T", 4]), info("c", ["T"], "i1"), info("z", ["N", 4])]
    made, x = model(nodes, inputs, [info("y", ["N", 4])], {}), rows(5)
    compared(made, [{"x": x, "c": flags(0, 1, 0, 0, 1), "z": rows(2)}])
    with pytest.raises(RunError):
        rnncc.compile(made).run({"x": x, "c": flags(1, 1, 0, 0, 1), "z": rows(2)})


def test_rows_of_two_bounds() -> None:
    nodes = [
        *(node("Compress", "x c", "r", axis=0), node("Compress", "z d", "q", axis=0)),
        node("Add", "r q", "y"),
    ]
    sizes = {"x": (["T", 4], "f32"), "c": (["T"], "i1"), "z": (["S", 4], "f32"), "d": (["S"], "i1")}
    inputs = [info(name, dims, dtype) for name, (dims, dtype) in sizes.items()]
    made = model(nodes, inputs, [info("y", None)], {})
    made.graph.output[0].ClearField("type")
    call = {"x": rows(5), "c": flags(0, 1, 0, 0, 1), "z": rows(3), "d": flags(1, 0, 1)}
    compared(made, [call])


def test_rows_of_the_type_of_a_tensor_of_another_size() -> None:
    nodes = [node("Compress", "x c", "r", axis=0), node("CastLike", "r z", "y")]
    inputs = [info("x", ["T", 4]), info("c", ["T"], "i1"), info("z", ["N", 4], "i32")]
    made = model(nodes, inputs, [info("y", ["M", 4], "i32")], {}, opset=15)
    z = np.zeros((3, 4), np.int32)
    compared(made, [{"x": rows(5), "c": flags(0, 1, 0, 0, 1), "z": z}])
