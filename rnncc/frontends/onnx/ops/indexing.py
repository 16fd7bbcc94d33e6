"""Operators that choose elements by numbers: rows, the largest, running sums, masks by place."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import Node, Operator
from rnncc.frontends.onnx.ops.arithmetic import NUMBERS
from rnncc.frontends.onnx.values import Array, as_objects
from rnncc.ir.build import Build
from rnncc.ir.composites import strided
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of, shape_text

INTEGERS = ("i32", "i64")


def _from_front(n: Node, index: SSAValue, size: Dim) -> SSAValue:
    """Numbers that may count from the end."""
    b, dtype = n.b, dtype_of(index)
    negative = b.compare("lt", index, n.full(0, index))
    return b.select(negative, b.add(index, b.size(size, dtype)), index)


def _index(n: Node, at: int, size: Dim) -> SSAValue:
    known = n.value(at).numbers
    if known is not None and size.is_static:
        return n.b.constant(checked(n, known, int(size)), n.value(at).dtype)
    return _from_front(n, n.x(at, INTEGERS), size)


def checked(n: Node, index: Array, size: int) -> Array:
    """Known numbers, counted from the front."""
    if index.dtype.kind not in "iu":
        raise n.error("has indices that are no integers")
    if ((index < -size) | (index >= size)).any():
        raise n.error(f"has an index outside of {-size}..{size - 1}")
    return np.where(index < 0, index + size, index)


def _gather(n: Node) -> SSAValue:
    """Rows of X along an axis, by number; -1 is the last one."""
    x, dims = n.x(), n.dims()
    axis = n.axis(n.integer("axis", 0), len(dims))
    known = n.value(1).numbers
    if known is not None and known.size == 1 and known.dtype.kind in "iu":
        at, size = int(known.reshape(-1)[0]), dims[axis]
        start = Dim.of(at) if at >= 0 else size + at
        if size.is_static:
            checked(n, known, int(size))
        elif at not in (0, -1):
            what = f"takes row {at} of an axis of {size}, which may be shorter"
            raise n.unsupported(what, "--shape gives a size")
        row = n.b.slice(x, axis, start, 1)
        return n.b.reshape(row, (*dims[:axis], *known.shape, *dims[axis + 1 :]))
    return n.b.gather(x, _index(n, 1, dims[axis]), axis)


def _fold_gather(n: Node, arrays: list[Array]) -> Array:
    x, index = arrays
    axis = n.axis(n.integer("axis", 0), x.ndim)
    return np.asarray(np.take(x, checked(n, index, x.shape[axis]), axis))


def _strides(dims: list[int]) -> list[int]:
    return [prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _gather_elements(n: Node) -> SSAValue:
    """Y[i, j] = X[index[i, j], j] along axis 0, and so on for others.

    Refused: X of open sizes.
    """
    b, dims = n.b, n.static(0)
    axis = n.axis(n.integer("axis", 0), len(dims))
    index = b.cast(_index(n, 1, Dim.of(dims[axis])), "i64")
    return b.gather(b.reshape(n.x(), (prod(dims),)), _places(b, index, dims, axis), 0)


def _places(b: Build, index: SSAValue, dims: list[int], axis: int) -> SSAValue:
    """The numbers, in a flat tensor, of elements given by an index along one axis."""
    steps = _strides(dims)
    total = b.mul(index, b.fill(steps[axis], (), "i64"))
    for other, step in enumerate(steps):
        if other != axis:
            number = b.iota(dims_of(index), other, "i64")
            total = b.add(total, b.mul(number, b.fill(step, (), "i64")))
    return total


def _gather_nd(n: Node) -> SSAValue:
    """Y[i...] = X[index[i...]], the last axis of index being a place in X.

    Refused: X of open sizes.
    """
    b, dims = n.b, n.static(0)
    batch, index = n.integer("batch_dims", 0), b.cast(n.x(1, INTEGERS), "i64")
    wanted = dims_of(index)
    depth = int(wanted[-1])
    if batch + depth > len(dims):
        raise n.error(f"has places of {depth} numbers in {shape_text(n.dims())}")
    steps, total = _strides(dims), None
    for axis in range(batch):
        place = b.mul(b.iota(wanted[:-1], axis, "i64"), b.fill(steps[axis], (), "i64"))
        total = place if total is None else b.add(total, place)
    for k in range(depth):
        part = b.reshape(b.slice(index, len(wanted) - 1, k, 1), wanted[:-1])
        part = _from_front(n, part, Dim.of(dims[batch + k]))
        place = b.mul(part, b.fill(steps[batch + k], (), "i64"))
        total = place if total is None else b.add(total, place)
    assert total is not None
    rest = dims[batch + depth :]
    total = b.div(total, b.fill(prod(rest), (), "i64"))
    rows = b.reshape(n.x(), (prod(dims) // prod(rest), *rest))
    return b.gather(rows, total, 0)


def _one_hot(n: Node) -> SSAValue:
    """The second of two values where the index is that of the place along an axis, else the first.

    Refused: a depth that is computed at run time.
    """
    b, index = n.b, n.x(0)
    depth, values = Dim.of(int(n.scalar(1))), n.x(2)
    dims = list(n.dims())
    axis = n.axis(n.integer("axis", -1), len(dims) + 1)
    index = b.cast(index, "i64")
    index = _from_front(n, index, depth)
    wide = [*dims[:axis], depth, *dims[axis:]]
    at = b.broadcast(index, wide, [a for a in range(len(wide)) if a != axis])
    here = b.compare("eq", at, b.iota(wide, axis, "i64"))
    off, on = (b.reshape(b.slice(values, 0, i, 1), ()) for i in (0, 1))
    return b.select(here, on, off)


def _extremum_place(kind: str, order: str) -> Any:
    def build(n: Node) -> SSAValue:
        x, dims = n.x(0, NUMBERS), n.dims()
        axis = n.axis(n.integer("axis", 0), len(dims))
        last = bool(n.integer("select_last_index", 0))
        return place_of(n, x, axis, kind, last, bool(n.integer("keepdims", 1)))

    build.__doc__ = (
        f"The place of the {order} element along an axis: the first of equals, or the last.\n\n"
        "Refused: elements other than float32, int32, int64."
    )
    return build


def place_of(n: Node, x: SSAValue, axis: int, kind: str, last: bool, keep: bool) -> SSAValue:
    """Where along an axis an extremum stands, as int64."""
    b, dims = n.b, dims_of(x)
    kept = (*dims[:axis], Dim.of(1), *dims[axis + 1 :])
    best = b.reshape(b.reduce(kind, x, [axis]), kept)
    here, number = b.compare("eq", x, best), b.iota(dims, axis, "i32")
    none = b.fill(-1, (), "i32") if last else b.size(dims[axis], "i32")
    place = b.reduce("max" if last else "min", b.select(here, number, none), [axis])
    place = b.cast(place, "i64")
    return b.reshape(place, kept) if keep else place


MAX_RANKED = 4096


def _top_k(n: Node) -> list[SSAValue]:
    """The k largest elements along an axis, largest first, and their places; or the smallest.

    Refused: k that is computed at run time; more than 4096 elements along the axis; open sizes.
    """
    b, x, dims = n.b, n.x(0, NUMBERS), n.dims()
    axis = n.axis(n.integer("axis", -1), len(dims))
    count = int(n.scalar(1)) if n.opset >= 10 else n.integer("k")
    if not dims[axis].is_static or int(dims[axis]) > MAX_RANKED:
        raise n.unsupported(f"ranks {dims[axis]} elements, at most {MAX_RANKED} are supported")
    size = int(dims[axis])
    if not 0 <= count <= size:
        raise n.error(f"takes {count} of {size} elements")
    largest = bool(n.integer("largest", 1))
    order = [*(a for a in range(len(dims)) if a != axis), axis]
    back = [order.index(a) for a in range(len(dims))]
    x = b.transpose(x, order)
    rank, lead = _ranks(b, x, largest), dims_of(x)[:-1]
    wide = (*lead, Dim.of(count), Dim.of(size))
    spread = range(len(lead)), len(lead) + 1
    axes = [*spread[0], spread[1]]
    here = b.compare("eq", b.broadcast(rank, wide, axes), b.iota(wide, len(lead), "i32"))
    zero = n.full(0, x)
    found = b.reduce("sum", b.select(here, b.broadcast(x, wide, axes), zero), [len(lead) + 1])
    number = b.iota(wide, len(lead) + 1, "i64")
    places = b.reduce("sum", b.select(here, number, n.full(0, "i64")), [len(lead) + 1])
    return [b.transpose(found, back), b.transpose(places, back)]


def _ranks(b: Build, x: SSAValue, largest: bool) -> SSAValue:
    """How many elements of the last axis come before each: those beyond it, and earlier equals."""
    dims = dims_of(x)
    rank, size = len(dims), dims[-1]
    wide = (*dims, size)
    mine = b.broadcast(x, wide, range(rank))
    other = b.broadcast(x, wide, [*range(rank - 1), rank])
    beyond = b.compare("gt" if largest else "lt", other, mine)
    earlier = b.compare("lt", b.iota(wide, rank, "i32"), b.iota(wide, rank - 1, "i32"))
    equal = b.logical("and", b.compare("eq", other, mine), earlier)
    ahead = b.cast(b.logical("or", beyond, equal), "i32")
    return b.reduce("sum", ahead, [rank])


def _cumulative(function: str, start: float, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        b, x, dims = n.b, n.x(0, NUMBERS), n.dims()
        axis = n.axis(int(n.scalar(1)), len(dims))
        exclusive = bool(n.integer("exclusive", 0))
        perm = [axis, *(a for a in range(len(dims)) if a != axis)]
        rows = b.transpose(x, perm)

        def step(inner: Build, consts: Any, carry: Any, row: Any) -> Any:
            total = getattr(inner, function)(carry[0], row[0])
            return [total], [carry[0] if exclusive else total]

        first = b.fill(start, dims_of(rows)[1:], dtype_of(x))
        reverse = bool(n.integer("reverse", 0))
        _, sums = b.scan([], [first], [rows], step, reverse=reverse)
        return b.transpose(sums[0], [perm.index(a) for a in range(len(dims))])

    build.__doc__ = (
        f"{formula}\n\nRefused: an axis that is computed at run time; elements other than float32, "
        "int32, int64."
    )
    return build


def _fold_sums(n: Node, arrays: list[Array]) -> Array | None:
    if n.integer("exclusive", 0) or n.integer("reverse", 0):
        return None
    x, axis = arrays[0], int(arrays[1].reshape(-1)[0])
    return np.cumsum(as_objects(x) if x.dtype == object else x, axis).astype(x.dtype)


def _trilu(n: Node) -> SSAValue:
    """The upper or lower triangle of X's last two axes, zeros elsewhere.

    Refused: a k that is computed at run time.
    """
    b, x, dims = n.b, n.x(), n.dims()
    shift = int(n.scalar(1)) if n.has(1) else 0
    row, column = (b.iota(dims, len(dims) - k, "i32") for k in (2, 1))
    edge = b.sub(column, row)
    kind = "ge" if n.integer("upper", 1) else "le"
    keep = b.compare(kind, edge, b.fill(shift, (), "i32"))
    if dtype_of(x) == "i1":
        return b.logical("and", keep, x)
    return b.select(keep, x, n.full(0, x))


def _reverse_sequence(n: Node) -> SSAValue:
    """The first `length` rows of each sequence, last first.

    Refused: elements other than float32, int32, int64; axes other than 0 and 1.
    """
    b, x = n.b, n.x(0, NUMBERS)
    time, batch = n.integer("time_axis", 0), n.integer("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise n.unsupported(f"has the axes {time} and {batch}, only 0 and 1 are supported")
    lengths = b.cast(n.x(1, INTEGERS), "i32")
    swap = [1, 0, *range(2, len(n.dims()))]
    x = x if time == 0 else b.transpose(x, swap)
    made = b.reverse_segments(x, lengths)
    return made if time == 0 else b.transpose(made, swap)


def _compress(n: Node) -> SSAValue:
    """The rows of X where a known condition holds.

    Refused: a condition that is computed at run time.
    """
    b, condition = n.b, n.numbers(1).reshape(-1)
    x, dims = n.x(), n.dims()
    if n.given("axis"):
        axis = n.axis(n.integer("axis"), len(dims))
    else:
        x, axis = b.reshape(x, (product(dims),)), 0
    return b.gather(x, b.constant(np.flatnonzero(condition).astype(np.int64)), axis)


def _non_zero(n: Node) -> SSAValue:
    """The places of known elements that are not 0.

    Refused: computed elements.
    """
    raise n.unsupported("has a result of a size that depends on computed elements")


def _scatter_elements(n: Node) -> SSAValue:
    """X with elements replaced at known or computed places along an axis, or added to.

    Refused: open sizes; more than 64 updates along the axis; reductions mul, max and min.
    """
    b, x, dims = n.b, n.x(0, NUMBERS), n.static(0)
    axis = n.axis(n.integer("axis", 0), len(dims))
    index, updates, small = _index(n, 1, Dim.of(dims[axis])), n.x(2, NUMBERS), n.static(1)
    reduction = n.text("reduction", "none") if n.opset >= 16 else "none"
    if small[axis] > 64 or reduction not in ("none", "add"):
        raise n.unsupported(f"has {small[axis]} updates along the axis, with {reduction}")
    wide = [
        size if a == axis else other
        for a, (size, other) in enumerate(zip(dims, small, strict=True))
    ]
    room = [
        (axis_, 0, full) for axis_, full in enumerate(dims) if axis_ != axis and wide[axis_] != full
    ]
    for k in range(small[axis]):
        at, new = b.slice(index, axis, k, 1), b.slice(updates, axis, k, 1)
        here = b.compare("eq", b.iota(wide, axis, dtype_of(index)), at)
        for axis_, start, full in room:
            here = b.pad(here, axis_, start, Dim.of(full), 0)
            new = b.pad(new, axis_, start, Dim.of(full), 0)
        value = b.add(x, new) if reduction == "add" else new
        x = b.select(here, value, x)
    return x


def _scatter_nd(n: Node) -> SSAValue:
    """X with slices replaced at known places, or added to.

    Refused: places that are computed at run time; open sizes; reductions mul, max and min.
    """
    b, x, dims = n.b, n.x(0, NUMBERS), n.static(0)
    places, updates = n.numbers(1), n.x(2, NUMBERS)
    reduction = n.text("reduction", "none") if n.opset >= 16 else "none"
    if reduction not in ("none", "add") or (reduction == "add" and places.size > 4096):
        raise n.unsupported(f"has {places.size} places and the reduction {reduction}")
    depth, rest = places.shape[-1], dims[places.shape[-1] :]
    size, count = prod(dims[:depth]), prod(places.shape[:-1])
    steps = [s // prod(rest) for s in _strides(dims)[:depth]]
    at = np.where(places < 0, places + np.array(dims[:depth], np.int64), places)
    numbers: list[int] = (at * np.array(steps, np.int64)).sum(-1).reshape(-1).tolist()
    rows, new = b.reshape(x, (size, *rest)), b.reshape(updates, (count, *rest))
    if reduction == "add":
        for k, number in enumerate(numbers):
            row = b.slice(new, 0, k, 1)
            rows = b.add(rows, b.pad(row, 0, int(number), Dim.of(size), 0))
        return b.reshape(rows, dims)
    source = np.arange(size)
    source[np.array(numbers, np.int64)] = size + np.arange(count)
    both = b.concat([rows, new], 0)
    return b.reshape(b.gather(both, b.constant(source.astype(np.int64)), 0), dims)


def _fold_scatter_nd(n: Node, arrays: list[Array]) -> Array | None:
    x, places, updates = arrays
    if n.opset >= 16 and n.text("reduction", "none") != "none":
        return None
    both = x.dtype == object or updates.dtype == object
    made = as_objects(x) if both else np.array(x)
    values = as_objects(updates) if both else updates
    made[tuple(np.moveaxis(places, -1, 0))] = values
    return made


def _eye_like(n: Node) -> SSAValue:
    """1 on a diagonal of a matrix like X, else 0.

    Refused: element types other than float32, int32, int64, bool.
    """
    from rnncc.frontends.onnx.inputs import dtype_name

    b, dims = n.b, n.dims()
    dtype = dtype_name(n.integer("dtype")) if n.given("dtype") else n.value(0).dtype
    edge = b.sub(b.iota(dims, 1, "i32"), b.iota(dims, 0, "i32"))
    here = b.compare("eq", edge, b.fill(n.integer("k", 0), (), "i32"))
    if dtype not in (*NUMBERS, "i1"):
        raise n.unsupported(f"makes {dtype}, which is not supported")
    return b.cast(here, dtype)


def reversed_along(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """x backwards along an axis."""
    size = dims_of(x)[axis]
    return strided(n.b, x, axis, size - 1, size, -1)


def _range(n: Node) -> SSAValue:
    """start, start + delta, ... below limit.

    Refused: bounds that are computed at run time; open bounds with a delta that does not divide
    them; elements other than float32, int32, int64.
    """
    b = n.b
    if n.value(0).dtype == "f32":
        start, limit, delta = (n.scalar(i) for i in range(3))
        count = max(int(np.ceil((limit - start) / delta)), 0)
        number = b.cast(b.iota((count,), 0, "i32"), "f32")
        return b.add(b.mul(number, n.full(delta, "f32")), n.full(start, "f32"))
    start, limit, delta = (n.sizes(i)[0] for i in range(3))
    if not delta.is_static or delta == 0:
        raise n.unsupported(f"has the step {delta}")
    step = int(delta)
    span = limit - start
    whole = span.divide(step)
    if whole is None:
        if not span.is_static:
            raise n.unsupported(f"counts {span} in steps of {step}", "--shape gives a size")
        whole = Dim.of(-(-int(span) // step))
    if whole.is_static and int(whole) < 0:
        whole = Dim.of(0)
    dtype = n.value(0).dtype
    number = b.mul(b.iota((whole,), 0, dtype), b.fill(step, (), dtype))
    return b.add(number, b.size(start, dtype))


def _fold_range(n: Node, arrays: list[Array]) -> Array | None:
    if any(a.dtype == object for a in arrays):
        return None
    start, limit, delta = (a.reshape(-1)[0].item() for a in arrays)
    if delta == 0 or (limit - start) / delta > 1 << 22:
        raise n.error(f"counts from {start} to {limit} in steps of {delta}")
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return (start + delta * np.arange(count)).astype(arrays[0].dtype)


OPERATORS: dict[str, Operator] = {
    "Gather": Operator(_gather, _fold_gather),
    "GatherElements": Operator(_gather_elements),
    "GatherND": Operator(_gather_nd),
    "ScatterElements": Operator(_scatter_elements),
    "Scatter": Operator(_scatter_elements),
    "ScatterND": Operator(_scatter_nd, _fold_scatter_nd),
    "OneHot": Operator(_one_hot),
    "ArgMax": Operator(_extremum_place("max", "largest")),
    "ArgMin": Operator(_extremum_place("min", "smallest")),
    "TopK": Operator(_top_k),
    "CumSum": Operator(_cumulative("add", 0, "Running sums along an axis."), _fold_sums),
    "CumProd": Operator(_cumulative("mul", 1, "Running products along an axis.")),
    "Trilu": Operator(_trilu),
    "ReverseSequence": Operator(_reverse_sequence),
    "Compress": Operator(_compress),
    "NonZero": Operator(_non_zero, lambda n, arrays: np.array(np.nonzero(arrays[0]), np.int64)),
    "EyeLike": Operator(_eye_like),
    "Range": Operator(_range, _fold_range),
}
