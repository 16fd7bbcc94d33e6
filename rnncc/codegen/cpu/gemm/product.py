"""`kern.gemm`: register tiles of rows times packed units, with the body as their epilogue.

Every sum over k starts at zero and takes its terms in order, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from llvmlite import ir

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import SUMS, CpuEmit, Part, chosen_part
from rnncc.codegen.cpu.gemm.converted_rows import TILE_ROWS
from rnncc.codegen.cpu.gemm.epilogue import Epilogue
from rnncc.codegen.cpu.gemm.kinds import terms_of
from rnncc.codegen.cpu.gemm.matrix_tiles import EXACT, MOST_BLOCKS, MatrixTiles
from rnncc.codegen.cpu.gemm.row_axes import RowAxes, indices_apart
from rnncc.codegen.cpu.gemm.runs import Run
from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.gemm.sums import ZERO, Sums, Width
from rnncc.codegen.cpu.gemm.terms import LeftOperand
from rnncc.codegen.llvm.nest import indexed_axes, make_nest
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Gemm

SHORT = 32
"""Words of a sum beside which its way over the stack would count."""
EVEN = 4
"""Blocks of rows that are converted at a time are as large as each other, and a multiple of it."""


def emit_gemm(
    emit: CpuEmit,
    op: Gemm,
    a: Pointer,
    weights: list[Pointer],
    ins: list[Pointer],
    outs: list[Pointer],
    rows: Pointer | None = None,
    sizes: GemmSizes | None = None,
) -> None:
    """Write the loops of a product.

    Args:
        weights: packed, then room and scales if there are any.
        rows: the list of those that are computed.
        sizes: named ones, of a product with fp32 weights that stands for others; its own.
    """
    if a.dtype not in (*FLOATS, "i8"):
        raise CompileError(str(op.location), f"a product of {a.dtype} is not supported")
    _GemmCode(emit, op, a, weights, [*ins, *outs], rows, sizes).run()


class _GemmCode:
    def __init__(
        self,
        emit: CpuEmit,
        op: Gemm,
        a: Pointer,
        weights: list[Pointer],
        pointers: list[Pointer],
        listed: Pointer | None,
        sizes: GemmSizes | None,
    ) -> None:
        self.emit, self.op = emit, op
        self.lanes, self.slots, self.panel = emit.target.lanes, op.slots.data, op.panel.data
        offset, strides, k_steps = _split(op)
        both = (*op.in_accesses, *op.out_accesses)
        rows = [Access(x.offset, x.strides[:-1]) for x in both]
        # Windows that are copied row by row need no loops of their own, wherever they lie.
        apart = op.k_sizes is not None and len(weights) > 1 and listed is None
        read = (Dim.of(0),) * len(strides) if apart else strides
        nest = make_nest(op.dims[:-1], [Access(offset, read), *rows], self._row_axes())
        steps = strides if apart else nest.accesses[0].strides
        *k_outer, k_step = [emit.dim(step) for step in k_steps]
        left = LeftOperand(
            emit.at(a, emit.dim(offset)),
            steps,
            k_step,
            partial(self._apart, nest.axes) if apart else self._indices,
            list(zip(map(int, op.k_dims), k_outer, strict=False)),
        )
        self.terms = terms = terms_of(emit, op, left, weights)
        # Rows of windows are not turned: neighbours along the last axis share what they read.
        height = 1 if op.k_sizes is not None or terms.one_by_one else terms.height
        self.rows = RowAxes(emit, nest.dims, RowList.of(emit, op, nest.dims, listed), height)
        unit_bytes = terms.words * terms.bytes
        self.sizes = sizes or GemmSizes.of(emit.target, op, unit_bytes, terms.chains)
        if sizes is not None:
            terms.count = emit.dim(sizes.depth)
        self.full = emit.dim(self.sizes.full)
        self.whole = Width(I64(self.panel), self.panel // self.lanes)
        self.rest = Width(emit.dim(self.sizes.width), self.sizes.vectors)
        self.sums = Sums(emit, terms, self.panel)
        self.epilogue = Epilogue(emit, op, pointers, nest)
        self.first: Value = I64(0)

    def _row_axes(self) -> list[int]:
        return [axis for axis in indexed_axes(self.op) if axis < len(self.op.dims) - 1]

    def _indices(self, outer: list[Value], number: Value) -> list[Value]:
        return self.rows.indices(outer, number)

    def _apart(self, axes: Sequence[int], outer: list[Value], number: Value) -> list[Value]:
        return indices_apart(self.emit, self.op.dims[:-1], axes, self._indices(outer, number))

    def run(self) -> None:
        self.rows.nest(self._rows)

    def _rows(self, outer: list[Value]) -> None:
        """All panels for the rows along the innermost axis."""
        emit, count = self.emit, self.rows.count
        if not self.terms.most_rows:
            self._some_rows(outer, count)
            return
        b, most = emit.b, I64(self.terms.most_rows)

        def block(first: Value, size: Value) -> None:
            self.first = first
            self.terms.prepare(outer, first, size)
            self._some_rows(outer, size)

        if self.terms.one_by_one:
            emit.loop(count, lambda i, carried: block(i, I64(1)) or [])
            return
        if isinstance(count, ir.Constant) and count.constant <= self.terms.most_rows:
            block(I64(0), count)
            return
        blocks = emit.parts(count, most)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            # 64 rows are 32 and 32, not 60 and 4: each block reads all weights (bf16 LSTM H = 1024,
            # B = 64: 289 to 249 ms, with blocks twice as large).
            least = EVEN if self.terms.tiles is None else TILE_ROWS
            even = b.mul(emit.parts(count, b.mul(blocks, I64(least))), I64(least))
            first = b.mul(i, even)
            rest = b.sub(count, first)
            block(first, b.select(b.icmp_signed("<", rest, even), rest, even))
            return []

        emit.loop(blocks, iteration)

    def _some_rows(self, outer: list[Value], count: Value) -> None:
        """All panels for rows from the first one of a block on."""
        emit = self.emit
        if self.terms.tiles is not None and self.terms.weights.dtype != EXACT:
            self._tiles(outer, count)
            return
        if self.terms.one_by_one:
            emit.loop(count, lambda i, carried: self._single_row(outer, i) or [])
            return
        if isinstance(count, ir.Constant):
            if count.constant == 1:
                self._single_row(outer, I64(0))
            elif count.constant:
                self._tiles(outer, count)
            return
        with emit.b.if_else(emit.b.icmp_signed("==", count, I64(1))) as (single, several):
            with single:
                self._single_row(outer, I64(0))
            with several:
                self._tiles(outer, count)

    def _single_row(self, outer: list[Value], number: Value) -> None:
        """One row: several panels side by side, for independent chains of sums."""
        emit, together, full = self.emit, self.sizes.together, self.sizes.full
        iterations, left = emit.divided(full, together)

        def row(numbers: list[Value], width: Width) -> None:
            offsets = self.sums.units(width, self.slots)
            (sums,) = self.sums.of([self._row(outer, number)], numbers, width, offsets)
            self._finish(outer, number, numbers, width, lambda p, n: sums[p][n])

        def panels(first: Value, count: int) -> None:
            row([emit.b.add(first, I64(i)) for i in range(count)], self.whole)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            panels(emit.b.mul(i, I64(together)), together)
            return []

        def single(i: Value, carried: list[Value]) -> list[Value]:
            panels(emit.b.add(emit.b.sub(self.full, left), i), 1)
            return []

        def last() -> None:
            if not full.is_static and together > 1:
                emit.loop(left, single)
            elif full.is_static and int(full) % together:
                panels(emit.b.sub(self.full, left), int(full) % together)
            if self.rest.vectors:
                row([self.full], self.rest)

        several = together > 1 and (not full.is_static or int(full) % together > 0)
        emit.shared(
            iterations, iteration, self.sizes.far, last if several or self.rest.vectors else None
        )

    def _tiles(self, outer: list[Value], count: Value) -> None:
        """Many rows: a panel at a time."""
        full, rest = self.full, self.rest
        panels = self.emit.b.add(full, I64(int(rest.vectors > 0)))
        of_rows, of_panels = self._parts(count, panels)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            self._panel(outer, of_rows, i, self.whole)
            return []

        def last() -> None:
            self._panel(outer, of_rows, full, rest)

        end = last if rest.vectors else None
        self.emit.shared(full, iteration, self.sizes.far, end, of_panels)

    def _parts(self, count: Value, panels: Value) -> tuple[Part, Part | None]:
        """This thread's rows and panels: a part of those that are shared more evenly."""
        team, b = self.emit.team, self.emit.b
        if team is None:
            return (I64(0), count), None
        height, all_panels = self.terms.height, (I64(0), panels)
        tiles = self.emit.parts(count, I64(height))
        by_rows, by_panels = (self.emit.parts(x, team.parts) for x in (tiles, panels))
        # The largest part decides when all are done: rows x panels of it, either way cut.
        fewer = b.icmp_signed("<", b.mul(by_rows, panels), b.mul(by_panels, tiles))
        of_rows, of_panels = team.share(count, height), team.share(panels)
        return (
            chosen_part(b, fewer, of_rows, (I64(0), count)),
            chosen_part(b, fewer, all_panels, of_panels),
        )

    def _panel(self, outer: list[Value], rows: Part, panel: Value, width: Width) -> None:
        """Some rows, in tiles that are as even as can be; one epilogue serves all."""
        if self.terms.tiles is not None:
            self._matrices(self.terms.tiles, outer, rows, panel, width)
            return
        b, (first, count) = self.emit.b, rows
        # The stack has room for so many vectors of sums.
        most = min(self.terms.tile[0], SUMS // (self.slots * width.vectors))
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
            self._by_height(height, heights, lambda rows: write(outer, row, rows, panel, width))
            if not at_once:
                self._finish_saved(outer, row, height, panel, width, self._stack)
            return [b.add(row, height)]

        self.emit.loop(tiles, iteration, [first])

    def _matrices(
        self, tiles: MatrixTiles, outer: list[Value], rows: Part, panel: Value, width: Width
    ) -> None:
        """Some rows, as many at a time as share what is loaded of the panel."""
        b, (first, count) = self.emit.b, rows
        units, most = self.sums.units(width, self.slots), I64(TILE_ROWS * MOST_BLOCKS)
        elements = TILE_ROWS * MOST_BLOCKS * len(units) * self.lanes
        stack = replace(self.emit.shared_room(elements), dtype=self._stack.dtype)
        right, step = self.terms.panel(panel, self.panel), b.mul(width.units, I64(self.terms.bytes))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            done = b.mul(i, most)
            row, left = b.add(first, done), b.sub(count, done)
            height = b.select(b.icmp_signed("<", left, most), left, most)
            here = self._row(outer, row)
            self._by_height(
                self.emit.parts(height, I64(TILE_ROWS)),
                range(1, MOST_BLOCKS + 1),
                lambda blocks: tiles.store(here, blocks, right, step, units, stack),
            )
            self._finish_saved(outer, row, height, panel, width, stack)
            return []

        self.emit.loop(self.emit.parts(count, most), iteration)

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
        self, outer: list[Value], row: Value, height: int, panel: Value, width: Width
    ) -> None:
        """The sums of a tile, and the epilogue while they are in registers."""
        numbers = [self.emit.b.add(row, I64(r)) for r in range(height)]
        lefts = [self._row(outer, number) for number in numbers]
        ahead = self.sums.ahead(row, height, width) if self.sizes.far else []
        (run,) = self.sums.runs(width, self.slots)
        sums = self.sums.of(lefts, [panel], width, run.offsets, ahead)
        for number, (of_row,) in zip(numbers, sums, strict=True):
            of_slots = run.apart(self.emit.b, of_row)
            self._finish(outer, number, [panel], width, partial(_of, [of_slots]))

    def _store_sums(
        self, outer: list[Value], row: Value, height: int, panel: Value, width: Width
    ) -> None:
        """The sums of a tile, by as many vectors at a time as registers hold."""
        b, vectors, together = self.emit.b, self.slots * width.vectors, self.terms.tile[1]
        lefts = [self._row(outer, b.add(row, I64(r))) for r in range(height)]

        def part(run: Run, first: Value, fetches: bool, start: Value = ZERO) -> None:
            ahead = self.sums.ahead(row, height, width) if fetches and self.sizes.far else []
            sums = self.sums.of(lefts, [panel], width, run.offsets, ahead, start)
            for r, (of_row,) in enumerate(sums):
                for i, value in enumerate(run.apart(b, of_row)):
                    at = self._on_stack(self._stack, b.add(first, I64(r * vectors + i)))
                    self.emit.store(value, at, self.lanes)

        if width is self.whole and vectors % together == 0:

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                first = b.mul(i, I64(together))
                offsets: list[Value] = [I64(n * self.lanes) for n in range(together)]
                part(Run(offsets), first, True, b.mul(first, I64(self.lanes)))
                return []

            self.emit.loop(I64(vectors // together), iteration)
            return
        first = 0
        for run in self.sums.runs(width, self.slots):
            part(run, I64(first), first == 0)
            first += run.vectors

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

        def iteration(r: Value, carried: list[Value]) -> list[Value]:
            here = self._on_stack(stack, b.mul(r, I64(vectors)))

            def saved(_: int, number: int) -> Value:
                return self.emit.load(self._on_stack(here, I64(number)), self.lanes)

            self._finish(outer, b.add(row, r), [panel], width, saved)
            return []

        self.emit.loop(height, iteration)

    def _finish(
        self,
        outer: list[Value],
        row: Value,
        panels: list[Value],
        width: Width,
        sums: Callable[[int, int], Value],
    ) -> None:
        """The epilogue of one row; `sums`: by panel and by slot · vectors + vector."""
        b, vectors = self.emit.b, width.vectors
        left = self._row(outer, row)
        state = self.epilogue.row(self._indices(outer, b.add(self.first, row)))
        for p, panel in enumerate(panels):
            before = b.mul(panel, I64(self.slots * self.panel))
            for j in range(vectors):
                slots = [
                    self.terms.total(
                        sums(p, s * vectors + j),
                        left,
                        b.add(before, self.sums.unit(width, s * vectors + j)),
                    )
                    for s in range(self.slots)
                ]
                self.epilogue.run(state, panel, j, self._inside(width, j), slots)

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

    def _row(self, outer: list[Value], number: Value) -> Pointer:
        """A row of the left operand."""
        return self.terms.row(outer, self.first, number)


def _split(op: Gemm) -> tuple[Dim, tuple[Dim, ...], tuple[Dim, ...]]:
    """The offset of the left operand, and its strides along rows and along k."""
    access, rows = get_access(op.a_access), len(op.dims) - 1
    return access.offset, access.strides[:rows], access.strides[rows:]


def _of(sums: list[list[Value]], panel: int, number: int) -> Value:
    return sums[panel][number]
