"""Which ops do each time step by itself, so that a run of steps can be done alone."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Elementwise, get_ints
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.indexing import Gather, Windows
from rnncc.ir.ops.linear import Contract, Matmul, Reduce, SumRows
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Shift, Slice, Transpose
from rnncc.ir.ops.source import Fill
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
        case Shift() | Contract() | SumRows():
            return bool(op.reverse) == reverse
        case _:
            return True


def is_local(op: Operation, length: Dim) -> bool:
    """Whether an op does each time step by itself, given what it hands from one to the next."""
    if isinstance(op, Scan):
        whole = (*op.inits, *op.finals)
        timed = all(rows_a_step(v, length) == 1 for v in (*op.xs, *op.ys))
        return op.steps == length and timed and not any(_mentions(v, length) for v in whole)
    if isinstance(op, Contract | SumRows):
        rows = op.operands[1:]
        return all(is_timed(v, length) for v in rows) and not _mentions(op.y, length)
    return len(op.results) == 1 and is_timed(op.results[0], length) and _keeps_rows(op, length)


def _mentions(value: SSAValue, length: Dim) -> bool:
    return any(length.symbols & d.symbols for d in dims_of(value))


def _keeps_rows(op: Operation, length: Dim) -> bool:
    """Of an op whose result is timed."""
    timed = [is_timed(v, length) for v in op.operands]
    match op:
        case Fill() | Elementwise():
            return all(timed)
        case Reshape():
            return timed[0]
        case Shift():
            return rows_a_step(op.x, length) == 1 and not timed[1]
        case Transpose():
            return timed[0] and get_ints(op.perm)[0] == 0
        case Slice() | Concat() | Windows():
            return all(timed) and op.axis.data != 0
        case Gather():
            return _gathers_rows(op, length)
        case Reduce():
            return timed[0] and 0 not in get_ints(op.axes)
        case Broadcast():
            return _broadcasts_rows(op, length)
        case Matmul():
            return _multiplies_rows(op, length)
        case _:
            return False


def _broadcasts_rows(op: Broadcast, length: Dim) -> bool:
    if is_timed(op.x, length):
        return get_ints(op.axes)[0] == 0 and dims_of(op.x)[0] == dims_of(op.y)[0]
    return not _mentions(op.x, length)


def _gathers_rows(op: Gather, length: Dim) -> bool:
    """Rows of one table, by each step's numbers; or of each step's x, by the same numbers."""
    if op.axis.data == 0:
        return is_timed(op.index, length) and not _mentions(op.x, length)
    return is_timed(op.x, length) and not _mentions(op.index, length)


def _multiplies_rows(op: Matmul, length: Dim) -> bool:
    rank = len(dims_of(op.a))
    if not is_timed(op.a, length) or (rank == 2 and op.transpose_a):
        return False
    if is_timed(op.b, length):
        return rank > 2 and len(dims_of(op.b)) == rank
    return len(dims_of(op.b)) == 2 and not _mentions(op.b, length)
