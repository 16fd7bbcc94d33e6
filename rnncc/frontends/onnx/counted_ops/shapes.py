"""Reshape of tensors whose number of rows the run decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import counted_shape, same_count
from rnncc.frontends.onnx.counted.rows import Crossed, Partial
from rnncc.frontends.onnx.counted_ops.batches import Operands, only
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.shape import flat_sizes
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of


def reshaped(n: Node, inputs: Operands) -> Partial | None:
    """Other axes change, before the rows or behind them; or rows are cut into parts of equal
    shapes, or some put together into one, or into groups of as many; or an axis before them and
    theirs become one.
    """
    x = only(inputs)
    target = None if x is None else _sizes(n, x)
    if x is None or target is None:
        return None
    sizes, expected = target
    if not n.flag("allowzero", 0):
        sizes = [
            x.dims[a] if s == 0 and a < x.rank and a != x.axis else s for a, s in enumerate(sizes)
        ]
    result = _of_sizes(n, x, sizes)
    if result is None or result.count is None or expected is None:
        return result
    return Partial.counted(result.whole(), result.axis, same_count(n.b, result.count, expected))


def flattened(n: Node, inputs: Operands) -> Partial | None:
    """Two axes, one of which holds the rows."""
    x = only(inputs)
    if x is None:
        return None
    first, sizes = flat_sizes(n, x.dims)
    sizes[x.axis >= first] = Dim.of(-1)
    n.inputs = [n.inputs[0], None]
    return _of_sizes(n, x, sizes)


def flattened_both(n: Node, x: Crossed) -> Partial | None:
    """Two axes, one of which holds the rows along both of x's."""
    first, sizes = flat_sizes(n, x.dims)
    sides = {axis >= first for axis in x.axes}
    joined = joined_axes(n, x) if len(sides) == 1 else None
    if joined is None:
        return None
    sizes[sides.pop()] = Dim.of(-1)
    n.inputs = [joined.whole(), None]
    return _of_sizes(n, joined, sizes)


def _sizes(n: Node, x: Partial) -> tuple[list[Dim], SSAValue | None] | None:
    """The shape, where the number of rows is 0 or -1, and this number, if it is computed."""
    if n.value(1).known is not None:
        return n.sizes(1), None
    shape = counted_shape(n, 1)
    if shape is None:
        return _one_computed(n)
    sizes = list(shape.dims)
    sizes[shape.axis] = Dim.of(-1)
    if sizes.count(Dim.of(-1)) > 1:
        if shape.axis == x.axis and shape.dims[x.axis] == x.dims[x.axis]:
            sizes[shape.axis] = Dim.of(0)
            return None if n.flag("allowzero", 0) else (sizes, shape.count)
        others = product(size for size in shape.dims if size != -1)
        rest = None if 0 in sizes else product(x.dims).divide(others)
        if rest is None:
            return None
        sizes = [rest if size == -1 else size for size in shape.dims]
        sizes[shape.axis] = Dim.of(-1)
    return sizes, shape.count


def _one_computed(n: Node) -> tuple[list[Dim], SSAValue | None] | None:
    """The same of a shape with one computed number, or none: whatever bounds it, it must be that of
    the rows that count.
    """
    value = n.value(1)
    if value.rank != 1 or not value.dims[0].is_static:
        return None
    places = n.places(1)
    computed = [place for place in places if not isinstance(place, Dim)]
    sizes = [place if isinstance(place, Dim) else Dim.of(-1) for place in places]
    if len(computed) > 1 or sizes.count(Dim.of(-1)) != 1:
        return None
    return sizes, computed[0] if computed else None


def _of_sizes(n: Node, x: Partial, sizes: list[Dim]) -> Partial | None:
    if x.made is None or x.count is None:
        return None
    for axis in range(len(sizes)):
        if _is_kept(n, x, sizes, axis):
            n.inputs[1] = Value.of(np.array(sizes, object))
            return Partial.counted(n.built_as("Reshape"), axis, x.count)
    if (parts := _parts(x, sizes)) is not None:
        n.inputs[1] = Value.of(np.array(sizes, object))
        count = n.b.mul(x.count, n.b.size(parts, "i64"))
        return Partial.counted(n.built_as("Reshape"), sizes.index(Dim.of(-1)), count)
    if -1 in sizes and 0 not in sizes:
        regrouped = _merged(n, x, sizes) or _in_groups(n, x, sizes)
        if regrouped is not None:
            return regrouped
    return None if 0 in sizes else _put_together(n, x, sizes)


def _parts(x: Partial, sizes: Sequence[Dim]) -> Dim | None:
    """How many rows each becomes along the axis of size -1, where all before it stays."""
    if -1 not in sizes or 0 in sizes:
        return None
    axis = sizes.index(Dim.of(-1))
    if not _are_same(x, sizes[:axis], x.dims[: x.axis], 0):
        return None
    return product(x.dims[x.axis + 1 :]).divide(product(sizes[axis + 1 :]))


def _is_kept(n: Node, x: Partial, sizes: Sequence[Dim], axis: int) -> bool:
    """Whether an axis is that of the rows, and those before and behind it are as many."""
    size, before, behind = sizes[axis], sizes[:axis], sizes[axis + 1 :]
    if size != -1 and (size != 0 or axis != x.axis or n.flag("allowzero", 0)):
        return False
    first = _are_same(x, before, x.dims[: x.axis], 0)
    return first and _are_same(x, behind, x.dims[x.axis + 1 :], axis + 1)


def _are_same(x: Partial, sizes: Sequence[Dim], dims: Sequence[Dim], first: int) -> bool:
    """Whether axes, from one on, have as many elements as others; one may be -1 for the rest."""
    own = (x.dims[at] if at < x.rank else Dim.of(0) for at in range(first, first + len(sizes)))
    known = [kept if size == 0 else size for size, kept in zip(sizes, own, strict=True)]
    rest = product(size for size in known if size != -1)
    whole = product(dims)
    return whole == rest if -1 not in known else whole.divide(rest) is not None


def _merged(n: Node, x: Partial, sizes: list[Dim]) -> Partial | None:
    """The rows of all elements of axes before theirs, one behind the other."""
    axis, b = sizes.index(Dim.of(-1)), n.b
    before, behind = product(sizes[:axis]), sizes[axis + 1 :]
    first = next((a for a in range(x.axis) if product(x.dims[:a]) == before), None)
    parts = product(x.dims[x.axis + 1 :]).divide(product(behind))
    if first is None or parts is None or x.count is None:
        return None
    room, groups = x.dims[x.axis] * parts, product(x.dims[first : x.axis])
    rows = groups * room
    each = b.mul(x.count, b.size(parts, "i64"))
    places = _places_behind_each_other(n, rows, each, room)
    tensor = b.reshape(n.scope.ssa(x.whole()), (*sizes[:axis], rows, *behind))
    count = b.mul(each, b.size(groups, "i64"))
    n.scope.model.counts[count] = rows
    return Partial.counted(Value.computed(_rows_at(n, tensor, places, axis)), axis, count)


def joined_axes(n: Node, x: Crossed) -> Partial | None:
    """The rows along two axes beside each other as such along one: those that count, one behind the
    other."""
    (first, count), (second, width) = sorted(zip(x.axes, x.counts, strict=True), key=lambda p: p[0])
    if second != first + 1:
        return None
    b, (outer, inner) = n.b, x.dims[first : second + 1]
    room = outer * inner
    places = _places_behind_each_other(n, room, width, inner)
    dims = (*x.dims[:first], room, *x.dims[second + 1 :])
    tensor = _rows_at(n, b.reshape(n.scope.ssa(x.whole()), dims), places, first)
    joined = Partial.counted(Value.computed(tensor), first, b.mul(count, width))
    assert joined.count is not None
    n.scope.model.counts[joined.count] = room
    return joined


def _places_behind_each_other(n: Node, rows: Dim, each: SSAValue, room: Dim) -> SSAValue:
    """Where the rows that count lie, in their order: the first `each` of each group of `room`; of
    no row of a group one behind it.

    Args:
        rows: of all groups.
    """
    b = n.b
    at = b.iota((rows,), 0, "i64")
    width, whole = (
        b.broadcast(number, (rows,), [])
        for number in (b.maximum(each, n.full(1, each)), b.size(room, "i64"))
    )
    group = b.div(at, width)
    return b.add(b.mul(group, whole), b.sub(at, b.mul(group, width)))


def _in_groups(n: Node, x: Partial, sizes: list[Dim]) -> Partial | None:
    """So many groups of equally many rows: if rows are left over, the run fails."""
    axis, b = sizes.index(Dim.of(-1)), n.b
    behind = sizes[axis + 1 :]
    if x.count is None or not _are_same(x, sizes[: x.axis], x.dims[: x.axis], 0):
        return None
    groups = product(sizes[x.axis : axis])
    room = x.dims[x.axis].divide(groups)
    if axis <= x.axis or room is None or product(x.dims[x.axis + 1 :]) != product(behind):
        return None
    size = b.maximum(b.size(groups, "i64"), n.full(1, x.count))
    whole = same_count(b, x.count, b.mul(b.div(x.count, size), size))
    each = b.div(whole, size)
    grid = (groups, room)
    group, within = (b.iota(grid, at, "i64") for at in (0, 1))
    places = b.add(b.mul(group, b.broadcast(each, grid, [])), within)
    places = b.reshape(places, (groups * room,))
    tensor = b.reshape(n.scope.ssa(x.whole()), (*sizes[: x.axis], x.dims[x.axis], *behind))
    tensor = b.reshape(_rows_at(n, tensor, places, x.axis), (*sizes[:axis], room, *behind))
    n.scope.model.counts[each] = room
    return Partial.counted(Value.computed(tensor), axis, each)


def _rows_at(n: Node, tensor: SSAValue, places: SSAValue, axis: int) -> SSAValue:
    """Rows along an axis; for places behind its end, whose rows do not count, the last one."""
    last = n.b.broadcast(n.b.size(dims_of(tensor)[axis] - 1, "i64"), dims_of(places), [])
    return n.b.gather(tensor, n.b.minimum(places, last), axis)


def _put_together(n: Node, x: Partial, sizes: list[Dim]) -> Partial | None:
    """As many rows as are whole groups of others: if rows are left over, the run fails."""
    if -1 not in sizes or x.count is None:
        return None
    axis, b = sizes.index(Dim.of(-1)), n.b
    before, behind = sizes[:axis], sizes[axis + 1 :]
    parts = product(behind).divide(product(x.dims[x.axis + 1 :]))
    if parts is None or not parts.is_static or not _are_same(x, before, x.dims[: x.axis], 0):
        return None
    size, groups = b.size(parts, "i64"), (x.dims[x.axis] - (parts - 1)).over(int(parts))
    whole = same_count(b, x.count, b.mul(b.div(x.count, size), size))
    tensor = b.slice(n.scope.ssa(x.whole()), x.axis, 0, groups * int(parts))
    tensor = b.reshape(tensor, (*before, groups, *behind))
    return Partial.counted(Value.computed(tensor), axis, b.div(whole, size))
