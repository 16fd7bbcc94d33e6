"""Choosing elements by number or by comparing them: places of extremes, masks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.source import Constant, Iota
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import move_axis
from rnncc.nn.reduction import cumulate, reduce_keepdims, total


def from_front(b: Builder, index: SSAValue, size: Dim | SSAValue) -> SSAValue:
    """Numbers of an axis of that size; those below 0 count from its end."""
    below = b.compare("lt", index, b.full_like(index, 0))
    size = b.size(size, dtype_of(index)) if isinstance(size, Dim) else size
    return b.select(below, b.add(index, size), index)


def extremum_place(b: Builder, x: SSAValue, kind: str, axis: int, last: bool = False) -> SSAValue:
    """Where along an axis, which goes, the largest (`max`) or smallest (`min`) element stands.

    Of equal ones the first place, or the last, as int64. NaN is an extremum, so that there always
    is one.
    """
    is_extremum = b.compare("eq", x, reduce_keepdims(b, kind, x, [axis]))
    if dtype_of(x) in FLOATS:
        is_extremum = b.logical("or", is_extremum, b.compare("ne", x, x))
    number = b.iota(dims_of(x), axis, "i32")
    none = b.fill(-1, (), "i32") if last else b.size(dims_of(x)[axis], "i32")
    place = b.reduce("max" if last else "min", b.select(is_extremum, number, none), [axis])
    return b.cast(place, "i64")


def running_place(b: Builder, x: SSAValue, kind: str, axis: int) -> SSAValue:
    """Where the largest (`max`) or smallest (`min`) element so far stands along an axis, as int64.

    Of equal ones the last. NaN is an extremum.
    """
    rows = move_axis(b, b.stop_gradient(x) if dtype_of(x) in FLOATS else x, axis, 0)
    number = b.iota(dims_of(rows), 0, "i64")
    first = [b.reshape(b.slice(value, 0, 0, 1), dims_of(rows)[1:]) for value in (rows, number)]

    def step(inner: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (best, place), (new, index) = carry, row
        beyond = inner.compare("ge" if kind == "max" else "le", new, best)
        if dtype_of(x) in FLOATS:
            beyond = inner.logical("and", beyond, inner.compare("eq", best, best))
            beyond = inner.logical("or", beyond, inner.compare("ne", new, new))
        updated = [inner.select(beyond, new, best), inner.select(beyond, index, place)]
        return updated, updated[1:]

    _, (places,) = b.scan([], first, [rows, number], step)
    return move_axis(b, places, 0, axis)


def flat_places(b: Builder, places: Sequence[SSAValue], dims: Sequence[Dim]) -> SSAValue:
    """The numbers of elements in a flat tensor, by their int64 places along axes of size `dims`.

    Where one is outside of its axis the number is -1, which is an error of a gather.
    """
    total = outside = None
    for axis, (place, size) in enumerate(zip(places, dims, strict=True)):
        part = b.mul(place, b.size(product(dims[axis + 1 :])))
        total = part if total is None else b.add(total, part)
        if isinstance(place.owner, (Iota, Constant)):
            continue  # within it
        below = b.compare("lt", place, b.fill(0, (), "i64"))
        beyond = b.logical("or", below, b.compare("ge", place, b.size(size)))
        outside = beyond if outside is None else b.logical("or", outside, beyond)
    assert total is not None, "a tensor without axes has one element"
    return total if outside is None else b.select(outside, b.fill(-1, (), "i64"), total)


def gather_elements(b: Builder, x: SSAValue, index: SSAValue, axis: int) -> SSAValue:
    """y[i, j] = x[index[i, j], j] along axis 0, and so on; y like index."""
    dims = dims_of(x)
    return b.gather(b.reshape(x, (product(dims),)), element_places(b, index, dims, axis), 0)


def element_places(b: Builder, index: SSAValue, dims: Sequence[Dim], axis: int) -> SSAValue:
    """The numbers in a flat tensor of the elements [index[i, j], j] along axis 0, and so on."""
    return flat_places(b, _all_places(b, index, axis), dims)


def _all_places(b: Builder, index: SSAValue, axis: int) -> list[SSAValue]:
    """The places of elements along all axes, by those along one."""
    dims = dims_of(index)
    places = [b.iota(dims, other, "i64") for other in range(len(dims))]
    places[axis] = b.cast(index, "i64")
    return places


def put_elements(
    b: Builder,
    x: SSAValue,
    new: SSAValue,
    index: SSAValue,
    axis: int,
    kind: str = "",
    counted: SSAValue | None = None,
) -> SSAValue:
    """x where [index[i, j], j] along axis 0, and so on, is new[i, j]; `kind` and `counted` as of
    `put`."""
    return put_slices(b, x, new, _all_places(b, index, axis), kind, counted)


def put_slices(
    b: Builder,
    x: SSAValue,
    new: SSAValue,
    places: Sequence[SSAValue],
    kind: str = "",
    counted: SSAValue | None = None,
) -> SSAValue:
    """x where x[places[0][i], places[1][i], ...] is new[i], i being several axes; `kind` and
    `counted` as of `put`. Places are int64, along the first axes of x."""
    dims, count = dims_of(x), product(dims_of(places[0]))
    lead, rest = dims[: len(places)], dims[len(places) :]
    place = b.reshape(flat_places(b, places, lead), (count,))
    rows, new = b.reshape(x, (product(lead), *rest)), b.reshape(new, (count, *rest))
    counted = None if counted is None else b.reshape(counted, (count,))
    return b.reshape(put(b, rows, new, place, kind, counted), dims)


def first_places(b: Builder, flags: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The numbers of the rows of a vector of bools that are true, in order, then those of the
    others, last ones first; and how many are true."""
    (size,) = dims_of(flags)
    ones, row = b.cast(flags, "i64"), b.iota((size,), 0, "i64")
    before = cumulate(b, ones, 0, Builder.add, 0, exclusive=True)
    # All rows have places of their own: what is stored where the last row was waits for that.
    behind = b.sub(b.add(before, b.size(size - 1, "i64")), row)
    target, none = b.select(flags, before, behind), b.fill(0, (size,), "i64")
    return b.scatter("max", none, row, target, 0), total(b, ones, [0])


def put(
    b: Builder,
    x: SSAValue,
    rows: SSAValue,
    index: SSAValue,
    kind: str = "",
    counted: SSAValue | None = None,
) -> SSAValue:
    """x where row index[j] along axis 0 is rows[j], of several for one row the last; or where it is
    folded with all of them, by a kind of `rnn.scatter` or by "mul".

    Args:
        counted: bools, which of the rows are put, if not all.
    """
    if kind and counted is not None:
        rows = _or_other(b, counted, rows, _folds_nothing(b, x, kind))
        index = _or_other(b, counted, index, 0)
    if kind == "mul":
        return _multiplied_at(b, x, rows, index)
    if kind:
        return b.scatter(kind, x, rows, index, 0)
    size, count = dims_of(x)[0], dims_of(rows)[0]
    if count == 0:
        return x
    if not count.is_static:  # so that there is a row to read for those that nothing replaces
        rows = b.concat([rows, b.fill(0, (1, *dims_of(rows)[1:]), dtype_of(rows))], 0)
    number = b.iota((count,), 0, "i64")
    if counted is not None:  # the others put what no row is below
        index, number = (_or_other(b, counted, *pair) for pair in ((index, 0), (number, -1)))
    none = b.fill(-1, (size,), "i64")
    last = b.scatter("max", none, number, index, 0)
    new = b.gather(rows, b.maximum(last, b.full_like(last, 0)), 0)
    is_replaced = b.compare("ge", last, b.full_like(last, 0))
    return b.select(b.broadcast(is_replaced, dims_of(x), [0]), new, x)


def _or_other(b: Builder, counts: SSAValue, rows: SSAValue, other: SSAValue | int) -> SSAValue:
    """Another row, or number, in the place of those that do not count."""
    dims = dims_of(rows)
    other = b.fill(other, (), dtype_of(rows)) if isinstance(other, int) else other
    return b.select(b.broadcast(counts, dims, [0]), rows, other)


def _folds_nothing(b: Builder, x: SSAValue, kind: str) -> SSAValue | int:
    """What leaves row 0 of x as it is where it is folded with it."""
    if kind in ("sum", "mul"):
        return int(kind == "mul")
    return b.slice(x, 0, 0, 1)  # of which the extremum with itself is the same


def _multiplied_at(b: Builder, x: SSAValue, rows: SSAValue, index: SSAValue) -> SSAValue:
    """x where row index[j] along axis 0 is multiplied by rows[j], one j after the other.

    Each writes all of x. The gather is what an index outside of x fails in.
    """
    dims = dims_of(x)

    def step(inner: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (so_far,), (factor, place) = carry, row
        old = inner.gather(so_far, place, 0)
        new = inner.broadcast(inner.mul(old, factor), dims, range(1, len(dims)))
        here = inner.compare("eq", inner.iota(dims, 0, dtype_of(place)), place)
        return [inner.select(here, new, so_far)], []

    finals, _ = b.scan([], [x], [rows, index], step)
    return finals[0]


def one_hot(b: Builder, index: SSAValue, depth: Dim, axis: int) -> SSAValue:
    """Whether a place along a new axis of that depth is what the index says, as bools."""
    dims = dims_of(index)
    wide = (*dims[:axis], depth, *dims[axis:])
    at = b.broadcast(index, wide, [a for a in range(len(wide)) if a != axis])
    return b.compare("eq", at, b.iota(wide, axis, dtype_of(index)))


def triangle(b: Builder, x: SSAValue, shift: Dim | int, upper: bool) -> SSAValue:
    """The upper or lower triangle of x's last two axes from a diagonal on, zeros elsewhere."""
    dims = dims_of(x)
    row, column = (b.iota(dims, len(dims) - k, "i32") for k in (2, 1))
    kind, shift = "ge" if upper else "le", Dim.of(shift)
    edge = b.fill(int(shift), (), "i32") if shift.is_static else b.size(shift, "i32")
    inside = b.compare(kind, b.sub(column, row), edge)
    if dtype_of(x) == "i1":
        return b.logical("and", inside, x)
    return b.select(inside, x, b.fill(0, (), dtype_of(x)))


def diagonal(
    b: Builder, x: SSAValue, axes: tuple[int, int], count: Dim, offset: int = 0
) -> SSAValue:
    """The first `count` elements whose places along two axes differ by `offset`, as the last axis.

    A negative `offset` is that of the first of the axes.
    """
    first, second = axes
    others = [axis for axis in range(len(dims_of(x))) if axis not in axes]
    dims = [dims_of(x)[axis] for axis in (first, second, *others)]
    rows = b.reshape(b.transpose(x, [first, second, *others]), (dims[0] * dims[1], *dims[2:]))
    number = b.iota((count,), 0, "i64")
    row, column = (
        b.add(number, b.fill(shift, (), "i64")) for shift in (max(-offset, 0), max(offset, 0))
    )
    place = b.add(b.mul(row, b.size(dims[1])), column)
    return move_axis(b, b.gather(rows, place, 0), 0, len(others))
