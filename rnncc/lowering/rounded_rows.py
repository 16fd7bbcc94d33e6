"""Sequences that rounded sums read are rounded where they are made, and stored as bf16 besides.

Gradients of a loop are read by the loop's product and, when it has ended, by sums over all rows and
by a product of all rows: over and over, by tiles, in half as many bytes.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import Access, buffer_dtype
from rnncc.kern.dialect import Buffer, Row
from rnncc.kern.kernels import Contract, Gemm, Map
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import timeline


def round_where_made(program: KernelProgram) -> None:
    """Give each sequence that maps alone write, and rounded sums read, a copy in bf16.

    Before:

        map i in N, j in 4: y.mul = dy * w[j]
        contract m in 3, n in 4: dw = sum k in N x[k, m] * y.mul[k, n], rounded

    After:

        map i in N, j in 4: y.mul, y.mul.bf16 = dy * w[j]
        contract m in 3, n in 4: dw = sum k in N x[k, m] * y.mul.bf16[k, n], rounded
    """
    uses = timeline(program.func).uses
    for buffer in list(program.buffers):
        if buffer.role.data != "scratch" or buffer.dtype != "f32":
            continue
        names = _names(buffer)
        writers = {use.op for use in uses[buffer] if use.writes}
        known = all(use.value in names for use in uses[buffer] if use.writes)
        readers = [(op, i) for name in names for op, i in _rounding(name)]
        summed = any(isinstance(op, Contract) for op, _ in readers)
        if known and summed and all(isinstance(op, Map) for op in writers):
            _copy(buffer, names, writers, readers)


def _names(buffer: Buffer) -> list[SSAValue]:
    """The buffer, and its rows."""
    rows = [use.operation for use in buffer.y.uses if isinstance(use.operation, Row)]
    return [buffer.y, *(row.y for row in rows)]


def _rounding(value: SSAValue) -> list[tuple[Operation, int]]:
    """The kernels that round a value's elements, and which of their operands it is."""
    return [(use.operation, use.index) for use in value.uses if _rounds(use.operation, use.index)]


def _rounds(op: Operation, operand: int) -> bool:
    if isinstance(op, Contract) and op.rounded is not None:
        # Rows in front of others, or behind them, are of the same type.
        shifted = None if op.first is None else int(bool(op.of_b))
        return operand < 2 and operand != shifted
    low = isinstance(op, Gemm) and buffer_dtype(op.weights) == "bf16" and op.room is not None
    return low and operand == 0


def _copy(
    buffer: Buffer,
    names: list[SSAValue],
    writers: set[Operation],
    readers: list[tuple[Operation, int]],
) -> None:
    copy = Buffer(f"{buffer.label.data}.bf16", "scratch", "bf16", buffer.elements)
    block = buffer.parent
    assert block is not None
    block.insert_op_after(copy, buffer)
    copies: dict[SSAValue, SSAValue] = {buffer.y: copy.y}
    for name in names[1:]:
        row = name.owner
        assert isinstance(row, Row) and row.parent is not None
        here = Row(copy.y, get_dim(row.index), get_dim(row.stride), row.rows.data)
        row.parent.insert_op_after(here, row)
        copies[name] = here.y
    for op, operand in readers:
        op.operands[operand] = copies[op.operands[operand]]
    for op in writers:
        assert isinstance(op, Map)
        _store_both(op, copies)


def _store_both(op: Map, copies: dict[SSAValue, SSAValue]) -> None:
    """Let a map store what it stores in a buffer in the copy, too."""
    ins = list(zip(op.ins, op.in_accesses, strict=True))
    outs = list(zip(op.outs, op.out_accesses, strict=True))
    some, body, parent = op.some_rows, op.body.block, op.parent
    assert parent is not None
    values, more = list(op.yields), list[tuple[SSAValue, Access]]()
    end = body.last_op
    assert end is not None
    for value, (target, access) in zip(op.yields, outs, strict=True):
        if target in copies:
            cast = Cast(value, dtype=StringAttr("bf16"))
            body.insert_op_before(cast, end)
            values.append(cast.y)
            more.append((copies[target], access))
    body.insert_op_before(Yield(values), end)
    end.detach()
    end.erase()
    op.body.detach_block(body)
    parent.insert_op_before(Map(op.dims, ins, [*outs, *more], body, some), op)
    op.detach()
    op.erase()
