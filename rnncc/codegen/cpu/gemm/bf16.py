"""Products with bf16 weights: widened as they are read, or for a machine that multiplies bf16."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from rnncc.codegen.cpu.gemm.converted_rows import HEAD
from rnncc.codegen.cpu.gemm.rows import RowTerms
from rnncc.codegen.cpu.gemm.terms import Terms
from rnncc.codegen.llvm.narrow import narrowed
from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value, declared, vector_type


class WidenedTerms(Terms):
    """Two k a word, the even one in its lower half, widened as they are read; sums as for fp32."""

    chains = 6  # a word's two terms wait for each other

    @property
    def tile(self) -> tuple[int, int]:
        """Few vectors, as widened ones take two registers, so that many rows share the widening."""
        return (10, 2) if self.emit.target.registers >= 32 else (5, 2)

    def left(self, row: Pointer, word: Value) -> list[Value]:
        b = self.emit.b
        even = b.mul(word, I64(2))
        odd = b.add(even, I64(1))
        if self.depth % 2 == 0:
            return [self._spread(self._at(row, k)) for k in (even, odd)]
        # The last word of an odd depth has one k: its second weight is zero, but 0 times what lies
        # behind the row could be NaN, and to read there could fault.
        inside = b.icmp_signed("<", odd, I64(self.depth))
        value = self.emit.load(self._at(row, b.select(inside, odd, even)))
        last = b.select(inside, value, ir.Constant(FLOAT, 0.0))
        return [self._spread(self._at(row, even)), self.emit.splat(last, self.lanes)]

    def right(self, here: Pointer) -> list[Value]:
        b, emit = self.emit.b, self.emit
        bits = emit.load(replace(here, dtype="i32"), self.lanes)
        sixteen, upper = (emit.splat(I32(number), self.lanes) for number in (16, 0xFFFF0000))
        floats = vector_type(FLOAT, self.lanes)
        # A bf16 is a float32's upper half: widening is a shift or a mask.
        return [b.bitcast(v, floats) for v in (b.shl(bits, sixteen), b.and_(bits, upper))]


class DotTerms(RowTerms):
    """Rows are rounded to bf16 as they come; one slow instruction adds the products of a word."""

    chains = 8

    def convert(self, source: Pointer, row: Pointer) -> None:
        """The nearest bf16 of each value, ties to even; NaN stays NaN: see `ir/precision.py`."""
        b = self.emit.b

        def round(values: Value, at: Value, carried: Value) -> Value:
            halves = narrowed(b, values, "bf16", self.lanes)
            to = self.emit.at(row, b.add(b.mul(at, I64(2)), I64(HEAD)))
            b.store(halves, to.base, align=2)
            return carried

        self.over_row(source, round)

    def right(self, here: Pointer) -> list[Value]:
        return [self.emit.load(replace(here, dtype="i32"), self.lanes)]

    def add(self, total: Value, left: list[Value], right: list[Value]) -> Value:
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
        kinds = [total.type, self.integers, self.integers]
        function = declared(self.emit.module, name, total.type, kinds)
        return self.emit.b.call(function, [total, *right, *left])
