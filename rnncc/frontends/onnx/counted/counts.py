"""Sizes that the run counts: how many elements of a tensor of bools are true, as a shape."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.decided import decided_size
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.offsets import (
    are_same,
    formula_of,
    parted,
    total,
    unless_negative,
)
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.values import Value, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Minimum, Mul
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.size_proofs import at_most, is_natural, larger, smaller
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record


@record
class CountedShape:
    """A shape, one size of which the run counts.

    Attributes:
        dims: with the most that it may be.
        axis: where it stands.
        count: what it is, an int64 without axes.
    """

    dims: Sequence[Dim]
    axis: int
    count: SSAValue


def counted_shape(n: Node, index: int) -> CountedShape | None:
    """The shape that an input holds, where one of its sizes is a count and the others are known."""
    value = n.value(index)
    if value.made is None or value.rank != 1 or not value.dims[0].is_static:
        return None
    if n.scope.model.training:
        return None
    if value.dtype not in ("i32", "i64"):
        return None
    dims, counts = list[Dim](), list[tuple[int, SSAValue, Dim]]()
    for axis, place in enumerate(n.places(index)):
        base, size = (None, place) if isinstance(place, Dim) else parted(unless_negative(place))
        if base is not None:
            most = most_counted(n, base)
            if most is None:
                return None
            counts.append((axis, base, size))
            size = larger(most + size, Dim.of(0))
        dims.append(size)
    if len(counts) != 1:
        return None
    [(axis, base, more)] = counts
    return CountedShape(dims, axis, count_of(n, base, more, dims[axis]))


def count_of(n: Node, base: SSAValue, more: Dim, most: Dim) -> SSAValue:
    """A computed number and a formula as a count of rows, of at most so many: if there are more, or
    fewer than none, the run fails."""
    b, count = n.b, n.b.reshape(n.b.cast(base, "i64"), ())
    count = count if more == 0 else b.add(count, b.size(more, "i64"))
    if most_seen(n, base) is not None and is_natural(more):
        return count
    none, limit = n.full(0, count), b.size(most, "i64")
    fits = b.logical("and", b.compare("ge", count, none), b.compare("le", count, limit))
    return one_that_fits(b, count, fits)


def within_most(n: Node, rows: Partial) -> Partial:
    """Rows along axis 0, at most as many as the user gives as the most; if there are more, the run
    fails."""
    most, count = n.scope.model.max_iterations, rows.count
    assert count is not None and rows.axis == 0
    if most is None or is_natural(most - rows.dims[0]):
        return rows
    if rows.dims[0].divide(most) is None:  # else it is as many times as there are elements
        most = smaller(most, rows.dims[0])
    tensor = n.b.slice(n.scope.ssa(rows.whole()), 0, 0, most)
    return Partial.counted(Value.computed(tensor), 0, count_of(n, count, Dim.of(0), most))


def most_counted(n: Node, number: SSAValue) -> Dim | None:
    """The most that a number may be, if it counts rows, or what is true in a tensor of bools; else
    what the user gives as the most."""
    most = most_seen(n, number)
    if most is not None or n.scope.model.training or decided_size(n, number) is not None:
        return most
    return n.most_given()


def most_seen(n: Node, number: SSAValue) -> Dim | None:
    """The most that a number may be, if it counts rows, or what is true in a tensor of bools."""
    if number in n.scope.model.counts:
        return n.scope.model.counts[number]
    op = number.owner
    if isinstance(op, Mul):
        return _most_multiplied(n, *op.operands)
    if isinstance(op, Minimum):
        return _least_of_most(n, *op.operands)
    if not isinstance(op, Reduce) or op.kind.data != "sum" or product(dims_of(number)) != 1:
        return None
    ones = op.x
    while isinstance(ones.owner, Reshape):
        ones = ones.owner.x
    cast = ones.owner
    counts = isinstance(cast, Cast) and dtype_of(cast.x) == "i1"
    return product(dims_of(ones)) if counts else None


def _most_multiplied(n: Node, one: SSAValue, other: SSAValue) -> Dim | None:
    """The most that a count may be, some times."""
    (base, more), times = parted(one), formula_of(other)
    if times is None:
        (base, more), times = parted(other), formula_of(one)
    if base is None or times is None or more != 0 or not is_natural(times):
        return None
    most = most_seen(n, base)
    return None if most is None else most * times


def _least_of_most(n: Node, one: SSAValue, other: SSAValue) -> Dim | None:
    """The most that the smaller of a count and of a size may be."""
    (base, more), formula = parted(one), formula_of(other)
    if formula is None:
        (base, more), formula = parted(other), formula_of(one)
    if base is None or formula is None or not is_natural(formula) or not is_natural(more):
        return None
    most = most_seen(n, base)
    return None if most is None else smaller(most + more, formula)


def repeated(n: Node, x: SSAValue, shape: CountedShape) -> Partial | None:
    """x broadcast to a shape, along its counted axis from one row or from as many as may be."""
    dims = dims_of(x)
    rank = max(len(dims), len(shape.dims))
    old = [Dim.of(1)] * (rank - len(dims)) + list(dims)
    new = [Dim.of(1)] * (rank - len(shape.dims)) + list(shape.dims)
    axis = shape.axis + rank - len(shape.dims)
    both = [b if a == 1 else a for a, b in zip(old, new, strict=True)]
    if both[axis] != new[axis] or any(b not in (1, a) for a, b in zip(both, new, strict=True)):
        return None
    repeats = n.b.broadcast(x, both, range(rank - len(dims), rank))
    return Partial.counted(Value.computed(repeats), axis, shape.count)


def joined_rows(n: Node, parts: Sequence[Value], rows: Sequence[SSAValue], axis: int) -> Value:
    """Tensors one behind the other along an axis, of some of which the run decides how many rows
    count.

    Args:
        rows: all rows of each.
    """
    b, (joined, *others) = n.b, rows
    counts = [_count_along(n, part, axis) for part in parts]
    count, counted = counts[0], isinstance(parts[0], Partial)
    for part, rest, more in zip(parts[1:], others, counts[1:], strict=True):
        before, joined = dims_of(joined)[axis], b.concat([joined, rest], axis)
        if counted:  # the rows that do not count are left out
            joined = b.gather(joined, _places_behind(b, before, dims_of(joined)[axis], count), axis)
        counted, count = counted or isinstance(part, Partial), b.add(count, more)
    known = _known_total(n, counts)
    if known is not None and at_most(known, dims_of(joined)[axis]):
        return Value.computed(b.slice(joined, axis, 0, known))
    return Partial.counted(Value.computed(joined), axis, count)


def _known_total(n: Node, counts: Sequence[SSAValue]) -> Dim | None:
    """What numbers of rows add up to, if that is a formula, and the same in each iteration."""
    if len(counts) == 2 and (whole := total(*counts)) is not None:  # of x[:n] and x[n:]
        return whole
    lengths = [n.scope.model.lengths.get(count, formula_of(count)) for count in counts]
    known = [length for length in lengths if length is not None]
    whole = sum(known, Dim.of(0))
    return None if len(known) < len(counts) or varies(whole) else whole


def _count_along(n: Node, part: Value, axis: int) -> SSAValue:
    count = part.count if isinstance(part, Partial) else None
    return n.b.size(part.dims[axis], "i64") if count is None else count


def _places_behind(b: Builder, before: Dim, size: Dim, count: SSAValue) -> SSAValue:
    """The numbers of so many rows of a tensor, then of those behind its first part."""
    at = b.iota((size,), 0, "i64")
    count, first, last = (
        b.broadcast(number, (size,), [])
        for number in (count, b.size(before, "i64"), b.size(size - 1, "i64"))
    )
    behind = b.minimum(b.add(b.sub(at, count), first), last)
    return b.select(b.compare("lt", at, count), at, behind)


def same_count(b: Builder, one: SSAValue, other: SSAValue) -> SSAValue:
    """A count that another one is equal to: where it is not, the run fails."""
    return one if are_same(one, other) else one_that_fits(b, one, b.compare("eq", one, other))


def one_that_fits(b: Builder, count: SSAValue, fits: SSAValue) -> SSAValue:
    """A count for which something holds: where it does not, the run fails."""
    # the one row there is, or one that is not there
    row = b.select(fits, b.fill(0, (), "i64"), b.fill(1, (), "i64"))
    return b.gather(b.reshape(count, (1,)), row, 0, counts=True)
