"""Loops over chunks of an axis, `x[:, i:i + 3]`, of which the last may have fewer rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from rnncc_runtime import ArrayError, RunError

import rnncc
from tests.frontends.onnx.models import assert_close, body, by_onnxruntime, info, model, node
from tests.frontends.onnx.partial_rows import compared

pytestmark = pytest.mark.peers

NUMBERS: dict[str, Any] = {
    **{"zero": np.array(0), "one": np.array([1]), "two": np.array(2), "three": np.array(3)},
    **{"axis": np.array([0]), "most": np.array(2**31 - 1), "yes": np.array(True)},
    **{"pace": np.array([2]), "half": np.float32(0.5), "flat": np.array([0, 6])},
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


def untyped(inside: Any, lists: bool = True) -> Any:
    """A body whose carried values are of the types of what they start as."""
    for declared in (*inside.input[2:], *inside.output[1:]):
        declared.ClearField("type")
        if lists and declared.name in ("s", "s2"):
            declared.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    return inside


LIMITED = [*CHUNK[:2], node("Min", "k2 t", "last"), node("Unsqueeze", "last axis", "end"), CHUNK[3]]
"""The same up to the end of the axis, as `x[:, i:min(i + 3, x.size(1))]`."""


def looped(nodes: list[Any], tested: bool, before: str = "s", chunk: list[Any] = CHUNK) -> Any:
    """Over chunks of three rows, with a list `s` and a state, by their number or by a test before
    each; `row` is appended to `before`."""
    nodes = [*nodes, node("SequenceInsert", f"{before} row", "s2")]
    if tested:
        inside = untyped(body([*chunk, *nodes, node("Less", "k2 t", "on")], "k v s", "", "on"))
        loop = node("Loop", "most first zero h e", "k3 y z", body=inside)
    else:
        count = node("Mul", "i three", "k")
        nodes = [count, *chunk, *nodes, node("Identity", "go", "on")]
        loop = node("Loop", "chunks yes h e", "y z", body=untyped(body(nodes, "v s", "", "on")))
    first = [*SIZES, node("Less", "zero t", "first"), node("SequenceEmpty", "", "e")]
    behind = node("ConcatFromSequence", "z", "rows", axis=1)
    inputs = [info("x", ["N", "T", 2]), info("h", ["N", 1, 2])]
    outputs = [info("y", None), info("rows", None)]
    return model([*first, loop, behind], inputs, outputs, NUMBERS)


def given(steps: int, batch: int = 2) -> Any:
    draw = np.random.default_rng(steps).standard_normal
    x, h = draw((batch, steps, 2)), draw((batch, 1, 2))
    return {"x": x.astype(np.float32), "h": h.astype(np.float32)}


@pytest.mark.parametrize("tested", [False, True])
def test_a_last_chunk_of_fewer_rows(tested: bool) -> None:
    made = looped([*MEAN, node("Add", "chunk v", "row")], tested)
    compared(made, [given(1), given(3, 1), given(4), given(11, 3)])


@pytest.mark.parametrize("length", ["three", "two"])
def test_every_other_row_of_chunks(length: str) -> None:
    """`x[:, i:i + 3:2]`, and `x[:, i:i + 2:2]`, of which the last chunk has the one row always."""
    chunk = [node("Add", f"k {length}", "k2"), node("Unsqueeze", "k2 axis", "end")]
    chunk = [CHUNK[0], *chunk, node("Slice", "x start end one pace", "chunk")]
    made = looped([*MEAN, node("Add", "chunk v", "row")], False, chunk=chunk)
    compared(made, [given(1), given(3, 1), given(11)])


@pytest.mark.parametrize("tested", [False, True])
def test_chunks_that_become_one_row_each(tested: bool) -> None:
    made = looped([*MEAN, node("Tanh", "v2", "row")], tested)
    compared(made, [given(2), given(7)])
    assert rnncc.compile(made).outputs["rows"].shape == ("N", "T/3", 2)


def test_a_limited_number_of_chunks() -> None:
    """`range(min(chunks, 2))`: the last chunk is short where the limit is not reached."""
    made = looped([*MEAN, node("Tanh", "v2", "row")], False)
    made.graph.node[3].output[0] = made.graph.node[3].name = "all"
    made.graph.node.insert(4, node("Min", "all two", "chunks"))
    compared(made, [given(2), given(5), given(6), given(11, 1)])


def test_what_takes_whole_chunks_alone() -> None:
    """A product that needs three rows: lengths of other chunks are refused, as before."""
    more = [node("Reshape", "chunk flat", "wide"), node("ReduceSum", "wide one", "sum")]
    more += [node("Unsqueeze", "sum one", "row"), node("Tanh", "v", "v2")]
    made = looped(more, False)
    compiled: Any = rnncc.compile(made)
    for inputs in (given(3), given(9)):
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))
    with pytest.raises(ArrayError, match=r"T - 3\*T/3 would be -2 .*; quotients are rounded up\)"):
        compiled.run(given(4))


@pytest.mark.parametrize("chunk", [CHUNK, LIMITED])
@pytest.mark.parametrize("tested", [False, True])
def test_chunks_together_are_as_long_as_the_axis(tested: bool, chunk: list[Any]) -> None:
    """Nothing counts their rows: what they become may be added to x."""
    made = looped([*MEAN, node("Add", "chunk v", "row")], tested, chunk=chunk)
    made.graph.node.append(node("Add", "rows x", "sum"))
    made.graph.output.append(info("sum", None))
    compared(made, [given(1), given(7, 1)])
    assert rnncc.compile(made).outputs["rows"].shape == ("N", "T", 2)


def test_a_chunk_that_is_appended_twice() -> None:
    """These are more rows than the axis has."""
    nodes = [*MEAN, node("Add", "chunk v", "row"), node("SequenceInsert", "s chunk", "with")]
    compared(looped(nodes, False, "with"), [given(1), given(7, 1)])


@pytest.mark.parametrize(("added", "rows"), [("v row", "T + 1"), ("v row row", None)])
def test_a_state_that_grows_by_chunks(added: str, rows: str | None) -> None:
    """By one in each iteration, or by two, whose rows are counted."""
    nodes = [node("Mul", "i three", "k"), *CHUNK, node("Tanh", "chunk", "row")]
    nodes += [node("Concat", added, "v2", axis=1), node("Identity", "go", "on")]
    loop = node("Loop", "chunks yes h", "y", body=untyped(body(nodes, condition="on")))
    inputs = [info("x", ["N", "T", 2]), info("h", ["N", 1, 2])]
    made = model([*SIZES, loop], inputs, [info("y", None)], NUMBERS)
    compared(made, [given(1), given(3, 1), given(8)])
    assert rows is None or rnncc.compile(made).outputs["y"].shape == ("N", rows, 2)


def test_a_list_of_parts_of_an_open_axis() -> None:
    """`for part in x.split(3, 1)`, its length, its first part, and all together."""
    nodes = [*MEAN, node("Add", "chunk v", "row"), node("SequenceInsert", "s row", "s2")]
    nodes = [node("SequenceAt", "parts i", "chunk"), *nodes, node("Identity", "go", "on")]
    before = [node("SplitToSequence", "x three", "parts", axis=1), node("SequenceEmpty", "", "e")]
    before += [node("SequenceLength", "parts", "count"), node("SequenceAt", "parts zero", "first")]
    before += [node("ConcatFromSequence", "parts", "all", axis=1)]
    loop = node("Loop", "count yes h e", "y z", body=untyped(body(nodes, "v s", "", "on")))
    behind = node("ConcatFromSequence", "z", "rows", axis=1)
    outputs = [info(name, None) for name in ("y", "rows", "first", "all")]
    inputs = [info("x", ["N", "T", 2]), info("h", ["N", 1, 2])]
    made = model([*before, loop, behind], inputs, outputs, NUMBERS)
    compared(made, [given(1), given(3, 1), given(8)])
    assert rnncc.compile(made).outputs["rows"].shape == ("N", "T", 2)


@pytest.mark.parametrize("place", [0, 1, -1, -2])
@pytest.mark.parametrize("tested", [False, True])
def test_elements_of_a_list_of_chunks(tested: bool, place: int) -> None:
    """One chunk, the last with the rows that are left, and how many there are."""
    made = looped([*MEAN, node("Add", "chunk v", "row")], tested)
    behind = [node("SequenceAt", "z place", "part"), node("SequenceLength", "z", "count")]
    made.graph.node.extend(behind)
    made.graph.initializer.append(numpy_helper.from_array(np.array(place), "place"))
    made.graph.output.extend([info("part", None), info("count", None, "i64")])
    compared(made, [given(4), given(9, 1), given(11, 3)])
    compiled: Any = rnncc.compile(made)
    if place in (1, -2):
        with pytest.raises(ArrayError, match="would be -"):
            compiled.run(given(2))


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_chunks_written_behind_a_batch_of_any_size(kind: str) -> None:
    """`y[:, i:i + 3] = f(x[:, i:i + 3])`: the rows that count stand apart in the places."""
    places = [
        node("Shape", "x", "all"),
        *(node("Gather", f"all {at}", f"s{at}", axis=0) for at in ("zero", "one0")),
        *(node("Range", f"zero s{at} one0", f"r{at}") for at in ("zero", "one0")),
        node("Unsqueeze", "rzero one", "down"),
        node("Slice", "rone0 start end axis", "along"),
        node("Add", "down along", "both"),
        node("Shape", "both", "shape"),
        *(node("Expand", f"{one} shape", f"w_{one}") for one in ("down", "along")),
        *(node("Unsqueeze", f"w_{one} two0", f"u_{one}") for one in ("down", "along")),
        node("Concat", "u_down u_along", "places", axis=-1),
    ]
    inside = [node("Mul", "i three", "k"), *CHUNK, *MEAN, node("Add", "chunk v", "row")]
    inside += [*places, node("ScatterND", "s places row", "s2"), node("Identity", "go", "on")]
    loop = node("Loop", "chunks yes h e", "y z", body=untyped(body(inside, "v s", "", "on"), False))
    half = {"half": np.array(0.5, np.float16 if kind == "f16" else np.float32)}
    numbers = NUMBERS | {"one0": np.array(1), "two0": np.array([2])} | half
    first = [*SIZES, node("Sub", "x x", "e")]
    inputs = [info("x", ["N", "T", 2], kind), info("h", ["N", 1, 2], kind)]
    outputs = [info("y", None, kind), info("z", None, kind)]
    calls = [given(1), given(3, 1), given(4), given(11, 3)]
    if kind == "f16":
        calls = [{name: a.astype(np.float16) for name, a in call.items()} for call in calls]
    compared(model([*first, loop], inputs, outputs, numbers), calls)


def ended(chunk: list[Any], before: list[Any] | None = None, inputs: str = "") -> Any:
    """Over chunks of three rows, until the state is beyond a limit: `break`."""
    nodes = [node("Mul", "i three", "k"), *chunk, *MEAN, node("Add", "chunk v", "row")]
    nodes += [node("SequenceInsert", "s row", "s2"), node("ReduceMax", "v2", "largest", keepdims=0)]
    nodes += [node("Less", "largest limit", "on")]
    loop = node("Loop", "chunks yes h e", "y z", body=untyped(body(nodes, "v s", "", "on")))
    behind = node("ConcatFromSequence", "z", "rows", axis=1)
    given = [info("x", ["N", "T", 2]), info("h", ["N", 1, 2]), info("limit", [])]
    given += [info(name, [], "i64") for name in inputs.split()]
    outputs = [info("y", None), info("rows", None)]
    nodes = [*SIZES, *(before or []), node("SequenceEmpty", "", "e"), loop, behind]
    return model(nodes, given, outputs, NUMBERS)


def limited(steps: int, batch: int, limit: float, **more: int) -> Any:
    numbers = {name: np.array(number, np.int64) for name, number in more.items()}
    return given(steps, batch) | {"limit": np.array(limit, np.float32)} | numbers


@pytest.mark.parametrize("chunk", [CHUNK, LIMITED])
def test_chunks_until_data_ends_the_loop(chunk: list[Any]) -> None:
    """The last chunk has the rows that are left, unless the loop ended before it."""
    compared(ended(chunk), [limited(n, 2, 9) for n in (1, 3, 11)] + [limited(11, 1, -9)])


def test_parts_of_an_axis_until_data_ends_the_loop() -> None:
    """By computed numbers, of which those below 0 count from the last part."""
    before = [node("SplitToSequence", "x three", "parts", axis=1)]
    part = [node("Sub", "i shift", "at"), node("SequenceAt", "parts at", "chunk")]
    made = ended(part, before, "shift")
    calls = [limited(n, 2, 9, shift=shift) for n, shift in ((1, 0), (3, 0), (8, 1), (11, 2))]
    compared(made, [*calls, limited(11, 1, -9, shift=-3)])
    with pytest.raises(RunError, match="outside"):
        rnncc.compile(made).run(limited(8, 1, 9, shift=-1))


def test_whole_chunks_until_data_ends_the_loop() -> None:
    """What needs three rows is an error of the run where fewer are left."""
    cut = [*CHUNK[:3], node("Slice", "x start end one", "part")]
    made = ended([*cut, node("Reshape", "part same", "chunk")])
    made.graph.initializer.append(numpy_helper.from_array(np.array([0, 3, 2]), "same"))
    compared(made, [limited(3, 1, 9), limited(9, 2, 9), limited(8, 2, -9)])
    with pytest.raises(RunError, match="outside"):
        rnncc.compile(made).run(limited(8, 1, 9))
