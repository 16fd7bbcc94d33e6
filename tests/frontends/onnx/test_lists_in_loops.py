"""Lists that loops and scans read, and append to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import rnncc
from rnncc import onnx_backend
from rnncc.errors import CompileError
from tests.frontends.onnx.list_models import (
    APPENDS,
    CONSTANTS,
    COUNTS,
    PLACES,
    X,
    assert_same,
    check,
    iteration,
    loop,
)
from tests.frontends.onnx.models import (
    body,
    by_onnxruntime,
    graph,
    imported,
    info,
    model,
    node,
)
from tests.frontends.onnx.random_lists import list_info

YES = {"yes": np.array(True)}
COUNTED = [*COUNTS, node("SequenceInsert", "s q", "s2")]
READS = [node("SequenceAt", "s last", "a"), node("SequenceAt", "s before", "b")]
READS += [node("Sub", "a b", "c"), node("SequenceInsert", "s c", "s2")]
SCANS = {
    "appends": loop(APPENDS, "e"),
    "appends to two": loop([*APPENDS, node("SequenceInsert", "t x", "t2")], "e e"),
    "appends to what is there": loop(APPENDS, "d", "many"),
    "appends to one, carries another": loop([*APPENDS, node("Identity", "t", "t2")], "d d"),
    "puts in front": loop([node("SequenceInsert", "s v2 zero", "s2")], "e"),
    "puts two in front of what is there": loop(
        [node("SequenceInsert", "s v2 zero", "r"), node("SequenceInsert", "r x zero", "s2")],
        "d",
        "many",
    ),
    "leaves as it is": loop([node("Identity", "s", "s2")], "e"),
    "two states in a list": loop(
        [
            node("SequenceAt", "s zero", "a"),
            node("SequenceAt", "s one", "b"),
            node("Sub", "b v", "c"),
            node("SequenceConstruct", "c a", "s2"),
        ],
        "d",
        "many",
    ),
    "reads a list from around": loop(
        [node("SequenceAt", "d one", "a"), node("SequenceInsert", "s a", "s2")], "e "
    ),
    "reads what it appended": loop(
        [
            node("SequenceInsert", "s v2", "r"),
            node("SequenceAt", "r last", "p"),
            node("SequenceInsert", "r p", "s2"),
        ],
        "e",
    ),
    "reads the last two": loop(READS, "d", "many"),
    "appends in either branch": loop(
        [
            node("ReduceSum", "v", "sum", keepdims=0),
            node("Greater", "sum limit", "big"),
            node(
                "If",
                "big",
                "s2",
                then_branch=graph([node("SequenceInsert", "s v", "a")], [], [list_info("a")]),
                else_branch=graph([node("SequenceInsert", "s x", "b")], [], [list_info("b")]),
            ),
        ],
        "e",
    ),
}
"""Loops that remain loops."""


TURN_BY_TURN = {
    "swaps two that grow": loop(
        [node("SequenceInsert", "s v2", "t2"), node("SequenceInsert", "t x", "s2")], "e e"
    ),
    "begins anew": loop([node("SequenceConstruct", "v2", "s2")], "e"),
    "reads the length": loop(COUNTED, "e"),
    "puts at both ends": loop(
        [node("SequenceInsert", "s v2 zero", "r"), node("SequenceInsert", "r x", "s2")], "e"
    ),
    "takes away": loop([node("SequenceErase", "s zero", "s2")], "d", "two"),
}


LARGE = [node("ReduceSum", "v", "sum", keepdims=0), node("Greater", "sum limit", "large")]


def appending_if(list_name: str, result: str, element: str = "v2") -> Any:
    """One more element if the state's sum is large."""
    inserted = [node("SequenceInsert", f"{list_name} {element}", "a")]
    kept = [node("Identity", list_name, "b")]
    branches = {
        "then_branch": graph(inserted, [], [list_info("a")]),
        "else_branch": graph(kept, [], [list_info("b")]),
    }
    return node("If", "large", result, **branches)


def inner_loop() -> Any:
    """Three iterations inside an iteration, each of which may append."""
    turned = [node("Neg", "u", "n"), node("Sub", "n limit", "u2"), node("Identity", "go", "go3")]
    large = [node("ReduceSum", "u", "sum", keepdims=0), LARGE[1]]
    inside = body([*turned, *large], states="u", condition="go3")
    inside.node.append(appending_if("r", "r2", "u2"))
    inside.input.append(list_info("r"))
    inside.output.append(list_info("r2"))
    return node("Loop", "three _ v s", "vn s2", body=inside)


MAY_APPEND = {
    "one": loop([*LARGE, appending_if("s", "s2")], "e", "many"),
    "behind others": loop([*LARGE, appending_if("s", "s2")], "d", "many"),
    "behind others, few iterations": loop([*LARGE, appending_if("s", "s2")], "d"),
    "behind one": [
        node("SequenceConstruct", "x", "o"),
        *loop([*LARGE, appending_if("s", "s2")], "o", "many"),
    ],
    "two, and one that is there": loop(
        [
            *LARGE,
            appending_if("s", "r"),
            node("SequenceInsert", "r x", "q"),
            appending_if("q", "s2", "x"),
        ],
        "e",
        "many",
    ),
    "in a loop inside": loop([inner_loop()], "e", "many"),
}
"""Loops that append some elements under a condition."""


@pytest.mark.peers
@pytest.mark.parametrize("name", MAY_APPEND)
def test_elements_that_may_be_appended(name: str) -> None:
    nodes = [*MAY_APPEND[name], node("ConcatFromSequence", "z", "all", axis=0, new_axis=1)]
    made = model(nodes, [info("x", ["N", 3])], [info("y", None), info("all", None)], CONSTANTS)
    arrays = {"x": (X - 5) / 64}
    want = by_onnxruntime(made, arrays)
    assert 0 < len(want["all"]) < 300
    for got in (onnx_backend.Interpreter, onnx_backend.Backend):
        assert_same(list(got.prepare(made).run(arrays)), list(want.values()))


@pytest.mark.peers
@pytest.mark.parametrize(("axis", "new"), [(0, 1), (1, 0), (-1, 1)])
def test_elements_around_those_that_a_loop_may_append(axis: int, new: int) -> None:
    """As a start before, and an end behind what a recogniser finds."""
    nodes = [*MAY_APPEND["one"], node("SequenceInsert", "z x", "p")]
    nodes += [node("SequenceInsert", "p h zero", "q")]
    nodes += [node("ConcatFromSequence", "q", "all", axis=axis, new_axis=new)]
    inputs = [info("x", ["N", 3]), info("h", ["N", 3])]
    made = model(nodes, inputs, [info("all", None)], CONSTANTS)
    compiled: Any = rnncc.compile(made)
    for x in ((X - 5) / 64, X / 1e9 - 9):
        arrays = {"x": x.astype(np.float32), "h": np.cos(X)}
        got = [compiled.run(arrays)["all"]]
        assert_same(got, list(by_onnxruntime(made, arrays).values()))


@pytest.mark.peers
@pytest.mark.parametrize("name", [*SCANS, *TURN_BY_TURN])
def test_loops(name: str) -> None:
    nodes = (SCANS | TURN_BY_TURN)[name]
    outputs = [info("y", None), *(list_info(n) for n in nodes[-1].output[1:])]
    made = model(nodes, [info("x", [4, 3])], outputs, CONSTANTS)
    check(made, {"x": X / 64})
    assert ("rnn.scan" in str(imported(made).module)) == (name in SCANS)


@pytest.mark.peers
@pytest.mark.parametrize("split", ["", "one"])
def test_rows_of_an_axis_in_a_scan(split: str) -> None:
    """The way in which exporters write `for row in x`: of any number of rows."""
    cell = [node("SequenceAt", "rows i", "a"), node("Add", "v a", "v2")]
    cell += [node("SequenceInsert", "s v2", "s2"), node("Identity", "go", "go2")]
    nodes = [
        node("SplitToSequence", f"x {split}", "rows", axis=1, keepdims=0),
        node("SequenceLength", "rows", "n"),
        node("SequenceEmpty", "", "e"),
        node("Loop", "n _ h e", "y z", body=iteration(cell, "s")),
        node("ConcatFromSequence", "z", "all", axis=0, new_axis=1),
    ]
    inputs, outputs = [info("x", [3, "T"]), info("h", [3])], [info("y", None), info("all", None)]
    made = model(nodes, inputs, outputs, {"one": np.array(1)})
    assert "rnn.scan" in str(imported(made).module)
    check(made, {"x": X.T.copy(), "h": X[0]})


@pytest.mark.peers
@pytest.mark.parametrize("ends", [False, True], ids=["all rows", "until a sum is large"])
def test_elements_put_in_front(ends: bool) -> None:
    """As decoders trace a path back, whose first element stands behind the loop."""
    cell = [node("SequenceAt", "rows i", "a"), node("Add", "v a", "v2")]
    cell += [node("SequenceInsert", "s v2 zero", "s2"), node("ReduceMax", "v2", "most", keepdims=0)]
    cell += [node("Less", "most limit", "go2") if ends else node("Identity", "go", "go2")]
    nodes = [
        node("SplitToSequence", "x", "rows", keepdims=0),
        node("SequenceLength", "rows", "n"),
        node("SequenceEmpty", "", "e"),
        node("Loop", "n yes h e", "y z", body=iteration(cell, "s")),
        node("ConcatFromSequence", "z", "found", axis=1, new_axis=1),
        node("ConcatFromSequence", "z", "flat", axis=0),
    ]
    outputs = [info("found", None), info("flat", None)]
    if not ends:
        nodes += [node("SequenceInsert", "z h zero", "path"), node("SequenceAt", "path zero", "h2")]
        nodes += [node("SequenceLength", "path", "count")]
        nodes += [node("ConcatFromSequence", "path", "all", axis=0)]
        outputs += [info("h2", None), info("count", None, "i64"), info("all", None)]
    made = model(nodes, [info("x", ["T", 3]), info("h", [3])], outputs, CONSTANTS | YES)
    for steps in (1, 4):
        check(made, {"x": X[:steps] / 8, "h": X[0] / 8})


@pytest.mark.peers
def test_the_length_of_a_list_that_a_loop_appends_to() -> None:
    """`outs.append(x[t] * len(outs))`, from a list without elements and from one of two."""
    cell = [node("SequenceLength", "s", "k"), node("Cast", "k", "f", to=TensorProto.FLOAT)]
    cell += [
        node("Gather", "x i", "a"),
        node("Mul", "a f", "c"),
        node("SequenceInsert", "s c", "s2"),
    ]
    cell += [node("Identity", "go", "go2")]
    for first in ([node("SequenceEmpty", "", "d")], [node("SequenceConstruct", "h h", "d")]):
        nodes = [*first, node("Shape", "x", "t", end=1), node("Squeeze", "t", "n")]
        nodes += [node("Loop", "n _ d", "z", body=iteration(cell, "s", states=""))]
        nodes += [node("ConcatFromSequence", "z", "y", axis=0, new_axis=1)]
        inputs = [info("x", ["T", 4]), info("h", [4])]
        made = model(nodes, inputs, [info("y", None)], CONSTANTS)
        for steps in (1, 5):
            x = np.arange(4 * steps, dtype=np.float32).reshape(steps, 4)
            check(made, {"x": x, "h": x[0]})


@pytest.mark.peers
@pytest.mark.parametrize("appended", [1, 2])
def test_the_last_elements_of_a_list_by_their_places(appended: int) -> None:
    """`cells[j - 1]` of dynamic programming, over an open number of steps; of a list that gets two
    elements in each, that is no number of elements from the end, and only known steps are built."""
    cell = [node("Add", "i one", "j"), node("Sub", "j two", "k"), node("Add", "k one", "m")]
    cell += [node("SequenceAt", "s m", "a"), node("Gather", "x j", "b"), node("Sub", "b a", "c")]
    cell += [node("SequenceInsert", "s c", "s1"), node("Identity", "go", "go2")]
    more = "SequenceInsert" if appended == 2 else "Identity"
    cell += [node(more, "s1 b" if appended == 2 else "s1", "s2")]
    nodes = [node("Shape", "x", "t", end=1), node("Squeeze", "t", "steps")]
    nodes += [node("Sub", "steps one", "n"), node("Gather", "x zero", "first")]
    nodes += [node("SequenceConstruct", "first", "d")]
    nodes += [node("Loop", "n _ d", "z", body=iteration(cell, "s", states=""))]
    nodes += [node("ConcatFromSequence", "z", "y", axis=0, new_axis=1)]
    for size in ["T", 6] if appended == 1 else [6]:
        made = model(nodes, [info("x", [size, 4])], [info("y", None)], CONSTANTS | PLACES)
        for steps in (2, 3, 6) if size == "T" else (6,):
            check(made, {"x": np.arange(4 * steps, dtype=np.float32).reshape(steps, 4)})
    if appended == 2:
        made = model(nodes, [info("x", ["T", 4])], [info("y", None)], CONSTANTS | PLACES)
        with pytest.raises(CompileError, match="shapes, types or lengths change"):
            rnncc.compile(made)


@pytest.mark.peers
@pytest.mark.parametrize("whole", [0, 1])
def test_a_list_of_rows_that_a_condition_chooses(whole: int) -> None:
    """As the first exporter writes rows that a loop appended until data ended it."""
    nodes = [
        node("Compress", "x c", "r", axis=0),
        node("SplitToSequence", "r", "rows", keepdims=whole),
        node("SequenceLength", "rows", "n"),
        node("ConcatFromSequence", "rows", "y", axis=1, new_axis=1),
    ]
    inputs = [info("x", ["N", 3]), info("c", ["N"], "i1")]
    made = model(nodes, inputs, [info("y", None), info("n", None, "i64")])
    for chosen in ([1, 0, 1], [1], [0, 0, 0, 1, 1]):
        flags = np.array(chosen, bool)
        arrays = {"x": np.arange(3 * len(flags), dtype=np.float32).reshape(-1, 3), "c": flags}
        want = list(by_onnxruntime(made, arrays).values())
        got = rnncc.compile(made).run(arrays)
        assert_same([got["y"], got["n"]], want)


@pytest.mark.peers
def test_the_last_elements_of_a_list_until_data_ends_its_loop() -> None:
    cell = [*READS, node("ReduceMax", "c", "most", keepdims=0), node("Less", "most limit", "go2")]
    inside = iteration([*cell, node("Add", "v c", "v2")], "s")
    nodes = [node("SequenceConstruct", "x h", "d"), node("Loop", "n yes x d", "y z", body=inside)]
    nodes += [node("ConcatFromSequence", "z", "all", axis=0, new_axis=1)]
    inputs = [info("x", ["N"]), info("h", ["N"]), info("n", [], "i64")]
    made = model(nodes, inputs, [info("y", None), info("all", None)], CONSTANTS | YES)
    h = np.full(3, 0.3, np.float32)
    for x in (h / 2, -h):
        arrays = {"x": x, "h": h, "n": np.array(9)}
        want = list(by_onnxruntime(made, arrays).values())
        got = rnncc.compile(made, max_iterations=20).run(arrays)
        assert_same([got["y"], got["all"]], want)


@pytest.mark.peers
@pytest.mark.parametrize("iterations", [0, 1, 70])
def test_states_in_a_list_of_a_loop_whose_count_the_run_decides(iterations: int) -> None:
    cell = [node("SequenceAt", "s zero", "a"), node("SequenceAt", "s one", "b")]
    cell += [node("Sub", "a b", "q"), node("SequenceConstruct", "b q", "s2")]
    inside = iteration([*cell, node("Identity", "go", "go2")], "s", states="")
    nodes = [node("SequenceConstruct", "x x", "d"), node("Loop", "k _ d", "y", body=inside)]
    made = model(nodes, [info("x", [4, 3]), info("k", [], "i64")], [list_info("y")], PLACES)
    assert "rnn.scan" in str(imported(made).module)
    check(made, {"x": X / 1e14, "k": np.array(iterations)})
