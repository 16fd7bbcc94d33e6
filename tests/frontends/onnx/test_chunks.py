"""Loops over chunks of an axis, `x[:, i:i + 3]`, of which the last may have fewer rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from tests.frontends.onnx.models import assert_close, body, by_onnxruntime, info, model, node
from tests.frontends.onnx.partial_rows import compared

pytestmark = pytest.mark.peers

NUMBERS: dict[str, Any] = {
    **{"zero": np.array(0), "one": np.array([1]), "two": np.array(2), "three": np.array(3)},
    **{"axis": np.array([0]), "most": np.array(2**31 - 1), "yes": np.array(True)},
    **{"half": np.float32(0.5), "flat": np.array([0, 6])},
}
SIZES = [
    node("Shape", "x", "sizes", start=1, end=2),
    node("Squeeze", "sizes", "t"),
    node("Add", "t two", "more"),
    node("Div", "more three", "chunks"),
]
CHUNK = [
    node("Unsqueeze", "k axis", "start"),
    node("Add", "k three", "k2"),
    node("Unsqueeze", "k2 axis", "end"),
    node("Slice", "x start end one", "chunk"),
]
MEAN = [node("ReduceMean", "chunk", "mean", axes=[1], keepdims=1), node("Mul", "v half", "w")]
MEAN += [node("Add", "w mean", "v2")]


def untyped(inside: Any) -> Any:
    """A body whose carried values are of the types of what they start as."""
    for declared in (*inside.input[2:], *inside.output[1:]):
        declared.ClearField("type")
    return inside


def looped(nodes: list[Any], tested: bool) -> Any:
    """Over chunks of three rows, with a list `s` and a state, by their number or by a test before
    each."""
    nodes = [*nodes, node("SequenceInsert", "s row", "s2")]
    if tested:
        inside = untyped(body([*CHUNK, *nodes, node("Less", "k2 t", "on")], "k v s", "", "on"))
        loop = node("Loop", "most first zero h e", "k3 y z", body=inside)
    else:
        count = node("Mul", "i three", "k")
        nodes = [count, *CHUNK, *nodes, node("Identity", "go", "on")]
        loop = node("Loop", "chunks yes h e", "y z", body=untyped(body(nodes, "v s", "", "on")))
    before = [*SIZES, node("Less", "zero t", "first"), node("SequenceEmpty", "", "e")]
    behind = node("ConcatFromSequence", "z", "rows", axis=1)
    inputs = [info("x", ["N", "T", 2]), info("h", ["N", 1, 2])]
    outputs = [info("y", None), info("rows", None)]
    return model([*before, loop, behind], inputs, outputs, NUMBERS)


def given(steps: int, batch: int = 2) -> Any:
    draw = np.random.default_rng(steps).standard_normal
    x, h = draw((batch, steps, 2)), draw((batch, 1, 2))
    return {"x": x.astype(np.float32), "h": h.astype(np.float32)}


@pytest.mark.parametrize("tested", [False, True])
def test_a_last_chunk_of_fewer_rows(tested: bool) -> None:
    made = looped([*MEAN, node("Add", "chunk v", "row")], tested)
    compared(made, [given(1), given(3, 1), given(4), given(11, 3)])


@pytest.mark.parametrize("tested", [False, True])
def test_chunks_that_become_one_row_each(tested: bool) -> None:
    made = looped([*MEAN, node("Tanh", "v2", "row")], tested)
    compared(made, [given(2), given(7)])
    assert rnncc.compile(made).outputs["rows"].shape == ("N", "T/3", 2)


def test_what_takes_whole_chunks_alone() -> None:
    """A product that needs three rows: lengths of other chunks are refused, as before."""
    more = [node("Reshape", "chunk flat", "wide"), node("ReduceSum", "wide one", "sum")]
    more += [node("Unsqueeze", "sum one", "row"), node("Tanh", "v", "v2")]
    made = looped(more, False)
    compiled: Any = rnncc.compile(made)
    for inputs in (given(3), given(9)):
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))
    with pytest.raises(ArrayError, match="would be -"):
        compiled.run(given(4))
