"""`kern.contract`: a thread has one element of the sum, k in the order that the kernel states."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.emit import FLOAT, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.ir.access import Access, get_access
from rnncc.ir.dims import Dim
from rnncc.ir.kernels import Contract


def emit_contract(
    emit: GpuEmit,
    op: Contract,
    a: Pointer,
    b: Pointer,
    out: Pointer,
    init: Pointer | None,
    first: Pointer | None,
) -> None:
    """Write a sum of outer products."""
    _ContractCode(emit, op, a, b, out, init, first).write()


class _ContractCode:
    def __init__(
        self,
        emit: GpuEmit,
        op: Contract,
        a: Pointer,
        b: Pointer,
        out: Pointer,
        init: Pointer | None,
        first: Pointer | None,
    ) -> None:
        self.emit, self.op, self.out, self.init, self.first = emit, op, out, init, first
        self.depth, self.m, self.n = (emit.dim(d) for d in op.sizes)
        self.left = self._begin(a, get_access(op.a_access))
        self.right = self._begin(b, get_access(op.b_access))

    def _begin(self, pointer: Pointer, access: Access) -> tuple[Pointer, Dim]:
        """The operand's first element, and from row to row."""
        return self.emit.at(pointer, self.emit.dim(access.offset)), access.strides[0]

    def write(self) -> None:
        emit = self.emit
        emit.points(self.op.sizes[1:], self._element)

    def _element(self, indices: list[Value]) -> None:
        emit, b = self.emit, self.emit.b
        m, n = indices
        at = b.add(b.mul(m, self.n), n)
        begin: Value = ir.Constant(FLOAT, 0.0)
        if self.init is not None:
            begin = emit.load(emit.at(self.init, at))

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            k = b.sub(b.sub(self.depth, I64(1)), i) if bool(self.op.reverse) else i
            x = emit.load(emit.at(self._row(self.left, k, False), m))
            y = emit.load(emit.at(self._row(self.right, k, True), n))
            return [emit.math(1).fma(b, x, y, carried[0])]

        [total] = emit.loop(self.depth, turn, [begin])
        emit.store(total, emit.at(self.out, at))

    def _row(self, operand: tuple[Pointer, Dim], k: Value, of_b: bool) -> Pointer:
        """Row k of an operand; where it is shifted, of the rows in front of it or behind it."""
        emit, b, op = self.emit, self.emit.b, self.op
        pointer, stride = operand
        if self.first is None or bool(op.of_b) != of_b:
            return emit.along(pointer, [stride], [k])
        shift, width = emit.dim(op.shifted_by), op.sizes[2 if of_b else 1]
        if bool(op.late):
            kept = b.sub(self.depth, shift)
            own, number = b.icmp_signed("<", k, kept), b.sub(k, kept)
            inside = b.add(k, shift)
        else:
            own, number = b.icmp_signed(">=", k, shift), k
            inside = b.sub(k, shift)
        row = emit.along(pointer, [stride], [inside])
        other = emit.along(self.first, [width], [number])
        return Pointer(b.select(own, row.base, other.base), row.dtype)
