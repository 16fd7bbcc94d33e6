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
