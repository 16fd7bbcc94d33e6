"""Some of the rows whose number the run decides, in other order, and loops over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from tests.frontends.onnx.models import body, info, model, node
from tests.frontends.onnx.partial_rows import compared, flags, rows

pytestmark = pytest.mark.peers

NAMED = {"axis": np.array([1]), "first": np.array([0]), "back": np.array([-1])}
CHOSEN = [node("Compress", "x c", "r", axis=0), node("ReduceSum", "r axis", "sums", keepdims=0)]
CHOSEN += [node("Greater", "sums limit", "more"), node("NonZero", "more", "i")]
WAYS: dict[str, list[Any]] = {
    "Gather": [node("Squeeze", "i first", "k"), node("Gather", "r k", "y", axis=0)],
    "GatherND": [node("Transpose", "i", "k", perm=[1, 0]), node("GatherND", "r k", "y")],
    "backwards": [node("Slice", "r back least first back", "y"), node("Identity", "i", "k")],
    "of no axes": [node("ReduceL1", "r", "y", noop_with_empty_axes=1), node("Identity", "i", "k")],
}


@pytest.mark.parametrize("way", WAYS)
def test_some_of_the_rows(way: str) -> None:
    """As `y = x[c]; y[y.sum(1) > 0]` and `y.flip(0)` are exported."""
    constants = {**NAMED, "limit": np.float32(0), "least": np.array([-(2**63)])}
    inputs = [info("x", ["T", 4]), info("c", ["T"], "i1")]
    made = model([*CHOSEN, *WAYS[way]], inputs, [info("y", None)], constants, opset=18)
    chosen = (flags(1, 0, 1, 1, 0, 1), flags(0, 0, 0, 1, 0, 0), flags(0, 0, 0, 0, 0, 0))
    compared(made, [{"x": rows(6), "c": each} for each in chosen])


def test_one_of_the_rows_by_several_axes() -> None:
    """Of a row that does not count, ONNX Runtime finds none either."""
    nodes = [node("Compress", "x c", "r", axis=0), node("GatherND", "r at", "y")]
    inputs = [info("x", ["T", 4]), info("c", ["T"], "i1"), info("at", [2, 2], "i64")]
    made = model(nodes, inputs, [info("y", None)])
    arrays = {"x": rows(3), "c": flags(1, 0, 1), "at": np.array([[0, 1], [-1, 3]])}
    compared(made, [arrays])
    with pytest.raises(RunError):
        rnncc.compile(made).run(arrays | {"at": np.array([[0, 1], [2, 3]])})


def _steps(count: list[Any], x: str) -> Any:
    """Running sums of the first rows, a row an iteration."""
    nodes = [
        node("Gather", f"{x} i", "row"),
        node("Add", "v row", "v2"),
        node("Identity", "go", "on"),
    ]
    nodes.append(node("Identity", "v2", "ys"))
    loop = node("Loop", "n _ zeros", "last all", body=body(nodes, rows="ys", condition="on"))
    outputs = [info("last", None), info("all", None)]
    inputs = [info("x", ["T", 4]), info("c", ["T"], "i1"), info("n", [], "i64")]
    names = {name for each in count for name in each.output}
    constants = {"zeros": np.zeros(4, np.float32), "first": np.array(0)}
    return model([*count, loop], [i for i in inputs if i.name not in names], outputs, constants)


def test_a_loop_over_rows_that_count() -> None:
    """It has an output of as many rows as these, without `--max-iterations`."""
    count = [node("Compress", "x c", "r", axis=0), node("Shape", "r", "s")]
    made = _steps([*count, node("Gather", "s first", "n")], "r")
    compared(made, [{"x": rows(3), "c": flags(*each)} for each in ((1, 0, 1), (1, 1, 1))])


def test_a_loop_over_rows_of_which_an_input_says_the_number() -> None:
    """An iteration beyond the rows would read one that is not there."""
    made = _steps([], "x")
    arrays = {"x": rows(3), "c": flags(1, 1, 1)}
    compared(made, [arrays | {"n": np.array(count)} for count in (1, 3)])
    with pytest.raises(RunError):
        rnncc.compile(made).run(arrays | {"n": np.array(4)})


TIES = np.array([-np.inf, 2, np.inf, 2, np.inf, -np.inf, 1], np.float32)


@pytest.mark.parametrize(
    "k, dtype, largest",
    [
        *(("two", "f32", 1), ("two", "f64", 0), ("two", "i64", 1)),
        *(("all", "f32", 0), ("all", "i64", 0), ("fewer", "f32", 0), ("fewer", "f64", 1)),
    ],
)
def test_the_first_in_order(k: str, dtype: str, largest: int) -> None:
    """Rows that do not count are not among them, whatever the others are."""
    nodes = [node("Compress", "x c", "r", axis=0), node("Shape", "r", "all")]
    nodes += [node("Min", "all three", "fewer"), node("TopK", f"r {k}", "y i", largest=largest)]
    constants = {"two": np.array([2]), "three": np.array([3])}
    inputs, outputs = [info("x", ["T"], dtype), info("c", ["T"], "i1")], [info("y", None, dtype)]
    made = model(nodes, inputs, [*outputs, info("i", None, "i64")], constants)
    numbers = TIES if dtype != "i64" else np.nan_to_num(TIES, posinf=2**62, neginf=-(2**62)) // 1
    x = numbers.astype({"f32": np.float32, "f64": np.float64, "i64": np.int64}[dtype])
    chosen = flags(1, 0, 1, 1, 0, 1, 0), flags(0, 0, 1, 0, 1, 0, 0), flags(1, 1, 1, 1, 1, 1, 1)
    compared(made, [{"x": x, "c": each} for each in chosen])
    if k == "two":
        with pytest.raises(RunError):
            rnncc.compile(made).run({"x": x, "c": flags(0, 1, 0, 0, 0, 0, 0)})


def test_rows_unlike_those_before() -> None:
    """As a best path is collapsed: `y[y != cat([-1, y[:-1]])]`."""
    nodes = [
        node("Slice", "x first back first", "start"),
        node("Concat", "least start", "before", axis=0),
    ]
    nodes += [node("Equal", "x before", "same"), node("Not", "same", "c")]
    nodes += [node("Compress", "x c", "y", axis=0)]
    constants = NAMED | {"least": np.array([-1])}
    made = model(nodes, [info("x", ["T"], "i64")], [info("y", None, "i64")], constants)
    compared(made, [{"x": np.array([2, 2, 0, 1, 1, 1, 2])}, {"x": np.array([3])}])


CHANGED = [
    *(node("Slice", "x first n first", "some"), node("Slice", "x n end first", "rest")),
    *(node("Tanh", "some", "new"), node("Concat", "new rest", "y", axis=0)),
]
BOUNDS = {"first": np.array([0]), "end": np.array([2**63 - 1])}


def test_rows_before_a_computed_one_and_behind_it_are_all_rows() -> None:
    """`y = cat([f(x[:n]), x[n:]])`, whatever n is, as many rows as x has."""
    nodes = [*CHANGED, node("Add", "x y", "z")]
    inputs = [info("x", ["T", 2]), info("n", [1], "i64")]
    made = model(nodes, inputs, [info("z", ["T", 2])], BOUNDS)
    compared(made, [{"x": rows(4, 2), "n": np.array([n])} for n in (0, 2, 9, -1, -9)])


def test_a_state_of_which_some_rows_change() -> None:
    """As cells read sequences that are sorted by length, of which fewer are left at each step."""
    nodes = [node("Greater", "lengths i", "on"), node("Cast", "on", "ones", to=7)]
    nodes += [node("ReduceSum", "ones", "m", keepdims=0), node("Reshape", "m one", "n")]
    nodes += [node("Slice", "v first n first", "some"), node("Slice", "v n end first", "rest")]
    nodes += [node("Slice", "x first n first", "xs"), node("Add", "some xs", "sum")]
    nodes += [node("Tanh", "sum", "new"), node("Concat", "new rest", "v2", axis=0)]
    nodes += [node("Identity", "go", "on2")]
    loop = node("Loop", "steps _ x", "y", body=body(nodes, condition="on2"))
    inputs = [info("x", ["N", 2]), info("lengths", ["N"], "i64"), info("steps", [], "i64")]
    constants = BOUNDS | {"one": np.array([1])}
    made = model([loop], inputs, [info("y", ["N", 2])], constants)
    lengths = np.array([3, 3, 1]), np.array([2, 0, 0])
    compared(made, [{"x": rows(3, 2), "lengths": n, "steps": np.array(4)} for n in lengths])


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_elements_put_into_rows(reduction: str) -> None:
    """As pieces are summed into words; where there is no such row the run fails."""
    nodes = [node("Compress", "x c", "r", axis=0)]
    nodes += [node("ScatterElements", "r at u", "y", axis=0, reduction=reduction)]
    inputs = [info("x", ["T", 2]), info("c", ["T"], "i1"), info("at", ["K", 2], "i64")]
    made = model(nodes, [*inputs, info("u", ["K", 2])], [info("y", None)], opset=18)
    arrays = {"x": rows(4, 2), "c": flags(1, 0, 1, 1), "u": rows(3, 2)}
    at = np.array([[0, 2], [1, -2], [2, 0]])
    compared(made, [arrays | {"at": at}])
    with pytest.raises(RunError):
        rnncc.compile(made).run(arrays | {"at": at + 1})
