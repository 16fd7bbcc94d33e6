"""Products whose rows are converted before they are multiplied, some rows at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.converted_rows import HEAD, WORD, ConvertedRows
from rnncc.codegen.cpu.gemm.terms import LeftOperand, Terms, neighbours
from rnncc.codegen.llvm.values import I32, I64, Pointer, Value, vector_type
from rnncc.kern.kernels import Gemm

Gather = Callable[[Value, Value, Value], Value]
"""Of a vector of a row, the number of its first value, and what was gathered so far."""


class RowTerms(Terms):
    """Rows lie in the product's room; a word of one is what multiplies a word of weights."""

    def __init__(
        self, emit: CpuEmit, op: Gemm, left: LeftOperand, weights: Pointer, room: Pointer
    ) -> None:
        super().__init__(emit, op, left, weights)
        self.room = room
        self.rows = ConvertedRows.of(emit.target, weights.dtype, self.depth)
        self.most_rows = self.rows.rows
        self.integers = vector_type(I32, self.lanes)

    @abstractmethod
    def convert(self, source: Pointer, row: Pointer) -> None:
        """Put a row into its place in the room."""

    def prepare(self, outer: list[Value], first: Value, count: Value) -> None:
        """Convert rows."""

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            # The row as the caller has it: `row` of this class is its place in the room.
            self.convert(super(RowTerms, self).row(outer, first, i), self._place(i))
            return []

        self.emit.together()  # another thread may still read the rows before these
        self.emit.shared(count, iteration)
        self.emit.together()

    def row(self, outer: list[Value], first: Value, number: Value) -> Pointer:
        return self._place(number)

    def left(self, row: Pointer, word: Value) -> list[Value]:
        numbers = self.emit.at(row, self.emit.b.mul(word, I64(WORD)))
        return [self._spread(self._field(numbers, HEAD, "i32"))]

    def _place(self, number: Value) -> Pointer:
        return self.emit.at(self.room, self.emit.b.mul(number, I64(self.rows.stride)))

    def _field(self, row: Pointer, offset: int, dtype: str) -> Pointer:
        return replace(self.emit.at(row, I64(offset)), dtype=dtype)

    def over_row(self, source: Pointer, add: Gather, first: int = 0) -> Value:
        """`add` for each vector of a row from its value `first` on, from zeros; zeros also fill the
        last one."""
        emit, b, lanes = self.emit, self.emit.b, self.lanes
        full, rest = divmod(self.depth - first, lanes)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            at = b.add(I64(first), b.mul(i, I64(lanes)))
            return [add(self._values(source, at, lanes), at, carried[0])]

        [value] = emit.loop(I64(full), iteration, [ir.Constant(self.integers, None)])
        if rest:
            at = I64(first + full * lanes)
            value = add(self._values(source, at, rest), at, value)
        return value

    def _values(self, source: Pointer, first: Value, count: int) -> Value:
        """Neighbours along k; zeros beyond their count."""
        return neighbours(self.emit, source, first, self.a.k_step, count, self.lanes)

    def splat(self, value: int) -> Value:
        """An integer in all lanes."""
        return self.emit.splat(I32(value), self.lanes)
