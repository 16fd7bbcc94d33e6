"""Which ops do each time step by itself, so that a run of steps can be done alone."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import OrderedSum
from rnncc.ir.ops.shape import Shift
from rnncc.ir.types import dims_of


def rows_a_step(value: SSAValue, length: Dim) -> Dim | None:
    """The rows of each time step, where all of a value's rows are those of steps in order."""
    dims = dims_of(value)
    rows = dims[0].divide(length) if dims else None
    if rows is None or any(length.symbols & d.symbols for d in (rows, *dims[1:])):
        return None
    return rows


def is_timed(value: SSAValue, length: Dim) -> bool:
    """Whether a value's first axis is time, and no other is."""
    return rows_a_step(value, length) is not None


def in_order(op: Operation, length: Dim, reverse: bool) -> bool:
    """Whether an op takes the time steps in the order asked for, if in any."""
    match op:
        case Scan():
            return op.steps == length and bool(op.reverse) == reverse
        case Shift() | OrderedSum():
            return bool(op.reverse) == reverse
        case _:
            return True


def is_local(op: Operation, length: Dim) -> bool:
    """Whether an op does each time step by itself, given what it hands from one to the next."""
    match op:
        case Scan():
            # A carry as long as time cannot be handed from run to run: no part of it belongs to
            # one.
            whole = (*op.inits, *op.finals)
            timed = all(rows_a_step(v, length) == 1 for v in (*op.xs, *op.ys))
            return op.steps == length and timed and not any(_mentions(v, length) for v in whole)
        case OrderedSum():
            rows = op.operands[1:]
            return all(is_timed(v, length) for v in rows) and not _mentions(op.y, length)
        case Shift():
            # It moves by one row, which has to be one step.
            return rows_a_step(op.x, length) == 1 and not is_timed(op.init, length)
        case RnnOp():
            return is_timed(op.y, length) and _keeps_rows(op, length)
        case _:
            return False


def _mentions(value: SSAValue, length: Dim) -> bool:
    return any(length.symbols & d.symbols for d in dims_of(value))


def _keeps_rows(op: RnnOp, length: Dim) -> bool:
    """Whether steps of the result, which come first, are computed from the same steps of x."""
    axes = op.operand_axes(0)
    return axes is not None and all(
        not _mentions(v, length) if axis is None else axis == 0 and is_timed(v, length)
        for v, axis in zip(op.operands, axes, strict=True)
    )
