"""One iteration of a product by tensor cores, whose weights stay in registers: see `loop`.

rows of a, rounded to bf16 -> shared memory -> sums of each part -> shared memory -> the body
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.exchanges.rows import Exchange
from rnncc.codegen.nvptx.exchanges.words import Words
from rnncc.codegen.nvptx.fragments import (
    COLUMNS,
    QUAD,
    SIDE,
    ZERO,
    RowReader,
    store_words,
)
from rnncc.codegen.nvptx.gemm import Finish, Product
from rnncc.codegen.nvptx.held import Shares
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.tensor_cores.product import (
    PARTS,
    Fragment,
    Source,
    StepMemory,
    TensorProduct,
    deep,
)

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.tensor_cores.loop import TensorLoop


class TensorStep:
    """One product in one iteration of the loop."""

    def __init__(self, around: TensorLoop, gemm: Product, resident: TensorProduct) -> None:
        self.around, self.gemm, self.resident, self.emit = around, gemm, resident, around.emit
        self.lane, self.shared = around.lane, StepMemory(around.emit, resident)
        self.reader = RowReader(self.emit, gemm)
        self.deep, self.rows = deep(gemm.depth), resident.rows
        self.count = self.emit.b.trunc(gemm.rows.count, I32)

    def from_registers(self) -> None:
        """Blocks with the same units share the rows."""
        b, emit = self.emit.b, self.emit
        shares = self.shares
        few = b.icmp_unsigned("<=", shares.mine, I32(COLUMNS))
        # Eight rows are one multiplication wide: with sixteen, half would be for nothing.
        tile = b.select(few, I32(COLUMNS), I32(self.rows))
        with emit.when(shares.active):
            self._shared_rows(shares, tile)

    @property
    def shares(self) -> Shares:
        """Which points are this block's, where there are blocks for all units."""
        tile_shares = self.resident.shares
        return tile_shares or Shares(self.emit, self.gemm.op, I32(self.resident.blocks)).of(
            self.count
        )

    def from_memory(self) -> None:
        """Blocks share units, then rows."""
        b, emit, blocks = self.emit.b, self.emit, I32(self.resident.blocks)
        rows = self.rows
        tiles = b.lshr(b.add(self.count, I32(rows - 1)), I32(rows.bit_length() - 1))
        items = b.mul(blocks, tiles)

        def item(number: Value) -> None:
            number = b.trunc(number, I32)
            part = b.urem(number, blocks)
            start = b.mul(b.udiv(number, blocks), I32(rows))
            emit.gpu.block_wait()
            StepTile(self, part, start, I32(rows)).write(
                self.around.from_memory(self.resident, part)
            )

        wide = [b.zext(v, I64) for v in (emit.block, items, emit.blocks)]
        emit.strided(wide[0], wide[1], wide[2], item)

    def _shared_rows(self, shares: Shares, tile: Value) -> None:
        b, emit = self.emit.b, self.emit

        def one(start: Value) -> None:
            StepTile(self, shares.part, b.trunc(start, I32), tile).write(None)

        values = b.mul(shares.rank, tile), self.count, b.mul(shares.ranks, tile)
        first, count, step = (b.zext(v, I64) for v in values)
        emit.strided(first, count, step, one)


class StepTile:
    """Rows of a step, up to `size` of them from `start` on."""

    def __init__(self, step: TensorStep, part: Value, start: Value, size: Value) -> None:
        self.step, self.gemm, self.resident, self.emit = step, step.gemm, step.resident, step.emit
        self.lane, self.shared, self.start = step.lane, step.shared, start
        b = self.emit.b
        rest = b.sub(step.count, start)
        self.rows = b.select(b.icmp_unsigned("<", rest, size), rest, size)
        self.unit = b.mul(part, I32(step.resident.groups.units))
        self.exchange: Exchange | None = None

    def write(self, source: Source | None) -> None:
        """The tile; `source`: of weights that no registers hold."""
        emit, b = self.emit, self.emit.b
        points = self.step.rows * self.resident.groups.units
        ends: list[Callable[[], None]] = []
        if source is None:
            ends = [
                self._begun(b.add(emit.thread, I32(first)))
                for first in range(0, points, emit.threads)
            ]
        self.exchange = self.step.around.exchange if source is None else None
        self._take(self.step.around.most_loaded if source is None else 1)
        emit.gpu.block_wait()
        self.sums(source)
        emit.gpu.block_wait()
        for end in ends:
            end()
        if source is not None:
            number, step = b.zext(emit.thread, I64), I64(emit.threads)
            emit.strided(number, I64(points), step, lambda i: self._point(b.trunc(i, I32)))

    # Rows

    def _take(self, most: int) -> None:
        """Rows of a, from the iteration before."""
        exchange, b = self.exchange, self.emit.b
        if exchange is None:
            self._stage(most)
            return
        later = b.icmp_unsigned(">", exchange.iteration, I32(0))
        with b.if_else(b.and_(later, exchange.on)) as (handed, stored):
            with handed:
                self._await_rows(exchange, most)
            with stored:
                self._stage(most)

    def _await_rows(self, exchange: Exchange, most: int) -> None:
        """Rows that were handed on: of a warp two at a time, where it has two and registers do."""
        emit, b = self.emit, self.emit.b
        warps = emit.threads // WARP
        one = partial(self._await_row, exchange)
        if self.step.rows // warps != 2 or 2 * self.step.deep > most:
            self.each_row(1, one)
            return
        both = b.icmp_unsigned("<", b.add(self.lane.warp, I32(warps)), self.rows)
        with b.if_else(both) as (two, few):
            with two:
                self.each_row(2, lambda row: one(row, b.add(row, I32(warps))))
            with few:
                self.each_row(1, one)

    def _await_row(self, exchange: Exchange, *rows: Value) -> None:
        """Rows that were handed on, of each a lane every 32nd run of four k."""
        emit, b = self.emit, self.emit.b
        runs = [
            (row, b.add(b.mul(self.lane.number, I32(QUAD)), I32(tile * WARP * QUAD)))
            for row in rows
            for tile in range(self.step.deep)
        ]
        depth, iteration = I32(self.gemm.depth), exchange.iteration
        insides = [b.icmp_unsigned("<", k, depth) for _, k in runs]
        places: list[Value] = []
        for own, (row, k) in zip(insides, runs, strict=True):
            pair = b.lshr(b.select(own, k, I32(0)), I32(1))
            places.append(exchange.place(iteration, b.add(self.start, row), pair))
        words = iter(Words(emit).marked(places, iteration))
        for own, (row, k) in zip(insides, runs, strict=True):
            two = [b.select(own, next(words), I32(0)) for _ in range(2)]
            store_words(emit, two, emit.at(self.shared.rows, self.place(row, k)))

    def _stage(self, most: int) -> None:
        """A warp copies rows, a lane every 32nd run of four k; `most` runs before it writes."""
        emit, b = self.emit, self.emit.b
        if not self.gemm.is_dense:
            self._copy_singly()
            return
        with b.if_else(self.gemm.aligned()) as (aligned, other):
            with aligned:
                warps = emit.threads // WARP
                batch = max(1, min(self.step.rows // warps, most // self.step.deep))
                self.each_row(batch, partial(self._copy, batch))
            with other:
                self._copy_singly()

    def each_row(self, batch: int, copy: Callable[[Value], None]) -> None:
        """The first of each `batch` rows that are this warp's."""
        emit, b = self.emit, self.emit.b
        step = I64(emit.threads // WARP * batch)
        first, count = (b.zext(v, I64) for v in (self.lane.warp, self.rows))
        emit.strided(first, count, step, lambda i: copy(b.trunc(i, I32)))

    def _copy(self, batch: int, first: Value) -> None:
        """Some rows, all of whose loads are under way before the first store."""
        emit, b, reader = self.emit, self.emit.b, self.step.reader
        copies: list[tuple[Value, Value, list[Value]]] = []
        for i in range(batch):
            row = b.add(first, I32(i * (emit.threads // WARP)))
            own = b.icmp_unsigned("<", row, self.rows)
            source = reader.row(b.zext(b.add(self.start, b.select(own, row, first)), I64))
            for tile in range(self.step.deep):
                k = b.add(b.mul(self.lane.number, I32(QUAD)), I32(tile * WARP * QUAD))
                sure = (tile + 1) * WARP * QUAD <= self.gemm.depth
                copies.append((own, self.place(row, k), reader.four(source, k, True, sure)))
        for own, at, values in copies:
            with emit.when(own):
                reader.store(values, emit.at(self.shared.rows, at))

    def _copy_singly(self) -> None:
        """Rows whose k lie anywhere."""
        emit, b, reader = self.emit, self.emit.b, self.step.reader

        def copy(row: Value) -> None:
            source = reader.row(b.zext(b.add(self.start, row), I64))

            def run(i: Value, _: list[Value]) -> list[Value]:
                emit.gpu.not_unrolled()
                k = b.add(b.shl(b.trunc(i, I32), I32(5)), self.lane.number)
                k = b.shl(k, I32(2))
                place = emit.at(self.shared.rows, self.place(row, k))
                reader.store(reader.four(source, k, False), place)
                return []

            emit.loop(emit.gpu.hidden(self.step.deep), run)

        self.each_row(1, copy)

    def place(self, row: Value, k: Value) -> Value:
        """Of a row's k in shared memory."""
        b = self.emit.b
        return b.zext(b.add(b.mul(row, I32(self.shared.pitch)), k), I64)

    # Sums

    def sums(self, source: Source | None) -> None:
        """Of this warp's parts of k, for each eight rows."""
        emit, b = self.emit, self.emit.b
        columns = b.zext(b.lshr(b.add(self.rows, I32(COLUMNS - 1)), I32(3)), I64)

        def eight(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(b.trunc(i, I32), I32(COLUMNS))
            for round_ in range(self.resident.rounds):
                self._part(first, round_, source)
            return []

        emit.loop(columns, eight)

    def _part(self, first: Value, round_: int, source: Source | None) -> None:
        emit, b, deep = self.emit, self.emit.b, self.step.deep
        part = self.step.around.part(round_)
        row = b.add(self.lane.matrix_row(emit, self.shared.pitch), b.mul(part, I32(deep * SIDE)))
        row = b.add(row, b.mul(first, I32(self.shared.pitch)))
        place = emit.at(self.shared.rows, b.zext(row, I64))
        if source is None:
            sums = self._by_registers(place, round_)
        else:
            sums = self._by_memory(place, round_, source)
        self._store(part, first, sums)

    def _by_registers(self, place: Pointer, round_: int) -> list[Value]:
        """Two tiles along k at a time."""
        emit, fragments, deep = self.emit, self.resident.fragments, self.step.deep
        assert fragments is not None
        height = range(self.resident.groups.tiles)
        sums = [ZERO] * (4 * len(height))
        for k in range(0, deep, 2):
            count = min(2, deep - k)
            words = emit.gpu.matrices(emit.at(place, I64(k * SIDE)).base, 2 * count)
            for i in range(count):
                tiles = [fragments[round_, m, k + i] for m in height]
                sums = self._multiply(tiles, words[2 * i : 2 * i + 2], sums)
        return sums

    def _by_memory(self, place: Pointer, round_: int, source: Source) -> list[Value]:
        """One tile after another: registers are for weights, in the other code."""
        emit, b = self.emit, self.emit.b
        sums: list[Value] = []

        def iteration(m: int, k: Value, carried: list[Value]) -> list[Value]:
            emit.gpu.not_unrolled()
            words = emit.gpu.matrices(emit.at(place, b.mul(k, I64(SIDE))).base, 2)
            return self._multiply([source(round_, m, b.trunc(k, I32))], words, carried)

        count = emit.gpu.hidden(self.step.deep)
        for m in range(self.resident.groups.tiles):
            sums += emit.loop(count, partial(iteration, m), [ZERO] * 4)
        return sums

    def _multiply(self, tiles: list[Fragment], columns: Fragment, sums: list[Value]) -> list[Value]:
        """One tile along k."""
        totals: list[Value] = []
        for m, tile in enumerate(tiles):
            totals += self.emit.gpu.multiply(tile, columns, sums[4 * m : 4 * m + 4])
        return totals

    def _store(self, part: Value, first: Value, sums: list[Value]) -> None:
        emit, b, width = self.emit, self.emit.b, self.shared.width
        row = b.add(b.mul(part, I32(self.step.rows)), b.add(first, b.mul(self.lane.pair, I32(2))))
        at = b.add(b.mul(row, I32(width)), self.lane.group)
        place = emit.at(self.shared.sums, b.zext(at, I64))
        for i, value in enumerate(sums):
            tile, number = divmod(i, 4)
            offset = number % 2 * width + number // 2 * 8 + tile * SIDE
            emit.store(value, emit.at(place, I64(offset)))

    # Points

    def _point(self, number: Value) -> None:
        """One point, if it is there."""
        inside, row, place = self.split(number)
        with self.emit.when(inside):
            self.loaded(row, place)(None, self.totals(row, place))

    def _begun(self, number: Value) -> Callable[[], None]:
        """Read the inputs of one point, or of the first one; returns what does the rest."""
        b = self.emit.b
        inside, row, place = self.split(number)
        # Lanes without a point take the first one's: `hand_on` shuffles among all of a warp.
        row, place = (b.select(inside, v, I32(0)) for v in (row, place))
        finish = self.loaded(row, place)

        def hand_on(values: list[Value]) -> None:
            exchange = self.exchange
            if exchange is not None:
                line, unit = b.add(self.start, row), b.add(self.unit, place)
                exchange.hand_on(inside, line, unit, values[exchange.out])

        return lambda: finish(inside, self.totals(row, place), hand_on)

    def has_points(self, number: Value) -> Value:
        """Whether any lane of this warp, whose point has that number, has one that is there."""
        b = self.emit.b
        first = b.and_(number, I32(-WARP))
        return b.icmp_unsigned("<", b.udiv(first, I32(self.resident.groups.units)), self.rows)

    def split(self, number: Value) -> tuple[Value, Value, Value]:
        """Whether a point of the tile is there; its row and unit, from the tile's first on."""
        b, gemm = self.emit.b, self.gemm
        units = I32(self.resident.groups.units)
        row = b.udiv(number, units)
        place = b.sub(number, b.mul(row, units))
        unit = b.add(self.unit, place)
        inside = b.and_(
            b.icmp_unsigned("<", row, self.rows), b.icmp_unsigned("<", unit, I32(gemm.units))
        )
        return inside, row, place

    def loaded(self, row: Value, place: Value) -> Finish:
        b, gemm = self.emit.b, self.gemm
        indices = gemm.rows.indices(b.zext(b.add(self.start, row), I64))
        here = gemm.rows.at(gemm.pointers, indices)
        return gemm.loaded(indices, here, b.zext(b.add(self.unit, place), I64))

    def totals(self, row: Value, place: Value) -> list[Value]:
        """The sums of all slots, part after part."""
        emit, b = self.emit, self.emit.b
        at = b.add(b.mul(row, I32(self.shared.width)), b.mul(place, I32(self.gemm.slots)))
        first = emit.at(self.shared.sums, b.zext(at, I64))
        # Slots lie side by side: loads of up to 16 bytes, which must be aligned to their size.
        side = next(n for n in (4, 2, 1) if self.gemm.slots % n == 0)
        totals: list[Value] = []
        for slot in range(0, self.gemm.slots, side):
            runs = [self._run(first, part, slot, side) for part in range(PARTS)]
            for i in range(side):
                total = runs[0][i]
                for run in runs[1:]:
                    total = b.fadd(total, run[i])
                totals.append(total)
        return totals

    def _run(self, first: Pointer, part: int, slot: int, side: int) -> list[Value]:
        """Neighbouring slots of a part."""
        emit, b = self.emit, self.emit.b
        place = emit.at(first, I64(part * self.step.rows * self.shared.width + slot))
        if side == 1:
            return [emit.load(place)]
        run = b.load(place.base, typ=ir.VectorType(FLOAT, side), align=4 * side)
        return [b.extract_element(run, I64(i)) for i in range(side)]
