"""Lists of tensors and optional values: against ONNX Runtime, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import rnncc
from rnncc import onnx_backend
from rnncc.errors import CompileError
from rnncc.frontends.onnx.scope import schema_of
from rnncc.frontends.onnx.table import OPERATORS
from tests.frontends.onnx.models import (
    body,
    by_onnxruntime,
    graph,
    imported,
    info,
    interpreted,
    model,
    node,
    random_models,
)
from tests.frontends.onnx.random_lists import list_info, list_models

X = np.arange(12, dtype=np.float32).reshape(4, 3)
PLACES = {
    "zero": np.array(0),
    "one": np.array(1),
    "last": np.array(-1),
    "before": np.array(-2),
    "far": np.array(7),
}
TURNS = {"two": np.array(2), "three": np.array(3), "many": np.array(100)}
CONSTANTS = {**PLACES, **TURNS, "ones": np.array([1, 1]), "limit": np.float32(1)}
YES = {"yes": np.array(True)}


def assert_same(got: Any, want: Any) -> None:
    """Arrays, or lists of them."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
        return
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    assert got.shape == want.shape and got.dtype == want.dtype


def check(made: Any, inputs: dict[str, Any]) -> None:
    want = list(by_onnxruntime(made, inputs).values())
    for backend in (onnx_backend.Interpreter, onnx_backend.Backend):
        assert_same(list(backend.prepare(made).run(inputs)), want)


@pytest.mark.peers
@random_models
@given(list_models())
def test_random_compositions(case: tuple[Any, dict[str, Any]]) -> None:
    check(*case)


GROWS = [node("Add", "x v", "v2"), node("Identity", "go", "go2")]


def iteration(nodes: list[Any], lists: str, states: str = "v") -> Any:
    """A loop's body that carries lists too, each named by a letter."""
    inside = body(nodes, states=states, condition="go2")
    inside.input.extend(list_info(name) for name in lists)
    inside.output.extend(list_info(f"{name}2") for name in lists)
    return inside


def loop(nodes: list[Any], carried: str, iterations: str = "three") -> list[Any]:
    """A loop that carries x and lists, s and t in its body, from these; it gives y, z and w."""
    lists = "st"[: len(carried.split())]
    inside = iteration([*GROWS, *nodes], lists)
    outputs = " ".join("yzw"[: 1 + len(lists)])
    return [
        node("SequenceEmpty", "", "e"),
        node("SequenceConstruct", "x x", "d"),
        node("Loop", f"{iterations} _ x {carried}", outputs, body=inside),
    ]


APPENDS = [node("SequenceInsert", "s v2", "s2")]
COUNTS = [node("SequenceLength", "s", "k"), node("Cast", "k", "q", to=1)]
COUNTS += [node("SequenceInsert", "s q", "s2")]
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
    "reads the length": loop(COUNTS, "e"),
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
    ]
    outputs = [info("found", None)]
    if not ends:
        nodes += [node("SequenceInsert", "z h zero", "path"), node("SequenceAt", "path zero", "h2")]
        nodes += [node("SequenceLength", "path", "count")]
        nodes += [node("ConcatFromSequence", "path", "all", axis=0)]
        outputs += [info("h2", None), info("count", None, "i64"), info("all", None)]
    made = model(nodes, [info("x", ["T", 3]), info("h", [3])], outputs, CONSTANTS | YES)
    for steps in (1, 4):
        check(made, {"x": X[:steps] / 8, "h": X[0] / 8})


def choice(one: list[Any], other: list[Any]) -> Any:
    """An If whose branches end in `a` and `b`."""
    then, otherwise = graph(one, [], [list_info("a")]), graph(other, [], [list_info("b")])
    return node("If", "c", "y", then_branch=then, else_branch=otherwise)


@pytest.mark.peers
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("equal", [True, False])
def test_if_on_lists(taken: bool, equal: bool) -> None:
    """Of equal lengths the program has both branches, else the back end compiles one."""
    one = [node("Exp", "x", "p"), node("SequenceConstruct", "p x", "a")]
    more = "x x" if equal else "x x x"
    chosen = choice(one, [node("SequenceConstruct", more, "b")])
    made = model([chosen], [info("x", [4, 3]), info("c", [], "i1")], [list_info("y")])
    check(made, {"x": X / 4, "c": np.array(taken)})
    if equal:
        assert "rnn.scan" in str(imported(made).module)


def test_outputs_of_a_compiled_list(tmp_path: Path) -> None:
    """They have names of their own, legal in C."""
    nodes = [node("SplitToSequence", "x two", "y", axis=0)]
    made = model(nodes, [info("x", [4, 3])], [list_info("y")], {"two": np.array(2)})
    found = rnncc.compile(made).run({"x": X})
    assert list(found) == ["y.0", "y.1"]
    np.testing.assert_array_equal(np.concatenate([*found.values()]), X)
    rnncc.build(made, out=tmp_path, name="parts")
    assert "float *y_0;" in (tmp_path / "parts.h").read_text()


def test_lists_of_other_lengths_are_compiled_anew() -> None:
    nodes = [node("ConcatFromSequence", "s", "y", axis=0), node("SequenceAt", "s last", "z")]
    outputs = [info("y", None), info("z", None)]
    prepared = onnx_backend.prepare(model(nodes, [list_info("s")], outputs, PLACES))
    for parts in ([X], [X, X[:1]], [X[:1], X], [X]):
        y, z = prepared.run([parts])
        np.testing.assert_array_equal(y, np.concatenate(parts))
        np.testing.assert_array_equal(z, parts[-1])


def test_sizes_beside_a_list_are_numbers() -> None:
    """Of one name in the file, they need not be of one symbol."""
    listed = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["N"])
    nodes = [node("SequenceAt", "s one", "a"), node("Add", "a x", "y")]
    made = model(nodes, [listed, info("x", ["N"])], [info("y", None)], PLACES)
    (y,) = onnx_backend.run_model(made, [[X[0, :2], X[1]], X[2]])
    np.testing.assert_array_equal(y, X[1] + X[2])


def test_elements_that_decide_a_shape_are_constants() -> None:
    sizes = helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None)
    nodes = [node("SequenceAt", "s zero", "k"), node("Reshape", "x k", "y")]
    prepared = onnx_backend.prepare(
        model(nodes, [info("x", ["N"]), sizes], [info("y", None)], PLACES)
    )
    for shape in ([3, 4], [2, 6], [12]):
        (y,) = prepared.run([X.reshape(-1), [np.array(shape)]])
        np.testing.assert_array_equal(y, X.reshape(shape))


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


def test_if_on_empty_lists() -> None:
    chosen = choice([node("SequenceEmpty", "", "a")], [node("SequenceEmpty", "", "b")])
    nodes = [chosen, node("SequenceLength", "y", "n")]
    made = model(nodes, [info("c", [], "i1")], [info("n", None, "i64")])
    assert interpreted(made, {"c": np.array(True)})["n"] == 0


def test_optional_values() -> None:
    type_ = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    then = graph([node("OptionalGetElement", "o", "a")], [], [info("a", None)])
    nodes = [
        node("OptionalHasElement", "o", "has"),
        node("If", "has", "y", then_branch=then, else_branch=graph([], [], [info("x", None)])),
        node("Identity", "o", "same"),
    ]
    inputs = [info("x", [4, 3]), helper.make_value_info("o", type_)]
    made = model(nodes, inputs, [info("y", None), helper.make_value_info("same", type_)], opset=18)
    prepared = onnx_backend.prepare(made)
    for element in (None, X[:2], np.float32(3), None):
        y, same = prepared.run([X, element])
        np.testing.assert_array_equal(y, X if element is None else element)
        assert same is None if element is None else (same == element).all()


def test_one_node() -> None:
    made = node("SequenceInsert", "s x p", "y")
    (y,) = onnx_backend.run_node(made, [[X, X[:1]], X[1:], np.array(1)])
    assert_same(y, [X, X[1:], X[:1]])


def test_empty_and_nothing_alone() -> None:
    made = model([node("SequenceEmpty", "", "y")], [info("x", [3])], [list_info("y")])
    assert onnx_backend.run_model(made, [X[0]]) == ([],)
    with pytest.raises(CompileError, match="has outputs that are empty lists or nothing"):
        rnncc.compile(made)


LISTED = node("SequenceConstruct", "x x", "s")
REFUSED: dict[str, tuple[list[Any], str]] = {
    "a place beyond": (
        [LISTED, node("SequenceAt", "s far", "y")],
        "node 'y' (SequenceAt): takes place 7 of a list of 2",
    ),
    "erased beyond": (
        [LISTED, node("SequenceErase", "s far", "y")],
        "node 'y' (SequenceErase): takes place 7 of a list of 2",
    ),
    "of nothing": (
        [node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "y")],
        "node 'y' (SequenceErase): takes an element from an empty list",
    ),
    "a list for a tensor": (
        [LISTED, node("Exp", "s", "y")],
        "node 'y' (Exp): input \"s\" is a list of 2, not a tensor",
    ),
    "a tensor for a list": (
        [node("SequenceAt", "x zero", "y")],
        "node 'y' (SequenceAt): input \"x\" is a tensor, not a list",
    ),
    "a list in a list": (
        [LISTED, node("SequenceInsert", "s s", "y")],
        "node 'y' (SequenceInsert): input \"s\" is a list of 2, not a tensor",
    ),
    "elements of two types": (
        [node("SequenceConstruct", "x zero", "y")],
        "node 'y' (SequenceConstruct): has inputs of types float32 and int64, which must be equal",
    ),
    "a computed place": (
        [LISTED, node("SequenceAt", "s k", "y")],
        "node 'y' (SequenceAt): input \"k\" is computed by the model, and must be known "
        "(it decides the shape or form of the result)",
    ),
    "parts that do not fit": (
        [node("SplitToSequence", "x ones", "y", axis=1)],
        "node 'y' (SplitToSequence): splits an axis of 3 into [1, 1]",
    ),
    "parts of an open axis": (
        [node("SplitToSequence", "x ones", "y")],
        "node 'y' (SplitToSequence): splits an axis of N elements, which is open "
        "(--shape gives an input's sizes)",
    ),
    "an open list as an output": (
        [node("SplitToSequence", "x", "y")],
        'output "y": takes a list of N elements apart, whose length is open '
        "(--shape gives an input's sizes)",
    ),
    "nothing's element": (
        [
            helper.make_node("Optional", [], ["o"], type=info("x", None).type),
            node("OptionalGetElement", "o", "y"),
        ],
        "node 'y' (OptionalGetElement): takes the element of an optional value that has none",
    ),
    "branches of two lengths": (
        [choice([node("SequenceConstruct", "x x", "a")], [node("SequenceConstruct", "x", "b")])],
        "node 'y' (If): has branches that give \"y\" as a list of 2: f32 N x 3, f32 N x 3 and as "
        "a list of 1: f32 N x 3 (--bind c=VALUE may decide the condition)",
    ),
    "a length that a run decides": (
        loop(APPENDS, "e", "k"),
        "node 'y' (Loop): runs as often as the run decides, and has scan outputs, whose number of "
        "rows the run would decide (--max-iterations bounds it)",
    ),
    "some in front of others": (
        [
            LISTED,
            node(
                "Loop",
                "_ c x s",
                "v9 y",
                body=iteration(
                    [
                        *[node("Exp", "v", "v2"), node("SequenceInsert", "s v zero", "s2")],
                        *[node("ReduceSum", "v", "sum", keepdims=0)],
                        *[node("Less", "sum limit", "b"), node("Less", "i three", "d")],
                        node("And", "b d", "go2"),
                    ],
                    "s",
                ),
            ),
        ],
        "node 'v9' (Loop): puts elements in front of those of a list, and the run decides how many "
        "(in front of none that is supported)",
    ),
    "many iterations that read what they append": (
        loop([node("SequenceAt", "s zero", "k"), *COUNTS[1:]], "e", "many"),
        "node 'y' (Loop): node 'k' (SequenceAt): reads a list that the iterations of a loop "
        "append to (a loop of up to 64 known iterations may)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    nodes, told = REFUSED[name]
    inputs = [info("x", ["N", 3]), info("k", [], "i64"), info("c", [], "i1")]
    made = model(nodes, inputs, [list_info("y")], CONSTANTS, opset=18)
    with pytest.raises(CompileError) as error:
        rnncc.compile(made)
    assert str(error.value) == f"<model>: {told}"


def test_two_outputs_of_one_name() -> None:
    nodes = [LISTED, node("Exp", "x", "s.1")]
    made = model(nodes, [info("x", [3])], [info("s.1", None), list_info("s")])
    with pytest.raises(CompileError, match='output "s": has an element of the name of another'):
        imported(made)


def test_lists_of_lists_are_refused() -> None:
    nested = helper.make_sequence_type_proto(list_info("s").type)
    made = model([node("SequenceLength", "s", "y")], [helper.make_value_info("s", nested)], [])
    made.graph.output.append(info("y", None, "i64"))
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="a list of tensors, and the file"):
        onnx_backend.run_model(made, [[X, X]])


@pytest.mark.parametrize("given", ["s", "o", "e"])
def test_no_operator_breaks_on_what_is_no_tensor(given: str) -> None:
    """Each takes a list or an optional value for what it is, or says that it does not."""
    nodes = [LISTED, node("SequenceEmpty", "", "e")]
    nodes.append(helper.make_node("Optional", [], ["o"], type=info("x", None).type))
    for kind in OPERATORS:
        schema = None if "." in kind else schema_of(kind, 18, "")
        if schema is None or schema.domain:
            continue
        for at in range(max(1, min(len(schema.inputs), 6))):
            names = ["x"] * max(at + 1, min(schema.min_input, 6))
            names[at] = given
            made = helper.make_node(kind, names, ["y"], axis=0)
            try:
                interpreted(
                    model([*nodes, made], [info("x", [2, 3])], [info("y", None)], opset=18),
                    {"x": X[:2]},
                )
            except CompileError:
                continue
