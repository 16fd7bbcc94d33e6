"""Sizes of several names that operators force to be equal, and what calls say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import graph, info, interpreted, model, node

HIDDEN = 3


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def over(nodes: list[Any], inputs: dict[str, list[int | str]], **constants: Any) -> Any:
    infos = [info(name, dims) for name, dims in inputs.items()]
    return model(nodes, infos, [info("y", None)], constants)


def lstm() -> Any:
    weights = {"W": drawn(1, 4 * HIDDEN, 2), "R": drawn(1, 4 * HIDDEN, HIDDEN)}
    inputs: dict[str, list[int | str]] = {"x": ["T", "unk__1", 2]}
    inputs |= {"h": [1, "unk__2", HIDDEN], "c": [1, "unk__3", HIDDEN]}
    return over([node("LSTM", "x W R _ _ h c", "y", hidden_size=HIDDEN)], inputs, **weights)


def halved() -> Any:
    nodes = [node("Conv", "x k", "a", strides=[2], pads=[1, 1]), node("Add", "a z", "y")]
    return over(nodes, {"x": ["N", 2, "T"], "z": ["N", 2, "U"]}, k=drawn(2, 2, 3))


def last_rows() -> Any:
    nodes = [node("Slice", "x s e a", "t"), node("Flatten", "t", "f"), node("MatMul", "f w", "y")]
    bounds = {"s": [-3], "e": [2**31 - 1], "a": [1]}
    held = {name: np.array(value) for name, value in bounds.items()}
    return over(nodes, {"x": ["N", "T", 2]}, w=drawn(6, 2), **held)


def positions() -> Any:
    nodes = [
        node("Shape", "x", "n", start=1, end=2),
        node("Slice", "p s n", "q"),
        node("Add", "x q", "y"),
    ]
    return over(nodes, {"x": ["N", "T", 2]}, p=drawn(5, 2), s=np.array([0]))


def widened_by_shapes() -> Any:
    """A column repeated to the shape that it has with others, as the maximum of shapes."""
    nodes = [
        node("Shape", "x", "one"),
        node("Max", "one other", "both"),
        node("Expand", "x both", "y"),
    ]
    return over(nodes, {"x": ["N", 1]}, other=np.array([1, 3]))


def windows() -> Any:
    """Starts of windows by Range; there are (T + 1) / 2 - 1, of which a state is made."""
    nodes = [
        node("Shape", "x", "n", start=0, end=1),
        node("Squeeze", "n", "t"),
        node("Sub", "t two", "end"),
        node("Range", "zero end two", "starts"),
        node("Gather", "x starts", "a"),
        node("Add", "a h", "y"),
        node("Add", "t one", "more"),
        node("Div", "more two", "halves"),
        node("Sub", "halves one", "windows"),
        node("Unsqueeze", "windows zeros", "rows"),
        node("Concat", "rows four", "shape", axis=0),
        node("ConstantOfShape", "shape", "h"),
    ]
    held = {name: np.array(k) for k, name in enumerate(["zero", "one", "two"])}
    return over(nodes, {"x": ["T", 4]}, zeros=np.array([0]), four=np.array([4]), **held)


def counted_twice() -> Any:
    """Rows as many as the windows of a convolution, and as many as (T - 1) / 2 + 1."""
    nodes = [
        node("Conv", "x k", "a", strides=[2], pads=[1, 1]),
        node("Transpose", "a", "b", perm=[0, 2, 1]),
        node("Reshape", "b all", "flat"),
        node("Shape", "x", "shape"),
        node("Split", "shape", "n two t", axis=0),
        node("Sub", "t one", "less"),
        node("Div", "less two", "halves"),
        node("Add", "halves one", "rows"),
        node("ConstantOfShape", "rows", "h"),
        node("Add", "a h", "sum"),
        node("Concat", "n rows last", "again", axis=0),
        node("Reshape", "flat again", "c"),
        node("Transpose", "c", "d", perm=[0, 2, 1]),
        node("Add", "d sum", "y"),
    ]
    held = {"all": np.array([-1, 2]), "one": np.array([1]), "last": np.array([-1])}
    return over(nodes, {"x": ["N", 2, "T"]}, k=drawn(2, 2, 3), **held)


def filled_up() -> Any:
    """Rows up to a multiple of 4, brought into a shape that has as many as there were."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Split", "shape", "n t two", axis=0),
        node("Add", "t three", "more"),
        node("Div", "more four", "blocks"),
        node("Mul", "blocks four", "whole"),
        node("Sub", "whole t", "missing"),
        node("Concat", "zeros missing zero", "pads", axis=0),
        node("Pad", "x pads", "filled"),
        node("Concat", "n t last", "kept", axis=0),
        node("Reshape", "filled kept", "y"),
    ]
    held = {"zeros": np.zeros(4, np.int64), "zero": np.array([0]), "last": np.array([-1])}
    return over(nodes, {"x": ["N", "T", 2]}, three=np.array([3]), four=np.array([4]), **held)


def skipped(levels: int) -> Any:
    """A U of strided convolutions: each way up meets the way down at its size."""
    down, names = list[Any](), ["x"]
    for level in range(levels):
        down.append(node("Conv", f"{names[-1]} d", f"d{level}", strides=[2], kernel_shape=[2]))
        names.append(f"d{level}")
    up = list[Any]()
    current = names.pop()
    for level, other in enumerate(reversed(names)):
        up.append(node("ConvTranspose", f"{current} u", f"u{level}", strides=[2]))
        current = "y" if other == "x" else f"s{level}"
        up.append(node("Add", f"u{level} {other}", current))
    held = {"d": drawn(2, 2, 2), "u": drawn(2, 2, 2)}
    return over([*down, *up], {"x": ["N", 2, "L"]}, **held)


def squeezed(dims: list[int | str], rest: list[Any], **constants: Any) -> Any:
    """x without axis 1 if that is 1, as PyTorch's exporter writes it, and then the rest of y."""
    drop = graph([node("Squeeze", "x one", "t")], [], [info("t", None)])
    keep = graph([node("Identity", "x", "e")], [], [info("e", None)])
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "size", axis=0),
        node("Equal", "size one", "c"),
        node("If", "c", "z", then_branch=drop, else_branch=keep),
        *rest,
    ]
    return over(nodes, {"x": dims}, one=np.array([1]), **constants)


def rows_of_two_axes() -> Any:
    return squeezed(["N", "C", 4], [node("Concat", "z w", "y", axis=0)], w=drawn(2, 4))


def rows_of_three_axes() -> Any:
    return squeezed(["N", "C", 4], [node("Concat", "z w", "y", axis=1)], w=drawn(3, 2, 4))


Shape = tuple[int, ...]
CASES: dict[str, tuple[Any, dict[str, Shape], dict[str, Shape], str]] = {
    "sum": (
        over([node("Add", "a b", "y")], {"a": ["unk__330", 4], "b": ["unk__331", 4]}),
        {"a": (3, 4), "b": (3, 4)},
        {"a": (1, 4), "b": (3, 4)},
        "unk__330 is 1 in a but 3 in b",
    ),
    "concatenation": (
        over([node("Concat", "a b", "y", axis=1)], {"a": ["K", "L"], "b": ["M", "O"]}),
        {"a": (3, 4), "b": (3, 2)},
        {"a": (3, 4), "b": (2, 2)},
        "K is 3 in a but 2 in b",
    ),
    "windows": (windows(), {"x": (8, 4)}, {"x": (1, 4)}, "a size T - "),
    "three of a loop": (
        lstm(),
        {"x": (4, 2, 2), "h": (1, 2, HIDDEN), "c": (1, 2, HIDDEN)},
        {"x": (4, 2, 2), "h": (1, 2, HIDDEN), "c": (1, 1, HIDDEN)},
        "unk__1 is 2 in x but 1 in c",
    ),
    "a number": (
        over([node("MatMul", "a w", "y")], {"a": ["N", "features"]}, w=drawn(5, 2)),
        {"a": (3, 5)},
        {"a": (3, 4)},
        r"a has shape \[3, 4\]: axis 1 is 4, expected 5",
    ),
    "as many rows as the parts have": (
        over(
            [node("Split", "x parts", "a b"), node("Add", "a b", "y")],
            {"x": ["T", 2]},
            parts=np.array([3, 3]),
        ),
        {"x": (6, 2)},
        {"x": (5, 2)},
        "x has shape \\[5, 2\\]: axis 0 is 5, expected 6",
    ),
    "a formula": (
        halved(),
        {"x": (2, 2, 9), "z": (2, 2, 5)},
        {"x": (2, 2, 9), "z": (2, 2, 4)},
        r"expected T/2 = 5 \(T = 9\)",
    ),
    "a shape that is asked for": (
        counted_twice(),
        {"x": (2, 2, 9)},
        {"x": (2, 2, 0)},
        "would be -1",
    ),
    "rows that must be kept": (filled_up(), {"x": (2, 8, 2)}, {"x": (2, 7, 2)}, "would be -1"),
    "updates": (
        over(
            [node("ScatterElements", "x at z", "y", axis=1)],
            {"x": ["N", 4], "z": ["M", 1]},
            at=np.array([[3], [0]]),
        ),
        {"x": (2, 4), "z": (2, 1)},
        {"x": (2, 4), "z": (3, 1)},
        "z has shape \\[3, 1\\]: axis 0 is 3, expected 2",
    ),
    "a number of elements": (
        over([node("Reshape", "x shape", "y")], {"x": ["N", 3]}, shape=np.array([6, 2])),
        {"x": (4, 3)},
        {"x": (5, 3)},
        "x has shape \\[5, 3\\]: axis 0 is 5, expected 4",
    ),
    "a way down and up": (
        skipped(3),
        {"x": (2, 2, 16)},
        {"x": (2, 2, 14)},
        "would be -",
    ),
    "an axis that must go": (rows_of_two_axes(), {"x": (3, 1, 4)}, {"x": (3, 2, 4)}, "axis 1 is 2"),
    "an axis that must stay": (
        rows_of_three_axes(),
        {"x": (3, 5, 4)},
        {"x": (3, 1, 4)},
        "a size C - 2 would be -1",
    ),
    "rows that must be there": (
        last_rows(),
        {"x": (2, 7, 2)},
        {"x": (2, 2, 2)},
        "T - 3 would be -1",
    ),
    "rows of which there are some": (
        widened_by_shapes(),
        {"x": (2, 1)},
        {"x": (0, 1)},
        "N - 1 would be -1",
    ),
    "channels of a transposed convolution": (
        over([node("ConvTranspose", "x k", "y")], {"x": ["N", "C", 4]}, k=drawn(2, 3, 3)),
        {"x": (2, 2, 4)},
        {"x": (2, 3, 4)},
        "axis 1 is 3, expected 2",
    ),
    "places of a grid": (
        over([node("GridSample", "x g", "y")], {"x": ["N", 1, 4, 4], "g": ["M", 2, 2, "D"]}),
        {"x": (2, 1, 4, 4), "g": (2, 2, 2, 2)},
        {"x": (2, 1, 4, 4), "g": (2, 2, 2, 3)},
        "axis 3 is 3, expected 2",
    ),
    "a real signal": (
        over(
            [node("STFT", "x two _ four", "y")],
            {"x": ["N", 8, "D"]},
            two=np.array(2),
            four=np.array(4),
        ),
        {"x": (2, 8, 1)},
        {"x": (2, 8, 2)},
        "axis 2 is 2, expected 1",
    ),
    "sides of a matrix": (
        over([node("Det", "x", "y")], {"x": ["N", "A", "B"]}),
        {"x": (2, 3, 3)},
        {"x": (2, 3, 2)},
        "A is 3 in x but 2 in x",
    ),
    "no more rows than there are": (
        positions(),
        {"x": (2, 5, 2)},
        {"x": (2, 6, 2)},
        r"-T \+ 5 would be -1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_become_one(name: str) -> None:
    made, shapes, wrong, message = CASES[name]
    compiled: Any = rnncc.compile(made)
    inputs = {name: drawn(*shape) for name, shape in shapes.items()}
    want = interpreted(made, inputs, shapes={n: list(s) for n, s in shapes.items()})["y"]
    np.testing.assert_allclose(compiled.run(inputs)["y"], want, 1e-4, 1e-5)
    with pytest.raises(ArrayError, match=message):
        compiled.run({name: drawn(*shape) for name, shape in wrong.items()})


def test_a_rank_that_the_rest_takes_either_way_is_refused() -> None:
    made = squeezed(["N", "C", 4], [node("Neg", "z", "y")])
    with pytest.raises(CompileError, match="may take its then branch, which cannot be built"):
        rnncc.compile(made)
    assert rnncc.compile(made, shapes={"x": ("N", 1, 4)}).outputs["y"].shape == ("N", 4)
    assert rnncc.compile(made, shapes={"x": ("N", 3, 4)}).outputs["y"].shape == ("N", 3, 4)


def test_branches_that_neither_fit_the_rest_are_refused() -> None:
    made = squeezed(["N", "C", 4], [node("MatMul", "z w", "y")], w=drawn(5, 2))
    with pytest.raises(CompileError, match="may take its then branch, which cannot be built"):
        rnncc.compile(made)


def test_time_keeps_its_name() -> None:
    """A stream looks for T, whichever input comes first."""
    made = over([node("Add", "a b", "y")], {"a": ["rows", "N"], "b": ["T", "N"]})
    compiled: Any = rnncc.compile(made)
    assert compiled.inputs["a"].shape == ("T", "N")


def test_a_branch_that_may_not_be_taken_forces_no_number() -> None:
    """Symbols become one there too; but the other branch may take other sizes."""

    def chosen(shape: list[int | str], w: Any) -> Any:
        branches = [
            graph([node("Add", "x w", "t")], [], [info("t", None)], {"w": w}),
            graph([node("Neg", "x", "e")], [], [info("e", None)]),
        ]
        names = ("then_branch", "else_branch")
        one = node("If", "c", "y", **dict(zip(names, branches, strict=True)))
        return model([one], [info("x", shape), info("c", [], "i1")], [info("y", None)])

    with pytest.raises(CompileError, match="may take its then branch, which cannot be built"):
        rnncc.compile(chosen(["N"], drawn(3)))


@pytest.mark.parametrize("pads", [[0, 0], [0, 1], [3, 3]])
def test_formulas_that_are_never_equal_are_refused(pads: list[int]) -> None:
    """Windows of 3 with other pads than one on both sides are fewer or more than rows."""
    nodes = [node("Conv", "x k", "a", pads=pads, strides=[1]), node("Add", "a x", "y")]
    made = over(nodes, {"x": ["N", 2, "T"]}, k=drawn(2, 2, 3))
    with pytest.raises(CompileError, match="shapes do not broadcast"):
        rnncc.compile(made)


def test_what_differs_in_several_axes_is_learnt_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that is halved twice on one way, and cut to a fourth on the other."""
    halves = {"strides": [2, 2], "kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [
        node("MaxPool", "x", "a", **halves),
        node("MaxPool", "a", "b", **halves),
        node("MaxPool", "x", "c", kernel_shape=[1, 1], strides=[8, 8]),
        node("Resize", "c _ scales", "d", mode="nearest"),
        node("Add", "b d", "y"),
    ]
    made = over(nodes, {"x": [1, 1, "H", "W"]}, scales=np.array([1, 1, 2, 2], np.float32))
    monkeypatch.setattr(
        "rnncc.frontends.onnx.formulas.learning.MOST_LEARNT", 2
    )  # once, then as learnt
    x = drawn(1, 1, 16, 24)
    assert interpreted(made, {"x": x})["y"].shape == (1, 1, 4, 6)


def test_what_cannot_be_equal_is_refused_in_the_files_words() -> None:
    made = over([node("Concat", "a b", "y", axis=1)], {"a": ["N", 4, 2], "b": ["N", 4, 3]})
    with pytest.raises(CompileError, match="shapes N x 4 x 2 and N x 4 x 3, which differ"):
        interpreted(made, {})
