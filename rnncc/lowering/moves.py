"""Ops that move elements: concatenation, reversal, gather, scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.indexing import Gather, Scatter
from rnncc.ir.ops.shape import Concat, ReverseSegments
from rnncc.ir.types import dims_of
from rnncc.kern import moves
from rnncc.lowering.maps import Placed

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering


def emit_concat(lowering: Lowering, op: Concat) -> None:
    """Copy the parts that no kernel has written where they belong.

    Before:

        v1 = relu(x)
        v2 = concat(v1, z, axis=1)
        return v2

    After:

        map i in N, j in 3: y[5*i + j] = relu(x)
        map i in N, j in 2: y[5*i + j + 3] = z
    """
    for start, value in op.parts:
        dest = part(lowering, op, start)
        # Kernels of elementwise values have written to their part already, and so has what was
        # placed there.
        if not isinstance(value.owner, Elementwise) and lowering.places.get(value) != dest:
            lowering.emit_map([(value, dest)], dims_of(value))


def part(lowering: Lowering, op: Concat, start: Dim) -> Placed:
    """Where a part of a concatenation that starts there belongs."""
    whole = lowering.places.get(op.y) or _whole(lowering, op)
    access = whole.access.shifted(whole.access.strides[op.axis.data] * start)
    return Placed(whole.buffer, access)


def _whole(lowering: Lowering, op: Concat) -> Placed:
    """Where a concatenation is put together: in another one, if that alone reads it."""
    use = next(iter(op.y.uses)) if op.y.has_one_use() else None
    around = None if use is None else use.operation
    # The parts of an inner concatenation are then written to their final place at once: a chain of
    # n joins copies nothing.
    nested = isinstance(around, Concat) and around.parent is op.parent
    if not nested or op.y in lowering.output_of:
        return lowering.alone(op.y)
    assert isinstance(around, Concat) and use is not None
    before = (dims_of(x)[around.axis.data] for x in around.xs[: use.index])
    lowering.places[op.y] = part(lowering, around, sum(before, ZERO))
    return lowering.places[op.y]


def emit_reverse(lowering: Lowering, op: ReverseSegments) -> None:
    """Each column's first `length` rows, last first.

    Before:

        v1 = reverse_segments(x, lengths)
        return v1

    After:

        output y: 3*T*N, stand-in of 3*T*N
        reverse y = x by lengths
    """
    x, lengths = lowering.pointer(op.x), lowering.pointer(op.lengths)
    dest = lowering.alone(op.y)
    steps, columns, *rest = dims_of(op.x)
    dims = (steps, columns, product(rest))
    lowering.builder.insert(moves.Reverse(x, lengths, dest.buffer, dims))


def emit_gather(lowering: Lowering, op: Gather) -> None:
    """Rows along one axis, by number.

    Before:

        v1 = gather(table, index, axis=0)
        return v1

    After:

        output y: 4*N, stand-in of 4*N
        gather y = table by index
    """
    x, index = lowering.pointer(op.x), lowering.pointer(op.index)
    dest, dims, axis = lowering.alone(op.y), dims_of(op.x), op.axis.data
    sizes = _around(dims, op.index, axis)
    gather = moves.Gather([x, index, dest.buffer], sizes, dims[axis])
    if bool(op.counts):
        gather.properties["counts"] = UnitAttr()
    lowering.builder.insert(gather)


def emit_scatter(lowering: Lowering, op: Scatter) -> None:
    """Rows folded along one axis, by number.

    Before:

        v1 = scatter(table, dy, index, axis=0, kind=sum)
        return v1

    After:

        scatter y = table + dy by index
    """
    init = None if op.starts_at_zero else lowering.pointer(op.init)
    x, index = lowering.pointer(op.x), lowering.pointer(op.index)
    dest, dims, axis = lowering.alone(op.y), dims_of(op.y), op.axis.data
    sizes, buffers = _around(dims, op.index, axis), [init, x, index, dest.buffer]
    lowering.builder.insert(moves.Scatter(op.kind.data, buffers, sizes, dims[axis]))


def _around(dims: Sequence[Dim], index: SSAValue, axis: int) -> tuple[Dim, Dim, Dim]:
    """How many elements there are in front of an axis, how many numbers, how many in each row."""
    return product(dims[:axis]), product(dims_of(index)), product(dims[axis + 1 :])


EMITTERS: dict[type[Operation], Callable[[Lowering, Any], None]] = {
    Concat: emit_concat,
    ReverseSegments: emit_reverse,
    Gather: emit_gather,
    Scatter: emit_scatter,
}
