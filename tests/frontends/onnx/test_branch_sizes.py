"""Branches whose results have other sizes, where a comparison of sizes decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import assert_close, by_onnxruntime, graph, info, model, node

NUMBERS = {
    "zero": np.array(0),
    "one": np.array(1),
    "eight": np.array(8),
    "axis": np.array([1]),
    "start": np.array([0]),
    "none": np.array([0]),
    "four": np.array([4]),
    "end": np.array([2**31 - 1]),
}
COMPARED = {
    "less": ("Less", "t eight"),
    "more": ("Greater", "t eight"),
    "equal": ("Equal", "t eight"),
    "at least": ("GreaterOrEqual", "t eight"),
}


def _if(condition: list[Any], then: list[Any], otherwise: list[Any], rest: list[Any]) -> Any:
    """x [N, T, 2] by one of two branches that give `a` and `b`, then the rest of `chosen`."""
    branches = {
        "then_branch": graph(then, [], [info("a", None)]),
        "else_branch": graph(otherwise, [], [info("b", None)]),
    }
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "t"),
        *condition,
        node("If", "c", "chosen", **branches),
        *rest,
    ]
    return model(nodes, [info("x", ["N", "T", 2])], [info("y", None)], NUMBERS, opset=18)


def _padded(name: str) -> list[Any]:
    """x with `short` rows behind it."""
    return [
        node("Unsqueeze", "short none", "behind"),
        node("Concat", "none behind", "pads", axis=0),
        node("Pad", "x pads _ axis", name),
    ]


def _kept(name: str) -> list[Any]:
    return [node("Identity", "x", name)]


def _cut(name: str) -> list[Any]:
    return [
        node("Unsqueeze", "eight none", "last"),
        node("Slice", "x start last axis", name),
    ]


SHORT = node("Sub", "eight t", "short")
REST = [node("ReduceSum", "chosen axis", "sums"), node("Add", "chosen sums", "y")]


def to_a_multiple() -> Any:
    """As many rows as the next multiple of 8 has."""
    condition = [
        node("Mod", "t eight", "left"),
        node("Sub", "eight left", "missing"),
        node("Mod", "missing eight", "short"),
        node("Greater", "short zero", "c"),
    ]
    return _if(condition, _padded("a"), _kept("b"), REST)


def case(compared: str, then: list[Any], otherwise: list[Any]) -> Any:
    kind, operands = COMPARED[compared]
    return _if([SHORT, node(kind, operands, "c")], then, otherwise, REST)


MADE = {
    "filled up": case("less", _padded("a"), _kept("b")),
    "cut": case("more", _cut("a"), _kept("b")),
    "doubled": case("equal", [node("Concat", "x x", "a", axis=1)], _kept("b")),
    "doubled or cut": case("at least", [node("Concat", "x x", "a", axis=1)], _kept("b")),
    "to a multiple": to_a_multiple(),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", MADE)
def test_sizes_follow_the_branch(name: str) -> None:
    compiled: Any = rnncc.compile(MADE[name])
    for steps in (1, 5, 7, 8, 9, 16, 17):
        x = np.random.default_rng(steps).standard_normal((3, steps, 2)).astype(np.float32)
        assert_close(compiled.run({"x": x}), by_onnxruntime(MADE[name], {"x": x}))


def test_a_size_is_no_more_complicated_than_it_must_be() -> None:
    sizes = {name: str(rnncc.compile(m).outputs["y"].shape[1]) for name, m in MADE.items()}
    assert sizes["filled up"] == "max(T - 8, 0) + 8"
    assert sizes["cut"] == "T - max(T - 8, 0)"
    assert "max" not in sizes["to a multiple"]  # there is nothing to fill up in the other branch


def test_a_branch_that_the_rest_cannot_take_is_not_built() -> None:
    """A mean has no axis of time that could be turned."""
    condition = [node("Less", "t eight", "c")]
    mean = [node("ReduceMean", "x axis", "a", keepdims=0)]
    cut = [node("Slice", "x four end axis", "b")]
    made = _if(condition, mean, cut, [node("Transpose", "chosen", "y", perm=[0, 2, 1])])
    compiled: Any = rnncc.compile(made)
    x = np.random.default_rng(0).standard_normal((3, 9, 2)).astype(np.float32)
    np.testing.assert_allclose(compiled.run({"x": x})["y"], x[:, 4:].transpose(0, 2, 1), 1e-6)
    with pytest.raises(ArrayError, match="T - 8 would be -1"):
        compiled.run({"x": x[:, :7]})


def test_a_rank_that_the_rest_takes_either_way_is_refused() -> None:
    condition = [node("Less", "t eight", "c")]
    mean = [node("ReduceMean", "x axis", "a", keepdims=0)]
    made = _if(condition, mean, _kept("b"), [node("Neg", "chosen", "y")])
    with pytest.raises(CompileError, match='branches that give "chosen" as f32 N x 2 and as'):
        rnncc.compile(made)
