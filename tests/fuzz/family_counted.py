"""Random models of rows whose number the run decides, through any other operators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.frontends.onnx.models import graph, info, node
from tests.frontends.onnx.random_lists import list_info
from tests.fuzz import family_indexing, family_options, random_nodes
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow, replaced
from tests.fuzz.random_onnx import finished, recurrent, scan


def by_mask(g: Growing) -> None:
    """The rows whose mean is above a number, or whose flag an input holds."""
    x = g.pick(1, 3)
    axis = g.axis(x)
    others = [i for i in range(x.rank) if i != axis]
    row = (x.dims[axis],)
    sums = g.listed("ReduceSum", x, {"axes": others}, 13, row, keepdims=0) if others else x
    mask = g.add("Greater", [sums, g.constant(np.float32(g.one_of(-1.5, -0.2, 0.0)))], row, "i1")
    g.add("Compress", [x, mask], replaced(x.dims, axis, _count(g)), axis=axis)


def by_places(g: Growing) -> None:
    """The rows at the places that NonZero finds."""
    x = g.pick(1, 3)
    if g.opset < 9:
        raise NotPossibleError
    others = list(range(1, x.rank))
    row = (x.dims[0],)
    sums = g.listed("ReduceSum", x, {"axes": others}, 13, row, keepdims=0) if others else x
    mask = g.add("Less", [sums, g.constant(np.float32(g.one_of(1.5, 0.1)))], row, "i1")
    count = _count(g)
    places = g.add("NonZero", [mask], (1, count), "i64")
    g.add("Gather", [x, g.squeezed(places, 0)], replaced(x.dims, 0, count), axis=0)


def up_to(g: Growing) -> None:
    """The first rows, as many as an input says, or those behind them, or some of these in steps."""
    x = g.pick(1, 3)
    ends = [v for v in g.values if v.dtype == "i64" and v.dims == (1,)]
    if g.opset < 10 or not ends:
        raise NotPossibleError
    axis, end = g.axis(x), ends[0]
    bounds = [g.ints(0), end] if g.rng.random() < 0.7 else [end, g.ints(1 << 40)]
    steps = [g.ints(g.rng.randint(2, 3))] if g.rng.random() < 0.3 else []
    g.add("Slice", [x, *bounds, g.ints(axis), *steps], replaced(x.dims, axis, _count(g)))


def chunked(g: Growing) -> None:
    """A loop over chunks of rows, or over some of theirs, that data may end: the last chunk may
    have fewer."""
    x = g.pick(2, 3)
    if g.opset < 13 or any(isinstance(d, str) for d in x.dims[1:]) or x.dims[0] == 0:
        raise NotPossibleError
    rows, ends, p = g.constant(np.array(g.rng.randint(2, 4))), g.rng.random() < 0.5, g.fresh()
    first, limit = g.ints(0), g.constant(np.float32(g.one_of(-9.0, 0.3, 0.9)))
    largest = node("ReduceMax", f"{p}row", f"{p}v2", axes=[0])
    nodes = [
        node("Mul", f"{p}i {rows}", f"{p}k"),
        node("Add", f"{p}k {rows}", f"{p}k2"),
        node("Unsqueeze", f"{p}k {first}", f"{p}from"),
        node("Unsqueeze", f"{p}k2 {first}", f"{p}to"),
        node("Slice", f"{x.name} {p}from {p}to {first} {g.ints(g.one_of(1, 1, 2))}", f"{p}part"),
        node("Add", f"{p}part {p}v", f"{p}sum"),
        node("Tanh", f"{p}sum", f"{p}row"),
        largest if g.opset < 18 else node("ReduceMax", f"{p}row {first}", f"{p}v2"),
        node("SequenceInsert", f"{p}s {p}row", f"{p}s2"),
        node("ReduceMax", f"{p}v2", f"{p}top", keepdims=0),
        node("Less", f"{p}top {limit}", f"{p}small"),
        node("Identity", f"{p}small" if ends else f"{p}go", f"{p}on"),
    ]
    inputs = [info(f"{p}i", [], "i64"), info(f"{p}go", [], "i1"), info(f"{p}v", None)]
    outputs = [info(f"{p}on", [], "i1"), info(f"{p}v2", None), list_info(f"{p}s2")]
    made = graph(nodes, [*inputs, list_info(f"{p}s")], outputs)
    shape = g.add("Shape", [x], (x.rank,), "i64")
    size = g.add("Gather", [shape, g.constant(np.array(0))], (), "i64", axis=0)
    more = g.constant(g.constants[rows] - 1)
    count = g.add("Div", [g.add("Add", [size, more], (), "i64"), rows], (), "i64")
    one = (1, *x.dims[1:])
    given = [
        count,
        g.constant(np.array(True)),
        g.floats(*map(int, one)),
        g.add("SequenceEmpty", [], (), "list"),
    ]
    parts = g.add_all("Loop", given, [(one, "f32"), ((), "list")], body=made)[1]
    g.add("ConcatFromSequence", [parts], (_count(g), *x.dims[1:]), axis=0)


def appended(g: Growing) -> None:
    """A loop over rows, or over the first of them, each of which makes one more row of a state."""
    x = g.pick(2, 3)
    if g.opset < 13 or any(isinstance(d, str) for d in x.dims[1:]):
        raise NotPossibleError
    start = g.rng.randint(1, 2)
    state, ends = g.floats(start, *(int(d) for d in x.dims[1:])), g.rng.random() < 0.5
    p, first, least = g.fresh(), g.ints(0), g.constant(np.float32(g.one_of(-9.0, 0.0, 0.3)))
    mean = g.one_of("ReduceMean", "ReduceMax", "ReduceMin")
    nodes = [
        node("Gather", f"{x.name} {p}i", f"{p}x", axis=0),
        node("Unsqueeze", f"{p}x {first}", f"{p}row"),
        node("Gather", f"{p}v {g.ints(-1)}", f"{p}last", axis=0),
        node(mean, f"{p}v", f"{p}all", axes=[0]) if g.opset < 18 else _over(mean, p, first),
        node("Sum", f"{p}row {p}last {p}all", f"{p}sum"),
        node("Tanh", f"{p}sum", f"{p}new"),
        node("Concat", g.one_of(f"{p}v {p}new", f"{p}new {p}v"), f"{p}v2", axis=0),
        node("ReduceMax", f"{p}new", f"{p}top", keepdims=0),
        node("Greater", f"{p}top {least}", f"{p}big") if ends else node("Not", f"{p}no", f"{p}big"),
        node("Identity", f"{p}big", f"{p}on"),
    ]
    nodes = nodes if ends else [node("Not", f"{p}go", f"{p}no"), *nodes]
    inputs = [info(f"{p}i", [], "i64"), info(f"{p}go", [], "i1"), info(f"{p}v", None)]
    made = graph(nodes, inputs, [info(f"{p}on", [], "i1"), info(f"{p}v2", None)])
    shape = g.add("Shape", [x], (x.rank,), "i64")
    count = g.add("Gather", [shape, g.constant(np.array(0))], (), "i64", axis=0)
    size = _count(g) if ends or str(x.dims[0]).startswith("count") else f"{x.dims[0]}+{start}"
    yes = g.constant(np.array(True))
    g.add("Loop", [count, yes, state], (size, *x.dims[1:]), body=made)


def merged(g: Growing) -> None:
    """The rows of all elements of the axes before theirs, one behind the other; then perhaps parted
    into those of each element again, by the rest or by their number."""
    rows = [
        (v, axis)
        for v in g.values
        for axis in range(1, v.rank)
        if v.dtype == "f32" and str(v.dims[axis]).startswith("count")
    ]
    if not rows:
        raise NotPossibleError
    x, axis = g.one_of(*rows)
    behind = x.dims[axis + 1 :]
    if any(isinstance(d, str) for d in behind):
        raise NotPossibleError
    flat = g.ints(-1, *map(int, behind))
    dims = (_count(g), *behind)
    y = g.add("Tanh", [g.add("Reshape", [x, flat], dims)], dims)
    if g.rng.random() < 0.5:
        return
    shape = g.add("Shape", [x], (x.rank,), "i64")
    kept = axis + g.rng.randint(0, 1)
    parts = [g.add("Gather", [shape, g.ints(*range(kept))], (kept,), "i64", axis=0)]
    parts += [g.ints(-1)] if kept == axis else []
    parts += [g.ints(*map(int, behind))] if behind else []
    whole = g.add("Concat", parts, (x.rank,), "i64", axis=0)
    g.add("Reshape", [y, whole], x.dims)


def _over(kind: str, p: str, axes: str) -> Any:
    return node(kind, f"{p}v {axes}", f"{p}all")


def layer(g: Growing) -> None:
    """A recurrent layer over any steps: ONNX Runtime ends the process where a batch is empty."""
    if any(str(v.dims[1]).startswith("count") for v in g.values if v.rank == 3):
        raise NotPossibleError
    recurrent(g)


def _count(g: Growing) -> str:
    """A name of a size that nothing else has."""
    return f"count{len(g.nodes)}"


STARTS: list[Maker] = [by_mask, by_mask, by_places, up_to, up_to, appended, appended, chunked]
MAKERS: list[Maker] = [
    *random_nodes.NODES,
    *(family_indexing.extreme, family_indexing.backwards, family_indexing.repeated),
    *(family_indexing.rows, family_options.norm),
    *(family_options.reduced, family_options.window, layer, scan),
    *STARTS[1:4],
    *(appended, chunked, merged),
]


def counted_model(rng: random.Random) -> Any:
    """Rows of one input or two that the run chooses, through a few nodes."""
    g = Growing(rng, opset=rng.randint(9, 25))
    batch: int | str = rng.choice(["N", 1, 2])
    width = rng.choice([1, 2, 4, 6])
    shapes: list[Dims] = [("T", width), ("T", batch, width), (batch, width, "T"), ("T",)]
    g.values = [Tensor(name, rng.choice(shapes)) for name in ("x", "y")[: rng.randint(1, 2)]]
    g.values.append(Tensor("n", (1,), "i64"))
    inputs = list(g.values)
    grow(g, 1, STARTS)
    grow(g, rng.randint(1, 4), MAKERS)
    g.values = [value for value in g.values if value.dtype != "list"]
    return finished(g, inputs)
