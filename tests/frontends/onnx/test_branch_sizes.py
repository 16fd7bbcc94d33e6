"""Branches whose results have other sizes, where a comparison of sizes or the run decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from rnncc.packaging.texts import header
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    graph,
    imported,
    info,
    model,
    node,
)

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


def _if(
    condition: list[Any],
    then: list[Any],
    otherwise: list[Any],
    rest: list[Any],
    outputs: Sequence[str] = ("y",),
) -> Any:
    """x [N, T, 2] by one of two branches that give `a` and `b`, then the rest of `chosen`.

    Without nodes for the condition it is an input.
    """
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
    inputs = [info("x", ["N", "T", 2]), *([] if condition else [info("c", [], "i1")])]
    return model(nodes, inputs, [info(name, None) for name in outputs], NUMBERS, opset=18)


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


SQUEEZED = [node("Squeeze", "x axis", "a")]
GOING_ON = {
    "a reshape": [node("Reshape", "chosen rows", "y")],
    "two ways that meet": [
        *(node("Neg", "chosen", "less"), node("Relu", "chosen", "more")),
        *(node("Add", "less more", "sum"), node("Flatten", "sum", "y")),
    ],
    "what it reads is computed from it": [
        *(node("ReduceSum", "chosen", "all", keepdims=0), node("Mul", "chosen all", "scaled")),
        *(node("Reshape", "scaled rows", "flat"), node("Relu", "flat", "y")),
    ],
    "inputs and outputs are left out": [
        node("Dropout", "chosen", "first _"),
        *(node("Reshape", "first rows", "flat"), node("Clip", "flat _ half", "y")),
    ],
}


def _squeezed(rest: list[Any]) -> Any:
    """x [N, 1, T] or [N, T] of it, then the rest."""
    branches = {
        "then_branch": graph(SQUEEZED, [], [info("a", None)]),
        "else_branch": graph(_kept("b"), [], [info("b", None)]),
    }
    inputs = [info("x", ["N", 1, "T"]), info("c", [], "i1")]
    nodes = [node("If", "c", "chosen", **branches), *rest]
    constants = NUMBERS | {"rows": np.array([0, -1]), "half": np.float32(0.5)}
    return model(nodes, inputs, [info("y", None)], constants, opset=18)


@pytest.mark.peers
@pytest.mark.parametrize("name", GOING_ON)
def test_branches_go_on_until_their_ranks_meet(name: str) -> None:
    made = _squeezed(GOING_ON[name])
    made.graph.node.extend([made.graph.node.pop(0)])  # in any order
    compiled = rnncc.compile(made)
    made = _squeezed(GOING_ON[name])
    for condition in (True, False):
        inputs = {"x": np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 1, 5)}
        inputs["c"] = np.array(condition)
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))


@pytest.mark.parametrize(
    "rest",
    [
        [node("Relu", "chosen", "y")],
        [
            *(node("Relu", f"{i or 'chosen'}", f"{i + 1}") for i in range(20)),
            node("Reshape", "20 rows", "y"),
        ],
        [node("Relu", "chosen", "a"), node("Reshape", "a rows", "y")],
    ],
    ids=["an output", "after too many nodes", "a branch has another value of the name"],
)
def test_ranks_that_do_not_meet(rest: list[Any]) -> None:
    with pytest.raises(CompileError, match='branches that give "chosen" as f32 N x T and as'):
        rnncc.compile(_squeezed(rest))


def _one_behind_the_other(count: int, last: list[Any]) -> Any:
    """`x.squeeze(1) if c else x`, and x again of that, so often, then the last nodes."""
    nodes, x = list[Any](), "x"
    for number in range(count):
        branches = {
            "then_branch": graph([node("Squeeze", f"{x} axis", "a")], [], [info("a", None)]),
            "else_branch": graph([node("Neg", x, "b")], [], [info("b", None)]),
        }
        nodes.append(node("If", "c", f"chosen{number}", **branches))
        x = f"x{number}"
        nodes.append(node("Reshape", f"chosen{number} whole", x))
    inputs = [info("x", ["N", 1, "T"]), info("c", [], "i1")]
    constants = NUMBERS | {"whole": np.array([0, 1, -1])}
    return model([*nodes, *last], inputs, [info("y", None)], constants, opset=18)


@pytest.mark.parametrize("rest", [[], [node("Relu", "chosen", "unread")]], ids=["none", "a node"])
def test_ranks_of_what_nothing_reads(rest: list[Any]) -> None:
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 1, 5)
    program = imported(_squeezed([*rest, node("Neg", "x", "y")]))
    np.testing.assert_array_equal(run(program, {"x": x, "c": np.array(True)})["y"], -x)


@pytest.mark.peers
def test_many_branches_in_a_row_go_on() -> None:
    made = _one_behind_the_other(20, [node("Relu", "x19", "y")])
    program = imported(made)
    for condition in (True, False):
        inputs = {"x": np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 1, 5)}
        inputs["c"] = np.array(condition)
        assert_close(run(program, inputs), by_onnxruntime(made, inputs))


def test_the_branches_that_do_not_meet_are_named() -> None:
    branches = _one_behind_the_other(2, [node("Relu", "chosen1", "y")])
    with pytest.raises(CompileError, match='branches that give "chosen1" as f32 N x T and as'):
        imported(branches)


def test_branches_go_on_with_others_once() -> None:
    """Those differ in rank outside of the first, and not within one of its branches."""
    nodes, x = [_squeezed([]).graph.node[0]], "chosen"
    for number in range(6):
        branches = {
            "then_branch": graph([node("Relu", x, "d")], [], [info("d", None)]),
            "else_branch": graph([node("Neg", x, "e")], [], [info("e", None)]),
        }
        x = f"x{number}"
        nodes.append(node("If", "c", x, **branches))
    made = _squeezed([node("Reshape", f"{x} rows", "y")])
    reshape = made.graph.node.pop()
    del made.graph.node[:]
    made.graph.node.extend([*nodes, reshape])
    assert str(imported(made).module).count("rnn.scan") < 2 * 2 * 7 * 2


@pytest.mark.peers
def test_branches_in_functions_go_on() -> None:
    made = _squeezed(GOING_ON["a reshape"])
    inside = [made.graph.node.pop(0), made.graph.node.pop(0)]
    held = [node("Constant", "", n, value_ints=NUMBERS[n].tolist()) for n in ("axis",)]
    held.append(node("Constant", "", "rows", value_ints=[0, -1]))
    opsets = [helper.make_opsetid("", 18)]
    nodes = [*held, *inside]
    made.functions.append(helper.make_function("local", "flat", ["x", "c"], ["y"], nodes, opsets))
    made.graph.node.append(node("flat", "x c", "y", domain="local"))
    made.opset_import.append(helper.make_opsetid("local", 1))
    compiled = rnncc.compile(made)
    for condition in (True, False):
        inputs = {"x": np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 1, 5)}
        inputs["c"] = np.array(condition)
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))


@pytest.mark.peers
def test_ranks_that_sizes_decide_and_that_meet() -> None:
    condition = [node("Less", "t eight", "c")]
    mean = [node("ReduceMean", "x axis", "a", keepdims=0)]
    made = _if(condition, mean, _kept("b"), [node("ReduceSum", "chosen", "y", keepdims=0)])
    compiled = rnncc.compile(made)
    for steps in (5, 8, 9):
        inputs = {"x": np.linspace(-1, 2, 4 * steps, dtype=np.float32).reshape(2, steps, 2)}
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))


def test_a_rank_that_the_rest_takes_either_way_is_refused() -> None:
    condition = [node("Less", "t eight", "c")]
    mean = [node("ReduceMean", "x axis", "a", keepdims=0)]
    made = _if(condition, mean, _kept("b"), [node("Neg", "chosen", "y")])
    with pytest.raises(CompileError, match='branches that give "chosen" as f32 N x 2 and as'):
        rnncc.compile(made)


def _rows(name: str) -> list[Any]:
    """The rows from the fourth on of the first element of the batch that are positive."""
    return [
        node("ReduceMax", "x batch_and_channels", "most", keepdims=0),
        node("Greater", "most nothing", "mask"),
        node("Compress", "x mask", name, axis=1),
    ]


TRIMMED = [node("Slice", "x four end axis", "a")]
EVERY_OTHER = [node("Slice", "x start end axis two", "a")]
TWICE = [node("Concat", "x x", "a", axis=1)]
NUMBERS |= {
    "two": np.array([2]),
    "one_element": np.array([1]),
    "batch_and_channels": np.array([0, 2]),
    "nothing": np.array(0, np.float32),
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 6, 2),
    "r": np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 6, 2),
    "taps": np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 2, 3),
    "last_row": np.array([-1]),
}
OF_BOTH = [node("Slice", "x of_both ends both", "a")]
NUMBERS |= {"of_both": np.array([1, -3]), "ends": np.array([99, 99]), "both": np.array([0, 1])}
STEPS_FIRST = node("Transpose", "chosen", "steps", perm=[1, 0, 2])
RECURRENT = [STEPS_FIRST, node("GRU", "steps w r", "y last", hidden_size=2)]
DECIDED = {
    "trimmed": _if([], TRIMMED, _kept("b"), REST),
    "trimmed and given": _if([], TRIMMED, _kept("b"), [node("Neg", "chosen", "y")]),
    "filled up": _if([], TWICE, _kept("b"), REST),
    "shorter or longer": _if([], TRIMMED, [node("Concat", "x x", "b", axis=1)], REST),
    "at half the rate": _if([], EVERY_OTHER, _kept("b"), RECURRENT, ("y", "last")),
    "the last row": _if([], [node("Slice", "x last_row end axis", "a")], _kept("b"), RECURRENT),
    "known sizes": _if(
        [],
        [node("Slice", "x start two axis", "a")],
        [node("Slice", "x start four axis", "b")],
        REST,
    ),
    "chosen rows or all twice": _if([], _rows("a"), [node("Concat", "x x", "b", axis=1)], REST),
    "all of fewer rows or chosen ones": _if([], TRIMMED, _rows("b"), REST),
    "fewer steps of fewer sequences": _if([], OF_BOTH, _kept("b"), RECURRENT, ("y", "last")),
    "fewer steps of fewer sequences, given": _if(
        [], OF_BOTH, _kept("b"), [node("Neg", "chosen", "y")]
    ),
    "chosen rows or fewer sequences": _if(
        [], _rows("a"), [node("Slice", "x start one_element", "b")], REST
    ),
    "convolved": _if(
        [],
        TWICE,
        _kept("b"),
        [
            node("Transpose", "chosen", "channels", perm=[0, 2, 1]),
            node("Conv", "channels taps", "windows", strides=[2], pads=[1, 1]),
            node("ReduceMean", "windows two", "y"),
        ],
    ),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", DECIDED)
def test_the_run_decides_the_size(name: str) -> None:
    compiled: Any = rnncc.compile(DECIDED[name])
    for steps in (1, 4, 7, 17):
        x = np.random.default_rng(steps).standard_normal((2, steps, 2)).astype(np.float32)
        for c in (False, True):
            inputs = {"x": x, "c": np.array(c)}
            want = by_onnxruntime(DECIDED[name], inputs)
            got = compiled.run(inputs)
            assert_close({output: got[output] for output in want}, want)


def test_how_many_rows_count_along_two_axes() -> None:
    """Two outputs of their own tell it; files of half-compiled models, too."""
    made = DECIDED["fewer steps of fewer sequences, given"]
    compiled: Any = rnncc.compile(made)
    assert compiled.metadata["counts"] == {"y": ["y.count", 0, "y.count.2", 1]}
    of_which = "of which the first y.count along axis 0 and y.count.2 along axis 1 count */"
    assert of_which in header(compiled.metadata)
    given = compiled.run({"x": np.ones((3, 5, 2), np.float32), "c": np.array(True)})
    assert (given["y"].shape, given["y.count"], given["y.count.2"]) == ((2, 3, 2), 2, 3)


def test_training_needs_one_size() -> None:
    with pytest.raises(CompileError, match='branches that give "chosen" as f32 N x max'):
        rnncc.compile(DECIDED["trimmed"], train=True)
