"""Which pointers code needs: what no kernel reads or writes, C would warn of."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from rnncc.kern.dialect import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Kernel, Reduce
from rnncc.kern.moves import IndexedMove, ListRows, Pack, Reverse
from rnncc.kern.program import KernelProgram


def live_pointers(program: KernelProgram) -> set[SSAValue]:
    """The values whose pointers code needs."""
    ops = [op for op in program.func.walk() if not isinstance(op, Buffer)]
    live = {value for op in ops for value in _used(op)}
    labels = {buffer.label.data: buffer.y for buffer in reversed(program.buffers)}
    # Loops hand needs on from results to what they begin with: until no value is added.
    size = -1
    while size != len(live):
        size = len(live)
        for op in reversed(ops):
            live |= _behind(op, live)
        owners = (op.within for op in program.buffers if op.y in live)
        live |= {labels[name.data] for name in owners if name is not None}
    return live


def _behind(op: Operation, live: set[SSAValue]) -> set[SSAValue]:
    """What a row, or what a loop carries, is found by, where its pointer is needed."""
    match op:
        case Row() | ShiftedRow():
            return set(op.operands) if op.y in live else set()
        case For():
            carried = zip(op.body.block.args, op.finals, op.inits, op.yields, strict=True)
            needed = (row for row in carried if row[0] in live or row[1] in live)
            return {v for arg, _, init, value in needed for v in (arg, init, value)}
        case _:
            return set()


def _used(op: Operation) -> set[SSAValue]:
    """The operands of a kernel that its code reads or writes: no scratch for packing."""
    match op:
        case Kernel():
            # A product's body takes the sums of its slots first.
            leading = len(op.body.block.args) - len(op.ins)
            reads = zip(op.body.block.args[leading:], op.ins, strict=True)
            own = [op.rows, *((op.a, op.weights) if isinstance(op, Gemm) else ())]
            own += [op.init] if isinstance(op, Reduce) else []
            read = [value for argument, value in reads if argument.first_use]
            return {value for value in (*own, *read, *op.outs) if value is not None}
        case Contract():
            return {v for v in (op.a, op.b, op.out, op.init, op.first) if v is not None}
        case Pack() | Reverse() | IndexedMove() | ListRows() | Gate() | Limit():
            return set(op.operands)
        case _:
            return set()
