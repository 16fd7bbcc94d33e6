"""Views along axes: an axis elsewhere, elements at even distances, vectors along channels."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of


def by_channel(b: Builder, vector: SSAValue, x: SSAValue) -> SSAValue:
    """A vector along axis 1 of tensors like x."""
    return b.reshape(vector, (*dims_of(vector), *[1] * (len(dims_of(x)) - 2)))


def along(b: Builder, values: SSAValue, axis: int, rank: int) -> SSAValue:
    """One value for all, or [C] for the elements along an axis of a tensor of that rank."""
    if all(d == 1 for d in dims_of(values)):
        return b.reshape(values, ())
    return b.reshape(values, [*[1] * axis, dims_of(values)[0], *[1] * (rank - axis - 1)])


def kept_dims(x: SSAValue, axes: Iterable[int]) -> list[Dim]:
    """The shape of x with size 1 along some axes."""
    return [Dim.of(1) if axis in axes else size for axis, size in enumerate(dims_of(x))]


def move_axis(b: Builder, x: SSAValue, source: int, target: int) -> SSAValue:
    """x with one axis, counted from the front, at another place; the others keep their order."""
    order = [axis for axis in range(len(dims_of(x))) if axis != source]
    order.insert(target, source)
    return b.transpose(x, order)


def transposed(b: Builder, x: SSAValue) -> SSAValue:
    """The last two axes swapped."""
    rank = len(dims_of(x))
    return move_axis(b, x, rank - 1, rank - 2)


def strided(
    b: Builder, x: SSAValue, axis: int, start: Dim | int, count: Dim, step: int
) -> SSAValue:
    """x[start], x[start + step], ... along an axis, `count` of them; step may be negative."""
    dims = dims_of(x)
    if step == 1:
        return b.slice(x, axis, start, count)
    if step > 0:
        windows = b.windows(x, axis, start, count, step)
        return b.reshape(windows, (*dims[:axis], count, *dims[axis + 1 :]))
    number = b.mul(b.iota((count,), 0, "i64"), b.fill(step, (), "i64"))
    return b.gather(x, b.add(number, b.size(Dim.of(start))), axis)


def cut(b: Builder, x: SSAValue, count: int) -> list[SSAValue]:
    """The last axis in so many equal parts."""
    axis = len(dims_of(x)) - 1
    size = int(dims_of(x)[axis]) // count
    return [b.slice(x, axis, k * size, size) for k in range(count)]


def row(b: Builder, x: SSAValue, index: int) -> SSAValue:
    """x[index]"""
    return b.reshape(b.slice(x, 0, index, 1), dims_of(x)[1:])
