"""Sizes of results that the run decides, of `TopK`, `Split`, `Pad` and `Resize`, against ONNX
Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import assert_close, by_onnxruntime, info, model, node
from tests.frontends.onnx.partial_rows import rows

NUMBERS: dict[str, Any] = {
    **{
        name: np.array([k])
        for name, k in (("none", 0), ("one", 1), ("two", 2), ("three", 3), ("five", 5))
    },
    "zero": np.float32(0),
    "fill": np.float32(2.5),
    "offon": np.array([2, 3], np.float32),
}
NUMBERS |= {name: rows(12, 3)[None] for name in ("lw", "lr")}
RECURRENT = [
    node("Unsqueeze", "rows one", "steps"),
    node("LSTM", "steps lw lr", "_ h", hidden_size=3),
]
TWO = [node("Concat", "a b", "sizes", axis=0), node("Split", "x sizes", "p q", axis=0)]
BEHIND = node("Concat", "none none a none", "pads", axis=0)
BEFORE = node("Concat", "a none one none", "pads", axis=0)
SOME = [node("Greater", "m zero", "k"), node("Compress", "x k", "some", axis=0)]
POSITIVE = np.array([1, -2, 3, 0.5, 2, -1], np.float32)

# nodes, outputs; then of each call the rows of x and the numbers a and b
CASES: dict[str, tuple[list[Any], str, list[tuple[int, ...]]]] = {
    "largest": ([node("TopK", "x a", "v i", axis=0)], "v i", [(7, 3), (4, 4), (4, 0), (1, 1)]),
    "smallest of columns": (
        [node("TopK", "x a", "v i", axis=1, largest=0)],
        "v i",
        [(7, 3), (4, 0), (4, 2)],
    ),
    "at most five": (
        [
            *(node("Greater", "m zero", "k"), node("Cast", "k", "n", to=7)),
            *(node("ReduceSum", "n none", "count"), node("Min", "count five", "few")),
            node("TopK", "x few", "v i", axis=0),
        ],
        "v i",
        [(6,), (5,)],
    ),
    "largest of those chosen": (
        [*SOME, node("TopK", "some a", "v i", axis=0)],
        "v i",
        [(6, 2), (6, 4), (5, 0)],
    ),
    "largest, then a layer": (
        [node("TopK", "x a", "rows i", axis=0), *RECURRENT],
        "h",
        [(7, 3), (9, 9), (9, 1)],
    ),
    "where the largest are": (
        [node("TopK", "x a", "v i", axis=0), node("GatherElements", "x i", "y", axis=0)],
        "y",
        [(7, 3), (4, 4), (4, 0)],
    ),
    "put where the largest are": (
        [
            *(node("TopK", "x a", "v i", axis=1), node("Neg", "v", "n")),
            node("ScatterElements", "x i n", "y", axis=1),
        ],
        "y",
        [(7, 2), (4, 3), (4, 0)],
    ),
    "two parts": (TWO, "p q", [(7, 3, 4), (5, 0, 5), (5, 5, 0), (1, 1, 0)]),
    "a part, then a layer": (
        [*TWO, node("Identity", "q", "rows"), *RECURRENT],
        "p h",
        [(7, 3, 4), (5, 0, 5)],
    ),
    "parts with a known one between": (
        [node("Concat", "a two b", "sizes", axis=0), node("Split", "x sizes", "p q r", axis=0)],
        "p q r",
        [(7, 3, 2), (5, 0, 3), (5, 3, 0)],
    ),
    "what is left": (
        [node("Concat", "a two", "sizes", axis=0), node("Split", "x sizes", "p q", axis=0)],
        "p q",
        [(7, 5), (2, 0)],
    ),
    "parts as a list": (
        [
            *(TWO[0], node("SplitToSequence", "x sizes", "parts", axis=0)),
            *(node("SequenceAt", "parts one", "q"), node("SequenceAt", "parts none", "p")),
        ],
        "p q",
        [(7, 3, 4), (5, 0, 5)],
    ),
    "the first of known size, alone": (
        [node("Concat", "two a b", "sizes", axis=0), node("Split", "x sizes", "p q r", axis=0)],
        "p",
        [(7, 3, 2), (5, 0, 3), (5, 3, 0)],
    ),
    "parts of those chosen, as a list": (
        [
            *(*SOME, TWO[0], node("SplitToSequence", "some sizes", "parts", axis=0)),
            *(node("SequenceAt", "parts one", "q"), node("SequenceLength", "parts", "long")),
            node("Cast", "long", "y", to=1),
        ],
        "q y",
        [(6, 1, 3), (6, 4, 0), (5, 0, 4)],
    ),
    "one-hot of a float depth": (
        [
            *(node("ArgMax", "x", "i", axis=1, keepdims=0), node("Cast", "a", "depth", to=1)),
            node("OneHot", "i depth offon", "y"),
        ],
        "y",
        [(7, 3), (4, 1)],
    ),
    "put together again": (
        [*TWO, node("Neg", "p", "n"), node("Concat", "n q", "c", axis=0), node("Add", "c x", "y")],
        "y",
        [(7, 3, 4), (5, 0, 5), (5, 5, 0)],
    ),
    "pads behind": (
        [BEHIND, node("Pad", "x pads fill", "y")],
        "y",
        [(7, 3), (5, 0), (5, -2), (0, 2)],
    ),
    "pads before, then a layer": (
        [BEFORE, node("Pad", "x pads", "rows"), *RECURRENT],
        "rows h",
        [(7, 3), (5, 0), (5, -4)],
    ),
    "pads on both sides and of columns": (
        [node("Concat", "a one b two", "pads", axis=0), node("Pad", "x pads fill", "y")],
        "y",
        [(7, 3, 1), (5, -3, 2), (5, 2, -5), (5, -2, -3), (5, -6, 3), (5, 4, -7), (0, -1, 2)],
    ),
    "edges": ([BEFORE, node("Pad", "x pads", "y", mode="edge")], "y", [(7, 3), (5, 0)]),
    "edges of those chosen": (
        [
            *(*SOME, node("Concat", "a none none none", "pads", axis=0)),
            node("Pad", "some pads", "y", mode="edge"),
        ],
        "y",
        [(6, 2), (6, -3), (0, 0)],
    ),
    "pads around those chosen": (
        [*SOME, BEFORE, node("Pad", "some pads fill", "y"), node("ReduceSum", "y none", "s")],
        "y s",
        [(6, 2), (6, 0), (5, 1)],
    ),
    **{
        f"resized, {mode}, {coordinates}": (
            [
                *(node("Transpose", "x", "t", perm=[1, 0]), node("Unsqueeze", "t none", "columns")),
                node("Concat", "one three a", "sizes", axis=0),
                node(
                    *("Resize", "columns _ _ sizes", "y"),
                    mode=mode,
                    coordinate_transformation_mode=coordinates,
                    nearest_mode="floor" if coordinates == "asymmetric" else "round_prefer_floor",
                ),
            ],
            "y",
            [(7, 3), (4, 4), (4, 8), (3, 11), (5, 1)],
        )
        for mode in ("nearest", "linear")
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    },
    "resized columns of those chosen": (
        [
            *(*SOME, node("Unsqueeze", "some one", "rows"), node("Concat", "one a", "to", axis=0)),
            node("Resize", "rows _ _ to", "wide", mode="linear", axes=[1, 2]),
            node("ReduceSum", "wide none", "y"),
        ],
        "y",
        [(6, 2), (6, 5), (5, 3)],
    ),
    "pads of columns of those chosen": (
        [
            *(*SOME, node("Concat", "none none none a", "pads", axis=0)),
            *(node("Pad", "some pads", "wide"), node("ReduceSum", "wide none", "y")),
        ],
        "y",
        [(6, 2), (6, 0)],
    ),
}


def _model(nodes: list[Any], outputs: str) -> Any:
    read = {name for each in nodes for name in each.input}
    inputs = [info("x", ["T", 3]), *([info("m", ["T"])] if "m" in read else [])]
    inputs += [info(name, [1], "i64") for name in "ab" if name in read]
    given = [info(name, None, "i64" if name == "i" else "f32") for name in outputs.split()]
    return model(nodes, inputs, given, NUMBERS, opset=18)


def _inputs(made: Any, size: int, *numbers: int) -> dict[str, Any]:
    given = {"x": rows(size, 3), "m": POSITIVE[:size]}
    given |= {name: np.array([number]) for name, number in zip("ab", numbers, strict=False)}
    return {each.name: given[each.name] for each in made.graph.input}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str) -> None:
    nodes, outputs, calls = CASES[name]
    made = _model(nodes, outputs)
    compiled = rnncc.compile(made, max_iterations="T + 8")
    for call in calls:
        inputs = _inputs(made, *call)
        got = compiled.run(inputs)
        assert_close({name: got[name] for name in outputs.split()}, by_onnxruntime(made, inputs))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_the_first_number_of_rows_is_that_of_the_first_axis(axes: tuple[int, int]) -> None:
    """In whichever order the axes are cut."""
    numbers = ("a", "b") if axes == (0, 1) else ("b", "a")
    nodes = [
        node("TopK", f"x {numbers[0]}", "v _", axis=axes[0]),
        node("TopK", f"v {numbers[1]}", "w _", axis=axes[1]),
    ]
    compiled: Any = rnncc.compile(_model(nodes, "w"))
    assert compiled.metadata["counts"] == {"w": ["w.count", 0, "w.count.2", 1]}
    got = compiled.run({"x": rows(5, 3), "a": np.array([4]), "b": np.array([2])})
    assert (got["w"].shape, got["w.count"], got["w.count.2"]) == ((4, 2), 4, 2)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("largest", (3, 4)),
        ("largest", (3, -1)),
        ("largest of those chosen", (6, 5)),
        ("two parts", (7, 3, 3)),
        ("two parts", (7, 8, -1)),
        ("what is left", (7, 4)),
        ("the first of known size, alone", (7, 3, 3)),
        ("the first of known size, alone", (7, 6, -1)),
        ("parts of those chosen, as a list", (6, 1, 2)),
        ("pads behind", (7, 9)),
        ("pads behind", (7, -8)),
        ("pads on both sides and of columns", (5, -6, 0)),
        ("edges", (5, -6)),
        ("edges", (0, 1)),
    ],
)
def test_sizes_that_do_not_fit(name: str, call: tuple[int, ...]) -> None:
    nodes, outputs, _ = CASES[name]
    made = _model(nodes, outputs)
    with pytest.raises(RunError):
        rnncc.compile(made, max_iterations="T + 8").run(_inputs(made, *call))


@pytest.mark.peers
def test_pads_up_to_the_longest() -> None:
    """The size is that of a mask that it is multiplied with; without one something bounds it."""
    nodes = [
        *(node("ReduceMax", "lengths", "most"), node("Shape", "x", "t", start=1, end=2)),
        *(node("Sub", "most t", "short"), node("Concat", "none none none short", "pads", axis=0)),
        node("Pad", "x pads _ axes", "y"),
    ]
    axes = {"axes": np.array([0, 1])}
    inputs = [info("x", ["N", "T", 3]), info("lengths", ["N"], "i64")]
    alone = model(nodes, inputs, [info("y", None)], NUMBERS | axes, opset=18)
    nodes += [node("Mul", "y mask", "z")]
    inputs += [info("mask", ["N", "U", 1])]
    masked = model(nodes, inputs, [info("z", None)], NUMBERS | axes, opset=18)
    with pytest.raises(CompileError, match="--max-iterations bounds it"):
        rnncc.compile(alone)
    models = rnncc.compile(alone, max_iterations=16), rnncc.compile(masked)
    for lengths, size in (([9, 2], 7), ([7], 7), ([5], 7)):
        given = {
            "x": rows(len(lengths), 3 * size).reshape(-1, size, 3),
            "lengths": np.array(lengths),
        }
        mask = {"mask": rows(len(lengths), max(lengths))[:, :, None]}
        for made, compiled, more in ((alone, models[0], {}), (masked, models[1], mask)):
            got = compiled.run(given | more)
            want = by_onnxruntime(made, given | more)
            assert_close({name: got[name] for name in want}, want)


@pytest.mark.peers
def test_resized_to_the_longest() -> None:
    nodes = [
        *(node("ReduceMax", "lengths", "most"), node("Shape", "x", "first", end=2)),
        *(node("Concat", "first most", "sizes", axis=0), node("Resize", "x _ _ sizes", "y")),
        node("Add", "y z", "sum"),
    ]
    inputs = [info("x", ["N", 2, "T"]), info("lengths", ["N"], "i64"), info("z", ["N", 2, "U"])]
    made = model(nodes, inputs, [info("sum", None)], opset=18)
    compiled = rnncc.compile(made)
    for most, size in ((4, 7), (7, 7), (11, 7)):
        given = {"x": rows(4, size)[None].reshape(2, 2, -1), "lengths": np.array([most, 1])}
        given["z"] = rows(4, most).reshape(2, 2, -1)
        assert_close(compiled.run(given), by_onnxruntime(made, given))
    given["lengths"] -= 1
    with pytest.raises(RunError):
        compiled.run(given)


@pytest.mark.parametrize(
    "name", ["pads on both sides and of columns", "resized, linear, half_pixel"]
)
def test_a_size_that_nothing_bounds(name: str) -> None:
    nodes, outputs, _ = CASES[name]
    with pytest.raises(CompileError, match="--max-iterations"):
        rnncc.compile(_model(nodes, outputs))


@pytest.mark.parametrize("name", ["largest", "two parts", "pads behind"])
def test_training(name: str) -> None:
    nodes, outputs, _ = CASES[name]
    made = _model(nodes, outputs)
    with pytest.raises(CompileError, match="must be known"):
        rnncc.compile(made, train=True, max_iterations=32)
