"""Products with integers, whose sums are exact in 32 bits: of rows of i8, or quantised ones.

A row lies in the product's room: its scale, what its sums start at, its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.byte_dots import dot, mixes_signs
from rnncc.codegen.cpu.gemm.converted_rows import HEAD
from rnncc.codegen.cpu.gemm.rows import RowTerms
from rnncc.codegen.cpu.gemm.terms import LeftOperand
from rnncc.codegen.llvm.text_builder import undefined
from rnncc.codegen.llvm.values import (
    FLOAT,
    I8,
    I16,
    I32,
    I64,
    Pointer,
    Value,
    declared,
    selection,
    vector_type,
)
from rnncc.ir.precision import LEAST, MOST
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import OFFSET, WORD

ROUNDER = 1.5 * 2.0**23
"""What is added to a small number to have its nearest integer, ties to even, in low bits."""
ROUNDER_BITS = 0x4B400000
INFINITY_BITS = 0x7F800000
LEAST_BITS = int(LEAST.view("int32"))
Whole = Callable[[Value], Value]
"""The integers of some values, as i32."""


class ExactTerms(RowTerms):
    """Of i8 weights, two k a word, or of u8 ones, four k a word, for machines that sum up four.

    With u8 weights each term is too large by 128 times the row's number: sums start below zero.
    Rows are of i8, and sums stay integers.
    """

    sums = "i32"

    @property
    def tile(self) -> tuple[int, int]:
        rows, vectors = super().tile
        return rows - (self.weights.dtype == "i8"), vectors  # i8 is widened

    def start(self, row: Pointer) -> Value:
        signed = self.weights.dtype == "i8" or not mixes_signs(self.emit.target)
        # Signed weights have no offset to make up for, and sums of matrices start at zero.
        if signed or self.tiles is not None:
            return ir.Constant(self.integers, None)
        return self._offset(row)

    def _offset(self, row: Pointer) -> Value:
        return self.emit.splat(self.emit.load(self._field(row, WORD, "i32")), self.lanes)

    def total(self, value: Value, row: Pointer, at: Value) -> Value:
        return value if self.tiles is None else self.emit.b.add(value, self._offset(row))

    def right(self, here: Pointer) -> list[Value]:
        if self.weights.dtype == "u8":
            return [self.emit.load(replace(here, dtype="i32"), self.lanes)]
        wide = ir.VectorType(I32, 2 * self.lanes)
        return [self.emit.b.sext(self.emit.load(here, 2 * self.lanes), wide)]

    def add(self, total: Value, left: list[Value], right: list[Value]) -> Value:
        b, [numbers], [weights] = self.emit.b, left, right
        if self.weights.dtype == "u8":
            emit = self.emit
            return dot(b, emit.module, emit.target, self.lanes, total, weights, numbers)
        pairs = b.bitcast(numbers, ir.VectorType(I16, 2 * self.lanes))
        terms = b.mul(b.sext(pairs, weights.type), weights)
        even, odd = (self._every_other(terms, first) for first in (0, 1))
        return b.add(total, b.add(even, odd))  # one instruction, or two, where there is one

    def _every_other(self, pairs: Value, first: int) -> Value:
        """The first or the second one of each pair."""
        b = self.emit.b
        if self.lanes == 1:
            return b.extract_element(pairs, I32(first))
        chosen = selection(*range(first, 2 * self.lanes, 2))
        return b.shuffle_vector(pairs, undefined(pairs.type), chosen)

    def convert(self, source: Pointer, row: Pointer) -> None:
        """A row as it is, in numbers of the room's width."""

        def run(here: Pointer, first: Value, before: Value) -> Value:
            to = self.emit.at(row, self.emit.b.mul(first, I64(self.rows.item)))
            done, total = self._copied(here, to, before)
            return self._stored(here, to, self._widened, total, done)

        self._start_at(row, self.over_runs(source, run))

    def _widened(self, x: Value) -> Value:
        return self.emit.b.sext(x, self.integers)

    def _copied(self, source: Pointer, row: Pointer, before: Value) -> tuple[int, Value]:
        """How many of a run's bytes are copied as words, and the sums of these."""
        emit, b, step, wide = self.emit, self.emit.b, self.a.k_step, self.group * self.lanes
        if self.rows.item > 1 or not isinstance(step, ir.Constant) or step.constant != 1:
            return 0, before
        ones = self.splat(0x01010101)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            at = b.mul(i, I64(wide))
            numbers = emit.load(emit.at(source, at), wide)
            b.store(numbers, emit.at(row, b.add(at, I64(HEAD))).base, align=1)
            words = b.bitcast(numbers, self.integers)
            return [dot(b, emit.module, emit.target, self.lanes, carried[0], ones, words)]

        count = self.run // wide
        [total] = emit.loop(I64(count), iteration, [before])
        return count * wide, total

    def _stored(
        self, source: Pointer, row: Pointer, whole: Whole, before: Value, first: int = 0
    ) -> Value:
        """Store the integers of a run's values from one on; their sums with those before."""
        b, item = self.emit.b, I8 if self.rows.item == 1 else I16

        def add(values: Value, at: Value, total: Value) -> Value:
            numbers = whole(values)
            to = self.emit.at(row, b.add(b.mul(at, I64(self.rows.item)), I64(HEAD)))
            narrow = b.trunc(numbers, vector_type(item, self.lanes))
            b.store(narrow, to.base, align=self.rows.item)
            return b.add(total, numbers)

        return self.over_run(source, add, before, first)

    def _start_at(self, row: Pointer, sums: Value) -> None:
        """Each unsigned weight is too large by OFFSET, and each term by OFFSET times the row's
        number: sums start below zero."""
        total = self._reduced("add", sums)
        self.emit.store(self.emit.b.mul(total, I32(-OFFSET)), self._field(row, WORD, "i32"))

    def _reduced(self, kind: str, value: Value) -> Value:
        if self.lanes == 1:
            return value
        name = f"llvm.vector.reduce.{kind}.v{self.lanes}i32"
        return self.emit.b.call(declared(self.emit.module, name, I32, [self.integers]), [value])


class ScaledTerms(ExactTerms):
    """Of rows of floats: they are quantised as they come, and sums are scaled back."""

    def __init__(
        self,
        emit: CpuEmit,
        op: Gemm,
        left: LeftOperand,
        weights: Pointer,
        room: Pointer,
        scales: Pointer,
    ) -> None:
        super().__init__(emit, op, left, weights, room)
        self.scales = scales

    def total(self, value: Value, row: Pointer, at: Value) -> Value:
        b = self.emit.b
        whole = super().total(value, row, at)
        exact = b.sitofp(whole, vector_type(FLOAT, self.lanes))
        by_row = b.fmul(exact, self._spread(self._field(row, 0, "f32")))
        return b.fmul(by_row, self.emit.load(self.emit.at(self.scales, at), self.lanes))

    def convert(self, source: Pointer, row: Pointer) -> None:
        """A row's numbers: x · 127 / max, rounded, where max is usable; see `ir/precision.py`."""
        emit, b = self.emit, self.emit.b
        most_bits = self._largest(source)
        finite = b.icmp_signed("<", most_bits, I32(INFINITY_BITS))
        # 127 / max of a tiny row would be beyond float32: all its numbers are 0 then.
        usable = b.and_(finite, b.icmp_signed(">=", most_bits, I32(LEAST_BITS)))
        most, whole = b.bitcast(most_bits, FLOAT), ir.Constant(FLOAT, float(MOST))
        factor = b.select(usable, b.fdiv(whole, most), ir.Constant(FLOAT, 0.0))
        # Of a row with NaN or infinity all sums are NaN, as integers cannot say which would be.
        scale = b.select(finite, b.fdiv(most, whole), ir.Constant(FLOAT, float("nan")))
        factors, rounder = emit.splat(factor, self.lanes), self.emit.vector.splat(ROUNDER)

        def rounded(values: Value) -> Value:
            bits = b.bitcast(b.fadd(b.fmul(values, factors), rounder), self.integers)
            return b.sub(bits, self.splat(ROUNDER_BITS))

        none = ir.Constant(self.integers, None)
        self._start_at(row, self._stored(source, row, rounded, none))
        emit.store(scale, self._field(row, 0, "f32"))

    def _largest(self, source: Pointer) -> Value:
        """The bits of the largest |x|; as integers, those of NaN and inf are above all others."""
        b = self.emit.b
        magnitude = self.splat(0x7FFFFFFF)

        def add(values: Value, at: Value, most: Value) -> Value:
            bits = b.and_(b.bitcast(values, self.integers), magnitude)
            return b.select(b.icmp_signed(">", bits, most), bits, most)

        return self._reduced("smax", self.over_row(source, add))
