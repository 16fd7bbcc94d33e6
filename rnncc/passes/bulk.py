"""An op of a loop's body, done for all time steps at once: every axis moves by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Elementwise, get_ints
from rnncc.ir.ops.indexing import Gather, Windows
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.types import dims_of
from rnncc.passes.dependence import Kind

Kinds = dict[SSAValue, Kind]
Operands = Sequence[SSAValue]


def can_do_in_bulk(op: Operation, kinds: Kinds) -> bool:
    """Whether `in_bulk` knows the op, with operands of these kinds."""
    if isinstance(op, Matmul):
        fits = kinds[op.b] == Kind.CONST and len(dims_of(op.b)) == 2
        return kinds[op.a] == Kind.ROW and (fits or len(dims_of(op.a)) == len(dims_of(op.b)))
    if isinstance(op, Gather):
        return Kind.CONST in (kinds[op.x], kinds[op.index]) and _axis_stays(op, kinds)
    return isinstance(op, (Elementwise, *_SHIFTS))


def _axis_stays(op: Gather, kinds: Kinds) -> bool:
    """Whether time stays in front: rows of a table by number, or of each step's x by the same."""
    return op.axis.data == 0 or kinds[op.index] == Kind.CONST


def takes_whole(op: Operation, value: SSAValue, kinds: Kinds) -> bool:
    """Whether an operand is one matrix or table for all steps, not a sequence of them."""
    if isinstance(op, Gather):
        return kinds[value] == Kind.CONST
    return (
        isinstance(op, Matmul)
        and value is op.b
        and kinds[value] == Kind.CONST
        and (len(dims_of(value)) == 2)
    )


def in_bulk(b: Build, op: Operation, operands: Operands, steps: Dim) -> SSAValue:
    """The op over operands with a leading time axis."""
    if isinstance(op, (Elementwise, Matmul)):
        return b.like(op, operands)
    return _SHIFTS[type(op)](b, op, operands, steps)


def spread(b: Build, value: SSAValue, steps: Dim) -> SSAValue:
    """A value repeated for all steps."""
    dims = dims_of(value)
    return b.broadcast(value, [steps, *dims], range(1, len(dims) + 1))


def _later(axes: Sequence[int]) -> list[int]:
    return [axis + 1 for axis in axes]


def _reshape(b: Build, op: Reshape, operands: Operands, steps: Dim) -> SSAValue:
    return b.reshape(operands[0], [steps, *dims_of(op.y)])


def _transpose(b: Build, op: Transpose, operands: Operands, steps: Dim) -> SSAValue:
    return b.transpose(operands[0], [0, *_later(get_ints(op.perm))])


def _broadcast(b: Build, op: Broadcast, operands: Operands, steps: Dim) -> SSAValue:
    return b.broadcast(operands[0], [steps, *dims_of(op.y)], [0, *_later(get_ints(op.axes))])


def _gather(b: Build, op: Gather, operands: Operands, steps: Dim) -> SSAValue:
    """Either x or index has a leading time axis."""
    table = len(dims_of(operands[0])) == len(dims_of(op.x))
    return b.gather(operands[0], operands[1], op.axis.data + (not table))


def _slice(b: Build, op: Slice | Windows, operands: Operands, steps: Dim) -> SSAValue:
    return b.like(op, operands, axis=IntAttr(op.axis.data + 1))


def _concat(b: Build, op: Concat, operands: Operands, steps: Dim) -> SSAValue:
    return b.concat(operands, op.axis.data + 1)


def _reduce(b: Build, op: Reduce, operands: Operands, steps: Dim) -> SSAValue:
    return b.reduce(op.kind.data, operands[0], _later(get_ints(op.axes)))


_SHIFTS: dict[type[Operation], Callable[[Build, Any, Operands, Dim], SSAValue]] = {
    Reshape: _reshape,
    Transpose: _transpose,
    Broadcast: _broadcast,
    Slice: _slice,
    Concat: _concat,
    Reduce: _reduce,
    Gather: _gather,
    Windows: _slice,
}
