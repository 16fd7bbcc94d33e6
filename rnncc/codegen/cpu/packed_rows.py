"""The operands of a sum of outer products, row by row: some rows may be in a place of their own."""

from __future__ import annotations

from collections.abc import Callable

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Contract
from rnncc.records import record

Side = Callable[[Value], Pointer]
"""An operand's rows in the order in which a chunk takes them: from j to the j-th of the chunk."""


@record
class Buffers:
    """What the kernel touches; `first`: see `kern.contract`."""

    a: Pointer
    b: Pointer
    out: Pointer
    scratch: Pointer
    init: Pointer | None
    first: Pointer | None


@record
class _Operand:
    """An operand; `shifted`: whether some of its rows are those of `first`."""

    pointer: Pointer
    access: Access
    width: Dim
    shifted: bool


class PackedRows:
    """The rows of both operands.

    Args:
        count: of rows.
        swapped: whether `b` is the left operand.
    """

    def __init__(
        self, emit: CpuEmit, op: Contract, buffers: Buffers, count: Value, swapped: bool
    ) -> None:
        self.emit, self.op, self.buffers = emit, op, buffers
        self.count, self.swapped = count, swapped

    def sides(self, start: Value) -> tuple[Side, Side]:
        """The left and the right operand from a chunk's start on."""
        op, buffers, sizes = self.op, self.buffers, self.op.sizes
        a = _Operand(buffers.a, get_access(op.a_access), sizes[1], self._is_shifted(of_b=False))
        b = _Operand(buffers.b, get_access(op.b_access), sizes[2], self._is_shifted(of_b=True))
        left, right = (b, a) if self.swapped else (a, b)
        return (lambda j: self._row(left, start, j)), (lambda j: self._row(right, start, j))

    def _is_shifted(self, of_b: bool) -> bool:
        return self.buffers.first is not None and bool(self.op.of_b) == of_b

    def is_shifted(self, left: bool) -> bool:
        """Whether the left, or the right, operand's rows are in two places."""
        return self._is_shifted(of_b=left == self.swapped)

    def _row(self, rows: _Operand, start: Value, j: Value) -> Pointer:
        """The j-th row of a chunk."""
        emit, b, first = self.emit, self.emit.b, self.buffers.first
        k = b.add(start, j)
        if self.op.reverse:
            k = b.sub(b.sub(self.count, I64(1)), k)
        if first is None or not rows.shifted:
            return self._own_row(rows, k)
        shift = emit.dim(self.op.shifted_by)
        if self.op.late:
            bound = b.sub(self.count, shift)
            own, other = b.add(k, shift), b.sub(k, bound)
            outside = b.icmp_signed(">=", k, bound)
        else:
            own, other = b.sub(k, shift), k
            outside = b.icmp_signed("<", k, shift)
        other_row = emit.at(first, b.mul(other, emit.dim(rows.width)))
        return Pointer(
            b.select(outside, other_row.base, self._own_row(rows, own).base), first.dtype
        )

    def _own_row(self, rows: _Operand, k: Value) -> Pointer:
        emit, access = self.emit, rows.access
        start = emit.at(rows.pointer, emit.dim(access.offset))
        return emit.at(start, emit.b.mul(k, emit.dim(access.strides[0])))
