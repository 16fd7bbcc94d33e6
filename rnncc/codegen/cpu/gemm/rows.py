"""Products whose rows are converted before they are multiplied, some rows at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.converted_rows import HEAD, ConvertedRows
from rnncc.codegen.cpu.gemm.matrix_tiles import MatrixTiles, last_words
from rnncc.codegen.cpu.gemm.terms import LeftOperand, Terms, neighbours
from rnncc.codegen.cpu.machine.core import TILE_WORDS
from rnncc.codegen.llvm.values import I32, I64, Pointer, Value, vector_type
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import WORD

AddTerms = Callable[[Value, Value, Value], Value]
"""Of a vector of a run, the number of its first value, and what was gathered so far."""
Run = Callable[[Pointer, Value, Value], Value]
"""Of a run of a row: where it lies, the number of its first value, what was gathered so far."""


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
        if emit.target.in_tiles(weights.dtype, self.depth):
            self.tiles = MatrixTiles(emit, self, self.rows.stride)

    @abstractmethod
    def convert(self, source: Pointer, row: Pointer) -> None:
        """Put a row into its place in the room."""

    def prepare(self, outer: list[Value], first: Value, count: Value) -> None:
        """Convert rows."""

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            # The row as the caller has it: `row` of this class is its place in the room.
            source = super(RowTerms, self).row(outer, first, i)
            place = self._place(i)
            self.convert(source, place)
            if self.tiles is not None:
                self._set_apart(place, self.tiles)
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
        start = self.emit.b.mul(number, I64(self.rows.stride))
        return self.emit.at(self.room, self.emit.b.add(start, I64(self.rows.start)))

    def _set_apart(self, row: Pointer, tiles: MatrixTiles) -> None:
        """Copy the words that fill no register to where they are read, behind zeros."""
        if not tiles.rest:
            return
        last = self._field(row, HEAD + WORD * (self.words - TILE_WORDS), "i32")
        kept = [-(n >= TILE_WORDS - tiles.rest) for n in range(TILE_WORDS)]
        words = self.emit.load(last, TILE_WORDS)
        words = self.emit.b.and_(words, ir.Constant(words.type, kept))
        to = self._field(row, last_words(tiles.full), "i32")
        self.emit.store(words, to, TILE_WORDS)

    def _field(self, row: Pointer, offset: int, dtype: str) -> Pointer:
        return replace(self.emit.at(row, I64(offset)), dtype=dtype)

    @property
    def outer(self) -> Sequence[tuple[int, Value]]:
        """None: in the room a row is one run."""
        return ()

    @property
    def run(self) -> int:
        """How many values of a row lie side by side, where the caller has it."""
        return self.depth // prod(size for size, _ in self.a.outer)

    def over_runs(self, source: Pointer, add: Run) -> Value:
        """`add` for each run of a row, in order, from zeros on."""
        emit, b, axes = self.emit, self.emit.b, list(self.a.outer)

        def along(axis: int, here: Pointer, first: Value, before: Value) -> Value:
            if axis == len(axes):
                return add(here, first, before)
            size, step = axes[axis]
            inside = I64(self.run * prod(size for size, _ in axes[axis + 1 :]))

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                run, number = emit.at(here, b.mul(i, step)), b.add(first, b.mul(i, inside))
                return [along(axis + 1, run, number, carried[0])]

            return emit.loop(I64(size), iteration, [before])[0]

        return along(0, source, I64(0), ir.Constant(self.integers, None))

    def over_run(self, source: Pointer, add: AddTerms, before: Value, first: int = 0) -> Value:
        """`add` for each vector of a run from a value on; zeros also fill the last one."""
        emit, b, lanes = self.emit, self.emit.b, self.lanes
        full, rest = divmod(self.run - first, lanes)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            at = b.add(I64(first), b.mul(i, I64(lanes)))
            return [add(self._values(source, at, lanes), at, carried[0])]

        [value] = emit.loop(I64(full), iteration, [before])
        if rest:
            at = I64(first + full * lanes)
            value = add(self._values(source, at, rest), at, value)
        return value

    def over_row(self, source: Pointer, add: AddTerms) -> Value:
        """`add` for each vector of a row that is one run, from zeros."""
        return self.over_run(source, add, ir.Constant(self.integers, None))

    def _values(self, source: Pointer, first: Value, count: int) -> Value:
        """Neighbours along k; zeros beyond their count."""
        return neighbours(self.emit, source, first, self.a.k_step, count, self.lanes)

    def splat(self, value: int) -> Value:
        """An integer in all lanes."""
        return self.emit.splat(I32(value), self.lanes)
