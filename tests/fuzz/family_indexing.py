"""Random models that read and write elements at places that are known or computed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow, replaced
from tests.fuzz.random_nodes import (
    binary,
    concat,
    gather,
    pad,
    rank_along,
    reduce,
    slices,
    split,
    squeeze,
    top,
    transpose,
    unary,
    unsqueeze,
)
from tests.fuzz.random_onnx import finished


def _places(g: Growing, x: Tensor, axis: int, dims: Dims) -> str | Tensor:
    """Integers within an axis: known ones, or of the model's integer input, brought into range."""
    size = x.dims[axis]
    if size == 0:
        raise NotPossibleError
    least = -1 if g.opset >= 11 and g.rng.random() < 0.5 else 0
    fitting = [v for v in g.values if v.dtype == "i64" and v.dims == dims]
    if fitting and g.opset >= 10:
        limit = g.ints(size) if isinstance(size, int) else g.size_of(x, axis)
        return g.add("Mod", [g.rng.choice(fitting), limit], dims, "i64")
    if not all(isinstance(d, int) for d in dims):
        raise NotPossibleError
    most = size if isinstance(size, int) else 1
    shape = [int(d) for d in dims]
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    return g.constant(rng.integers(least * most, most, shape))


def _values(g: Growing, dims: Dims) -> str | Tensor:
    """Floats of a shape."""
    fitting = [v for v in g.values if v.dtype == "f32" and v.dims == dims]
    if fitting:
        return g.rng.choice(fitting)
    if not all(isinstance(d, int) for d in dims):
        raise NotPossibleError
    return g.floats(*(int(d) for d in dims))


def rows(g: Growing) -> None:
    """Gather by any places."""
    x = g.pick(1)
    axis = g.axis(x)
    known: list[Dims] = [(), (1,), (3,), (2, 2)]
    dims = g.rng.choice([*known, *(v.dims for v in g.values if v.dtype == "i64")])
    places = _places(g, x, axis, dims)
    at = g.spelt(axis, x.rank)
    g.add("Gather", [x, places], (*x.dims[:axis], *dims, *x.dims[axis + 1 :]), axis=at)


def elements(g: Growing) -> None:
    """GatherElements by places of fewer or as many rows."""
    x = g.pick(1)
    axis = g.axis(x)
    size = g.one_of(1, 2, x.dims[axis])
    places = _places(g, x, axis, replaced(x.dims, axis, size))
    g.add("GatherElements", [x, places], replaced(x.dims, axis, size), axis=axis)


def points(g: Growing) -> None:
    """GatherND: places over the first axes, behind axes that both have."""
    x = g.pick(2)
    batch = g.one_of(0, 0, 1) if g.opset >= 12 and x.rank > 1 else 0
    depth = g.rng.randint(1, x.rank - batch)
    sizes = x.dims[batch : batch + depth]
    if not all(isinstance(d, int) and d for d in sizes):
        raise NotPossibleError
    if batch and not isinstance(x.dims[0], int):
        raise NotPossibleError
    count = g.one_of(1, 3)
    lead = [int(d) for d in x.dims[:batch]]
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    limits = np.array([int(d) for d in sizes])
    places = rng.integers(-limits, limits, (*lead, count, depth))
    dims = (*lead, count, *x.dims[batch + depth :])
    g.add("GatherND", [x, g.constant(places)], dims, **({"batch_dims": batch} if batch else {}))


def scattered(g: Growing) -> None:
    """ScatterElements, alone or added, smaller, larger."""
    x = g.pick(1)
    axis = g.axis(x)
    dims = replaced(x.dims, axis, g.one_of(1, 2, x.dims[axis]))
    places, values = _places(g, x, axis, dims), _values(g, dims)
    more = {}
    if g.opset >= 16 and g.rng.random() < 0.5:
        more = {"reduction": g.one_of("add", *(("min", "max", "mul") if g.opset >= 18 else ()))}
    kind = "ScatterElements" if g.opset >= 11 else "Scatter"
    g.add(kind, [x, places, values], x.dims, axis=axis, **more)


def written(g: Growing) -> None:
    """ScatterND at known places."""
    x = g.pick(1)
    depth = g.rng.randint(1, x.rank)
    if not all(isinstance(d, int) and d for d in x.dims[:depth]):
        raise NotPossibleError
    count = g.one_of(1, 2)
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    limits = np.array([int(d) for d in x.dims[:depth]])
    places = rng.integers(0, limits, (count, depth))
    values = _values(g, (count, *x.dims[depth:]))
    more = {"reduction": g.one_of("add", "none")} if g.opset >= 16 else {}
    if g.opset >= 18:
        more = {"reduction": g.one_of("add", "none", "min", "max", "mul")}
    g.add("ScatterND", [x, g.constant(places), values], x.dims, **more)


def extreme(g: Growing) -> None:
    """The place of the largest or smallest."""
    x = g.pick(1)
    axis = g.axis(x)
    if x.dims[axis] == 0:
        raise NotPossibleError
    keep = g.rng.randrange(2)
    dims = replaced(x.dims, axis, 1) if keep else (*x.dims[:axis], *x.dims[axis + 1 :])
    more = {"select_last_index": g.rng.randrange(2)} if g.opset >= 12 else {}
    g.add(g.one_of("ArgMax", "ArgMin"), [x], dims, "i64", axis=axis, keepdims=keep, **more)


def hot(g: Growing) -> None:
    """OneHot of computed integers."""
    x = g.rng.choice([v for v in g.values if v.dtype == "i64" and 0 < v.rank < 4] or [None])
    if x is None:
        raise NotPossibleError
    depth = g.one_of(1, 3, 6)
    axis = g.rng.randint(0, x.rank)
    dims = (*x.dims[:axis], depth, *x.dims[axis:])
    two = g.constant(np.array([0, 1], np.float32))
    g.add("OneHot", [x, g.ints(depth), two], dims, axis=g.one_of(axis, axis - x.rank - 1))


def triangle(g: Growing) -> None:
    x = g.pick(2)
    k = g.one_of("", g.constant(np.array(g.rng.randint(-2, 2), np.int64)))
    g.add("Trilu", [x, k], x.dims, upper=g.rng.randrange(2))


def chosen_rows(g: Growing) -> None:
    """Compress by a known condition."""
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = int(x.dims[axis])
    flags = [g.rng.random() < 0.6 for _ in range(size)]
    if not any(flags):
        raise NotPossibleError
    made = replaced(x.dims, axis, sum(flags))
    g.add("Compress", [x, g.constant(np.array(flags))], made, axis=axis)


def up_to(g: Growing) -> None:
    """Elements behind a computed length become 0."""
    x = g.pick(2, 3)
    size = g.size_of(x, 0)
    if g.opset < 11:
        raise NotPossibleError
    zero, one = (g.constant(np.array(n, np.int64)) for n in (0, 1))
    end = g.squeezed(Tensor(size.name, (1,), "i64"), 0)
    count = g.add("Range", [zero, end, one], (x.dims[0],), "i64")
    total = g.listed("ReduceSum", x, {"axes": list(range(x.rank))}, 13, (), keepdims=0)
    limit = g.cast(g.add("Abs", [total], ()), "i64")
    mask = g.add("Less", [count, limit], (x.dims[0],), "i1")
    shape = (x.dims[0], *(1 for _ in x.dims[1:]))
    column = g.listed("Unsqueeze", mask, {"axes": list(range(1, x.rank))}, 13, shape)
    g.add("Where", [column, x, g.floats(1)], x.dims)


def backwards(g: Growing) -> None:
    """All of an axis from its end, or every second, of known or open size."""
    x = g.pick(1)
    axis = g.axis(x)
    if g.opset < 10:
        raise NotPossibleError
    end, step = g.one_of((-(1 << 63), -1), (-(1 << 31), -1), ((1 << 63) - 1, 1))
    lists = {"starts": [-1 if step < 0 else 0], "ends": [end], "axes": [axis], "steps": [step]}
    g.listed("Slice", x, lists, 10, x.dims)


def ranked(g: Growing) -> None:
    """TopK along an axis of open size."""
    x = g.pick(1)
    axis = g.axis(x)
    if isinstance(x.dims[axis], int) or g.opset < 11:
        raise NotPossibleError
    dims = replaced(x.dims, axis, 1)
    more = {"axis": axis, "largest": g.rng.randrange(2)}
    g.add_all("TopK", [x, g.ints(1)], [(dims, "f32"), (dims, "i64")], **more)


def repeated(g: Growing) -> None:
    """Tile by known numbers, Expand to a computed shape."""
    x = g.pick(1, 3)
    if g.rng.random() < 0.5:
        times = [g.one_of(1, 2) for _ in x.dims]
        dims = [
            d * t if isinstance(d, int) else (d if t == 1 else f"{g.fresh()}?{i}")
            for i, (d, t) in enumerate(zip(x.dims, times, strict=True))
        ]
        g.add("Tile", [x, g.ints(*times)], tuple(dims))
        return
    y = g.pick(1, 3)
    if y.dims[-x.rank :] != x.dims:
        raise NotPossibleError
    shape = g.add("Shape", [y], (y.rank,), "i64")
    g.add("Expand", [x, shape], y.dims)


MAKERS: list[Maker] = [
    *(rows, rows, elements, elements, points, scattered, scattered, written, extreme, hot),
    *(triangle, chosen_rows, up_to, backwards, ranked, repeated, gather, top, slices, split, pad),
    *(unary, binary, reduce, transpose, concat, squeeze, unsqueeze, rank_along),
]


def indexing_model(rng: random.Random) -> Any:
    """Floats and integers of known and open sizes through a few of these."""
    g = Growing(rng, opset=rng.randint(7, 25))
    batch: int | str = rng.choice(["N", "N", 1, 3])
    steps: int | str = rng.choice(["T", "T", 1, 4])
    width = rng.choice([1, 2, 5, 9])
    shapes: list[Dims] = [(batch, steps, width), (steps, width), (batch, width), (width,)]
    g.values = [Tensor("x", rng.choice(shapes)), Tensor("y", rng.choice(shapes))]
    if rng.random() < 0.7:
        places: list[Dims] = [(batch,), (batch, 1), (2,), (), g.values[0].dims]
        g.values.append(Tensor("i", rng.choice(places), "i64"))
    inputs = list(g.values)
    grow(g, rng.randint(2, 8), MAKERS)
    return finished(g, inputs)
