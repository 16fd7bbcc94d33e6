"""Random models of rows whose number the run decides, through any other operators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

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
    """The first rows, as many as an input says, or those behind them."""
    x = g.pick(1, 3)
    ends = [v for v in g.values if v.dtype == "i64" and v.dims == (1,)]
    if g.opset < 10 or not ends:
        raise NotPossibleError
    axis, end = g.axis(x), ends[0]
    bounds = [g.ints(0), end] if g.rng.random() < 0.7 else [end, g.ints(1 << 40)]
    g.add("Slice", [x, *bounds, g.ints(axis)], replaced(x.dims, axis, _count(g)))


def layer(g: Growing) -> None:
    """A recurrent layer over any steps: ONNX Runtime ends the process where a batch is empty."""
    if any(str(v.dims[1]).startswith("count") for v in g.values if v.rank == 3):
        raise NotPossibleError
    recurrent(g)


def _count(g: Growing) -> str:
    """A name of a size that nothing else has."""
    return f"count{len(g.nodes)}"


STARTS: list[Maker] = [by_mask, by_mask, by_places, up_to, up_to]
MAKERS: list[Maker] = [
    *random_nodes.NODES,
    *(family_indexing.extreme, family_indexing.backwards, family_indexing.repeated),
    *(family_indexing.rows, family_options.norm),
    *(family_options.reduced, family_options.window, layer, scan),
    *STARTS[1:4],
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
    return finished(g, inputs)
