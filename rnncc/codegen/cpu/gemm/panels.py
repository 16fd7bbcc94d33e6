"""A panel of packed weights: sums of rows that it passes by, in registers, and the body behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from llvmlite import ir

from rnncc.codegen.cpu.emit import SUMS, CpuEmit, Part
from rnncc.codegen.cpu.gemm.converted_rows import TILE_ROWS
from rnncc.codegen.cpu.gemm.epilogue import Epilogue, EpilogueStage
from rnncc.codegen.cpu.gemm.matrix_tiles import MOST_BLOCKS, Factors, MatrixTiles
from rnncc.codegen.cpu.gemm.packed_words import Width
from rnncc.codegen.cpu.gemm.runs import SumsRun
from rnncc.codegen.cpu.gemm.sums import UNROLLED, ZERO, Fetch, Sums, Turn
from rnncc.codegen.cpu.gemm.terms import Terms
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.records import record

SHORT = 32
"""Words of a sum beside which its way over the stack would count."""


@record
class Panel:
    """A panel by its number; `place`: that of the panel in whose place its weights are."""

    number: Value
    place: Value


@record
class RowTile:
    """Rows whose sums are in registers at once: its first row, and its number among all tiles."""

    row: Value
    number: Value
    count: Value


class Panels:
    """Code for a panel at a time.

    Args:
        whole: the width of a whole panel.
        far: whether weights are fetched before they are read.
        row: of the left operand, given the indices of the outer loops and its number.
        indices: of its axes.
    """

    def __init__(
        self,
        emit: CpuEmit,
        terms: Terms,
        sums: Sums,
        epilogue: Epilogue,
        slots: int,
        whole: Width,
        far: bool,
        row: Callable[[list[Value], Value], Pointer],
        indices: Callable[[list[Value], Value], list[Value]],
    ) -> None:
        self.emit, self.terms, self.sums, self.epilogue = emit, terms, sums, epilogue
        self.slots, self.whole, self.far = slots, whole, far
        self.row, self.indices = row, indices
        self.lanes, self.units = emit.target.lanes, sums.panel

    def panel(self, outer: list[Value], rows: Part, panel: Panel, width: Width) -> None:
        """Some rows, in tiles that are as even as can be; one epilogue serves all."""
        if self.terms.tiles is not None:
            self._matrices(self.terms.tiles, outer, rows, panel, width)
            return
        b, (first, count) = self.emit.b, rows
        # The stack has room for so many vectors of sums.
        most = min(self._rows(count, width), SUMS // (self.slots * width.vectors))
        # The words of a function that serves several products are not known, and stand as 0.
        at_once = self.epilogue.is_short and 0 < self.terms.words <= SHORT
        at_once = at_once and self.slots * width.vectors <= self.terms.tile[1]
        tiles = self.emit.parts(count, I64(most))
        # Without rows there are no tiles, and nothing must be divided by their number.
        none = b.icmp_signed("==", tiles, I64(0))
        # Even tiles: seven rows are four and three, not six and one, whose single row would wait
        # for each of its sums.
        least = self.emit.quotient(count, b.select(none, I64(1), tiles))
        higher = b.sub(count, b.mul(least, tiles))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            (row,) = carried
            height = b.add(least, b.zext(b.icmp_signed("<", i, higher), I64))
            heights = self._heights(count, most)
            write = self._whole_tile if at_once else self._store_sums
            # Sums go to the stack so that one epilogue serves tiles of all heights: with one for
            # each, machine code was a quarter larger, and no faster.
            tile = RowTile(row, i, tiles)
            self._by_height(height, heights, lambda rows: write(outer, tile, rows, panel, width))
            if not at_once:
                self._finish_saved(outer, row, height, panel.number, width, self._stack)
            return [b.add(row, height)]

        self.emit.loop(tiles, iteration, [first])

    def _matrices(
        self, tiles: MatrixTiles, outer: list[Value], rows: Part, panel: Panel, width: Width
    ) -> None:
        """Some rows, as many at a time as share what is loaded of the panel."""
        b, (first, count) = self.emit.b, rows
        units, most = self.sums.units(width, self.slots), I64(TILE_ROWS * MOST_BLOCKS)
        elements = TILE_ROWS * MOST_BLOCKS * len(units) * self.lanes
        stack = replace(self.emit.shared_room(elements), dtype=self._stack.dtype)
        right = self.terms.panel(panel.place, self.units)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            done = b.mul(i, most)
            row, left = b.add(first, done), b.sub(count, done)
            height = b.select(b.icmp_signed("<", left, most), left, most)
            here = self.row(outer, row)
            self._by_height(
                self.emit.parts(height, I64(TILE_ROWS)),
                range(1, MOST_BLOCKS + 1),
                lambda n: tiles.store(Factors(here, n, right, width), units, stack),
            )
            self._finish_saved(outer, row, height, panel.number, width, stack)
            return []

        self.emit.loop(self.emit.parts(count, most), iteration)

    def _rows(self, count: Value, width: Width) -> int:
        """The most rows of a tile: twice as many where a panel fills half of its vectors or less
        (3x3 convolution of 32 to 32 planes: 421 to 398 us)."""
        # Of an open number of rows each height is code of its own. Runs that are written out need
        # the rows' addresses all at once: 12 do not fit registers (of 3 planes: 43 to 57 us).
        rows, vectors = self.terms.tile
        narrow = 2 * self.slots * width.vectors <= vectors
        if narrow and isinstance(count, ir.Constant) and self.sums.run > UNROLLED:
            return 2 * rows
        tall = 0 if self.sums.are_written_out else self.terms.tall
        return max(rows, tall) if self._passes(tall) else rows

    def _together(self, height: int) -> int:
        """Vectors of a panel whose sums of so many rows are in registers at once: of few rows more,
        as fewer sums than a unit has in flight would wait for each other."""
        return max(self._passes(height), default=self.terms.tile[1])

    def _passes(self, height: int) -> list[int]:
        """How many vectors at a time tiles of so many rows may take, half of a usual tile's where
        they are higher."""
        rows, vectors = self.terms.tile
        least = vectors if height <= rows else -(-vectors // 2)
        fitting = filter(self._are_passes, range(least, self.terms.vectors + 1))
        return [n for n in fitting if n * height <= rows * vectors]

    def _are_passes(self, vectors: int) -> bool:
        """Whether passes of so many vectors make up a panel, and each begins where a stripe does or
        stays in one."""
        stripe = self.terms.stripe // self.lanes
        is_even = vectors % stripe == 0 or stripe % vectors == 0
        return self.terms.vectors % vectors == 0 and is_even

    def _heights(self, count: Value, most: int) -> list[int]:
        """Those that even tiles of so many rows may have."""
        if isinstance(count, ir.Constant):
            least, higher = divmod(count.constant, -(-count.constant // most))
            return [least, least + 1] if higher else [least]
        single = self.emit.team is not None or most < 3  # else a row is alone only if it is all
        return list(range(1 if single else 2, most + 1))

    def _by_height(
        self, height: Value, heights: Sequence[int], write: Callable[[int], None]
    ) -> None:
        """Code for a tile whose height is one of those."""
        b = self.emit.b
        done = b.append_basic_block("sums")
        starts = {number: b.append_basic_block(f"tile.{number}") for number in heights}
        switch = cast(Any, b).switch(height, starts[heights[-1]])
        for number, start in starts.items():
            if number != heights[-1]:
                switch.add_case(I64(number), start)
            b.position_at_end(start)
            write(number)
            b.branch(done)
        b.position_at_end(done)

    def _whole_tile(
        self, outer: list[Value], tile: RowTile, height: int, panel: Panel, width: Width
    ) -> None:
        """The sums of a tile, and the epilogue while they are in registers."""
        numbers = [self.emit.b.add(tile.row, I64(r)) for r in range(height)]
        lefts = [self.row(outer, number) for number in numbers]
        fetch = self._fetching(tile, ZERO, 1, width)
        (run,) = self.sums.runs(width, self.slots, self.terms.tile[1])
        sums = self.sums.of(lefts, [panel.place], width, run.offsets, fetch)
        for number, (of_row,) in zip(numbers, sums, strict=True):
            of_slots = run.apart(self.emit.b, of_row)
            self.finish(outer, number, [panel.number], width, partial(_of, [of_slots]))

    def _store_sums(
        self, outer: list[Value], tile: RowTile, height: int, panel: Panel, width: Width
    ) -> None:
        """The sums of a tile, by as many vectors at a time as registers hold."""
        b, vectors, together = self.emit.b, self.slots * width.vectors, self._together(height)
        lefts = [self.row(outer, b.add(tile.row, I64(r))) for r in range(height)]

        def part(run: SumsRun, number: Value, parts: int, first: Value, start: Value) -> None:
            fetch = self._fetching(tile, number, parts, width)
            sums = self.sums.of(lefts, [panel.place], width, run.offsets, fetch, start)
            for r, (of_row,) in enumerate(sums):
                for i, value in enumerate(run.apart(b, of_row)):
                    at = self._on_stack(self._stack, b.add(first, I64(r * vectors + i)))
                    self.emit.store(value, at, self.lanes)

        if width is self.whole and self._are_passes(together):
            parts = vectors // together

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                first = b.mul(i, I64(together))
                offsets: list[Value] = [I64(n * self.lanes) for n in range(together)]
                part(SumsRun(offsets), i, parts, first, b.mul(first, I64(self.lanes)))
                return []

            self.emit.loop(I64(parts), iteration)
            return
        most = min(self.terms.tile[1], together)
        first, runs = 0, self.sums.runs(width, self.slots, most)
        for number, run in enumerate(runs):
            part(run, I64(number), len(runs), I64(first), ZERO)
            first += run.vectors

    def _fetching(self, tile: RowTile, part: Value, parts: int, width: Width) -> Fetch | None:
        """What a loop over k fetches, one of so many parts of a tile."""
        if not self.far:
            return None
        b = self.emit.b
        number = b.add(b.mul(tile.number, I64(parts)), part)
        return self.sums.fetching(Turn(number, b.mul(tile.count, I64(parts))), width)

    def _finish_saved(
        self,
        outer: list[Value],
        row: Value,
        height: Value,
        panel: Value,
        width: Width,
        stack: Pointer,
    ) -> None:
        """The epilogue of a tile whose sums are on the stack."""
        b, vectors = self.emit.b, self.slots * width.vectors
        for stage in self.epilogue.stages:

            def iteration(
                r: Value, carried: list[Value], stage: EpilogueStage = stage
            ) -> list[Value]:
                here = self._on_stack(stack, b.mul(r, I64(vectors)))
                self._finish_stage(outer, b.add(row, r), panel, width, here, stage)
                return []

            # LLVM would take tiles for as high as sums are long, and spill some of the sums for
            # this loop's constants (GRU of 128 units with int8 weights, B = 16: 209 to 194 us).
            self.emit.loop(height, iteration, often=self.terms.height)

    def _finish_stage(
        self,
        outer: list[Value],
        row: Value,
        panel: Value,
        width: Width,
        here: Pointer,
        stage: EpilogueStage,
    ) -> None:
        """A stage of the epilogue of one row, whose sums, or what was kept in their places, are on
        the stack."""
        kept = replace(here, dtype=self.emit.element)
        is_first = stage is self.epilogue.stages[0]

        def place(room: Pointer, n: int, j: int) -> Pointer:
            return self._on_stack(room, I64(n * width.vectors + j))

        left, state = self.row(outer, row), self.epilogue.row(self.indices(outer, row))
        for j in range(width.vectors):
            inside, room = self._inside(width, j), here if is_first else kept
            values = [
                self.emit.load(place(room, n, j), self.lanes) for n in range(len(stage.known))
            ]
            if is_first:
                values = self._totals(values, left, panel, width, j)
            results = self.epilogue.run(state, panel, j, inside, values, stage)
            if not stage.is_last:
                for n, value in enumerate(results):
                    self.emit.store(value, place(kept, n, j), self.epilogue.lanes_of(inside))

    def finish(
        self,
        outer: list[Value],
        row: Value,
        panels: list[Value],
        width: Width,
        sums: Callable[[int, int], Value],
    ) -> None:
        """The epilogue of one row; `sums`: by panel and by slot · vectors + vector."""
        vectors, whole = width.vectors, self.epilogue.whole
        left, state = self.row(outer, row), self.epilogue.row(self.indices(outer, row))
        for p, panel in enumerate(panels):
            for j in range(vectors):
                slots = [sums(p, s * vectors + j) for s in range(self.slots)]
                totals = self._totals(slots, left, panel, width, j)
                self.epilogue.run(state, panel, j, self._inside(width, j), totals, whole)

    def _totals(
        self, sums: Sequence[Value], left: Pointer, panel: Value, width: Width, vector: int
    ) -> list[Value]:
        """The finished sums of a vector of units, of all slots."""
        b = self.emit.b
        before = b.mul(panel, I64(self.slots * self.units))
        return [
            self.terms.total(
                value, left, b.add(before, self.sums.unit(width, s * width.vectors + vector))
            )
            for s, value in enumerate(sums)
        ]

    def _inside(self, width: Width, vector: int) -> int | Value:
        """How many units of a vector the panel has."""
        inside = self.emit.b.sub(width.units, I64(vector * self.lanes))
        if isinstance(inside, ir.Constant):
            return min(self.lanes, cast(int, inside.constant))
        return self.lanes if vector + 1 < width.vectors or self.lanes == 1 else inside

    def _on_stack(self, stack: Pointer, number: Value) -> Pointer:
        return self.emit.at(stack, self.emit.b.mul(number, I64(self.lanes)))

    @property
    def _stack(self) -> Pointer:
        return replace(self.emit.stack, dtype=self.terms.sums or self.emit.element)


def _of(sums: list[list[Value]], panel: int, number: int) -> Value:
    return sums[panel][number]
