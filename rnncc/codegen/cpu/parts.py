"""Large programs in parts: a function for some kernels each, since LLVM's time grows with the
square of a function's length.

Where buffers and rows are, each part computes by itself. What loops carry and end with is handed
on in a table of pointers on the stack of the program's function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.kern.dialect import Buffer, For, Row, ShiftedRow
from rnncc.kern.kernels import Index
from rnncc.kern.program import KernelProgram

MANY = 512
"""Kernels or buffers of a program above which it is in parts. Copies of 4,000 inputs into one
output take 24 s to compile as one function, as parts 6 s."""

PART = 64
"""Kernels of a part, about: a call of it takes as long as one of a short kernel."""

POINTERS = 16
"""Operands that count as a kernel more: a pointer takes four instructions to find."""


def slots_of(program: KernelProgram) -> dict[SSAValue, int] | None:
    """The number of each pointer in the table of a program's parts; None where it has no parts."""
    ops = list(program.func.walk())
    if max(sum(map(_is_kernel, ops)), len(program.buffers)) <= MANY:
        return None
    loops = [op for op in ops if isinstance(op, For)]
    carried = [v for op in loops for v in (*op.finals, *op.body.block.args)]
    return {value: number for number, value in enumerate(carried)}


def in_runs(ops: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """Ops in order, some kernels at a time; all at once where they are not many."""
    sizes = [sum(map(_weight, op.walk())) for op in ops]
    if sum(sizes) <= 2 * PART:
        yield ops
        return
    begin = size = 0
    for i, kernels in enumerate(sizes):
        if size + kernels > PART and begin < i:
            yield ops[begin:i]
            begin, size = i, 0
        size += kernels
    yield ops[begin:]


def read_in(ops: Iterable[Operation]) -> dict[SSAValue, None]:
    """What ops read, and what is read to know where rows are, in order."""
    return dict.fromkeys(value for op in ops for inner in op.walk() for value in inner.operands)


def _weight(op: Operation) -> int:
    """Of an op in a part's size: a kernel, and pointers beyond those that most have."""
    return 1 + len(op.operands) // POINTERS if _is_kernel(op) else 0


def _is_kernel(op: Operation) -> bool:
    """Whether it is code: neither a pointer nor what is inside of a kernel."""
    return op.dialect_name() == "kern" and not isinstance(op, Buffer | Row | ShiftedRow | Index)
