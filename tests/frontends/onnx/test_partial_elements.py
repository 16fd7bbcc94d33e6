"""Elements of rows whose number the run decides, gathered and put, such rows cut into parts,
and one-hot rows of a computed depth, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import info, model, node
from tests.frontends.onnx.partial_rows import compared, flags, rows

pytest.importorskip("onnxruntime")
CONSTANTS = {
    **{"one": np.array([1]), "two": np.array([2]), "first": np.array([0]), "minus": np.array([-1])},
    **{"places": np.array([[0], [-1], [0]]), "as_wide": np.array([3, 4]), "w": rows(2)},
    "values": np.array([0.5, 2], np.float32),
}
CHOSEN = node("Compress", "x c", "r", axis=0)
PLACES = [
    *(node("Slice", "r first one one", "column"), node("Squeeze", "column one", "keys")),
    *(node("Shape", "keys", "all"), node("TopK", "keys all", "sorted order", axis=0)),
    *(node("Unsqueeze", "order one", "upright"), node("Shape", "r", "shape")),
    node("Expand", "upright shape", "index"),
]
COUNT = node("Shape", "r", "k", end=1)
NODES: dict[str, list[Any]] = {
    "in order": [*PLACES, node("GatherElements", "r index", "y", axis=0)],
    "at known places": [
        node("Expand", "places as_wide", "index"),
        node("GatherElements", "r index", "y", axis=0),
    ],
    "put in order": [
        *(*PLACES, node("Neg", "r", "n")),
        node("ScatterElements", "r index n", "y", axis=0),
    ],
    "added": [
        *(*PLACES, node("Mul", "index first", "same")),
        node("ScatterElements", "r same r", "y", axis=0, reduction="add"),
    ],
    "halves": [
        *(COUNT, node("Div", "k two", "half"), node("Sub", "k half", "left")),
        *(node("Concat", "half left", "sizes", axis=0), node("Split", "r sizes", "y z", axis=0)),
    ],
    "what was joined": [
        *(COUNT, node("Concat", "r w r", "j", axis=0), node("Exp", "j", "e")),
        *(node("Concat", "k two k", "sizes", axis=0), node("Split", "e sizes", "y z q", axis=0)),
    ],
}


@pytest.mark.parametrize("name", NODES)
def test_chosen_rows(name: str) -> None:
    names = [n for n in NODES[name][-1].output if n]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
    outputs = [info(n, None) for n in names]
    made = model([CHOSEN, *NODES[name]], inputs, outputs, CONSTANTS, opset=18)
    calls = [
        {"x": rows(5), "c": flags(1, 0, 1, 1, 0)},
        {"x": rows(3), "c": flags(1, 1, 1)},
        {"x": rows(2), "c": flags(0, 1)},
    ]
    compared(made, calls)


def test_parts_of_known_sizes() -> None:
    """Of such a size is the part, so that it may meet a tensor of that size."""
    nodes = [CHOSEN, node("Split", "r", "a b", axis=0, split=[2, 1]), node("Mul", "a w", "y")]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
    outputs = [info("y", [2, 4]), info("b", None)]
    made = model(nodes, inputs, outputs, CONSTANTS, opset=11)
    call = {"x": rows(4), "c": flags(1, 0, 1, 1)}
    compared(made, [call])
    compiled: Any = rnncc.compile(made)
    for chosen in (flags(1, 1, 1, 1), flags(0, 1, 1, 0)):
        with pytest.raises(RunError):
            compiled.run({**call, "c": chosen})


def test_parts_that_are_not_all() -> None:
    """Nor of a negative size."""
    sizes = node("Concat", "a b", "sizes", axis=0)
    nodes = [CHOSEN, sizes, node("Split", "r sizes", "y z", axis=0)]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("a", [1], "i64")]
    outputs = [info("y", None), info("z", None)]
    made = model(nodes, [*inputs, info("b", [1], "i64")], outputs)
    compiled: Any = rnncc.compile(made)
    call = {"x": rows(4), "c": flags(1, 0, 1, 1)}
    compared(made, [{**call, "a": np.array([1]), "b": np.array([2])}])
    for a, b in ((1, 1), (2, 2), (4, -1), (-1, 4)):
        with pytest.raises(RunError):
            compiled.run({**call, "a": np.array([a]), "b": np.array([b])})


@pytest.mark.parametrize("read", ["a", "b"])
@pytest.mark.parametrize("sizes", [[2, 1], [2, 0, 1]])
def test_one_part_of_rows_that_are_not_all(sizes: list[int], read: str) -> None:
    """Of a known number of rows, too, of which each part is there."""
    parts = "a b" if len(sizes) == 2 else "a none b"
    inputs = [info("x", [5, 4]), info("c", [5], "i1")]
    split = node("Split", "r", parts, axis=0, split=sizes)
    made = model([CHOSEN, split], inputs, [info(read, None)], opset=11)
    call = {"x": rows(5), "c": flags(1, 0, 1, 1, 0)}
    compared(made, [call])
    compiled: Any = rnncc.compile(made)
    for chosen in (flags(1, 1, 1, 1, 0), flags(0, 1, 1, 0, 0), flags(0, 0, 0, 0, 0)):
        with pytest.raises(RunError):
            compiled.run({**call, "c": chosen})


def test_elements_of_rows_that_are_not_there() -> None:
    nodes = [CHOSEN, node("GatherElements", "r index", "y", axis=0)]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("index", [1, 4], "i64")]
    made = model(nodes, inputs, [info("y", None)])
    compiled: Any = rnncc.compile(made)
    call = {"x": rows(4), "c": flags(1, 0, 1, 0)}
    compared(made, [{**call, "index": np.array([[0, 1, -1, -2]])}])
    for place in (2, -3):
        with pytest.raises(RunError):
            compiled.run({**call, "index": np.full((1, 4), place)})


DEPTH = [
    *(node("ReduceMax", "x", "largest", keepdims=0), node("Add", "largest one", "depth")),
    node("OneHot", "x depth values", "y", axis=1),
]


def test_one_hot_rows_of_a_computed_depth() -> None:
    made = model(DEPTH, [info("x", ["N", "T"], "i64")], [info("y", None)], CONSTANTS)
    calls = [{"x": np.array(x)} for x in ([[0, 3, 1]], [[0], [0]], [[1, -2], [4, -5]])]
    compared(made, calls, max_iterations=5)
    compiled: Any = rnncc.compile(made, max_iterations=4)
    with pytest.raises(RunError):
        compiled.run(calls[-1])
    with pytest.raises(CompileError, match=r"\(OneHot\): .* --max-iterations may bound it"):
        rnncc.compile(made)


SIZES: dict[str, list[Any]] = {
    "to half": [node("Shape", "r", "k", end=1), node("Div", "k two", "n")],
    "to one more": [node("Shape", "r", "k", end=1), node("Add", "k one", "n")],
    "to what a call says": [node("Abs", "m", "n")],
    "to five": [node("Add", "two as3", "n")],
    "to all": [node("Shape", "x", "n", end=1)],
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "linear"},
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ],
)
def test_chosen_rows_resized(name: str, how: dict[str, str]) -> None:
    sizes = node("Concat", "one one n four", "sizes", axis=0)
    images = node("Unsqueeze", "r front", "image")
    resized = node("Resize", "image none none sizes", "y", **how)
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("m", [1], "i64")]
    held = {"front": np.array([0, 1]), "none": np.zeros(0, "f4"), "four": np.array([4])}
    held |= {"one": np.array([1]), "two": np.array([2]), "as3": np.array([3])}
    made = model([CHOSEN, *SIZES[name], images, sizes, resized], inputs, [info("y", None)], held)
    calls = [
        {"x": rows(5), "c": flags(1, 0, 1, 1, 0), "m": np.array([7])},
        {"x": rows(6), "c": flags(1, 1, 1, 1, 1, 1), "m": np.array([2])},
        {"x": rows(4), "c": flags(0, 1, 1, 0), "m": np.array([3])},
    ]
    compared(made, calls, max_iterations=8)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("size", ["known", "computed"])
def test_no_rows_resized(size: str, mode: str) -> None:
    """None stay none; there is nothing of which some could be made."""
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("m", [1], "i64")]
    names = "three four" if size == "known" else "m four"
    nodes = [
        *(CHOSEN, node("Concat", names, "sizes", axis=0)),
        node("Resize", "r none none sizes", "y", mode=mode),
    ]
    held = {"none": np.zeros(0, "f4"), "three": np.array([3]), "four": np.array([4])}
    made = model(nodes, inputs, [info("y", None)], held)
    compiled: Any = rnncc.compile(made, max_iterations=8)
    call = {"x": rows(3), "c": flags(0, 0, 0), "m": np.array([3])}
    with pytest.raises(RunError):
        compiled.run(call)
    if size == "computed":
        assert compiled.run({**call, "m": np.array([0])})["y"].shape == (0, 4)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_rows_are_not_resized_by_the_ratio_of_others(policy: str) -> None:
    """As many as there were are asked for, but the ratio of columns decides how many they are."""
    inputs = [info("x", [5, 4]), info("c", [5], "i1")]
    nodes = [
        *(CHOSEN, node("Shape", "r", "k", end=1), node("Concat", "k two", "sizes", axis=0)),
        node("Resize", "r _ _ sizes", "y", mode="nearest", keep_aspect_ratio_policy=policy),
    ]
    made = model(nodes, inputs, [info("y", None)], {"two": np.array([2])}, opset=18)
    with pytest.raises(CompileError, match="whose number of rows the run decides"):
        rnncc.compile(made)


TWO_AXES: dict[str, tuple[list[Any], tuple[int, int]]] = {
    "resized": (
        [node("Concat", "a b", "to", axis=0), node("Resize", "x none none to", "y", mode="linear")],
        (5, 3),
    ),
    "padded": (
        [node("Concat", "zero a b one", "pads", axis=0), node("Pad", "x pads", "y")],
        (2, 1),
    ),
    "padded by edges": (
        [node("Concat", "a b zero one", "pads", axis=0), node("Pad", "x pads", "y", mode="edge")],
        (2, 1),
    ),
    "chosen, padded": (
        [
            *(node("Concat", "zero one a b", "pads", axis=0), node("Greater", "x zf", "g")),
            *(node("ReduceMax", "gi last", "c0", keepdims=0), node("Cast", "c0", "c", to=9)),
            *(node("Compress", "x c", "r", axis=0), node("Pad", "r pads", "y")),
        ],
        (1, 2),
    ),
}


@pytest.mark.parametrize("name", TWO_AXES)
def test_two_computed_sizes(name: str) -> None:
    nodes, (a, b) = TWO_AXES[name]
    if name.startswith("chosen"):
        nodes = [*nodes[:2], node("Cast", "g", "gi", to=7), *nodes[2:]]
    inputs = [info("x", ["N", "T"]), info("a0", [1], "i64"), info("b0", [1], "i64")]
    held = {"none": np.zeros(0, "f4"), "zero": np.array([0]), "one": np.array([1])}
    held |= {"zf": np.float32(0), "last": np.array([-1])}
    numbers = [node("Abs", "a0", "a"), node("Abs", "b0", "b")]
    made = model([*numbers, *nodes], inputs, [info("y", None)], held, opset=18)
    calls = [{"x": rows(4), "a0": np.array([a]), "b0": np.array([b])}]
    calls.append({"x": rows(3, 2), "a0": np.array([b]), "b0": np.array([a])})
    compared(made, calls, max_iterations=9)
    with pytest.raises(CompileError, match="--max-iterations may bound it"):
        rnncc.compile(made)
