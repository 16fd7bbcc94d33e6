"""A loop whose product takes what a map of the same points has just made: gradients, step by step.

    map -> rows of a, as bf16 -> sums -> the body of the product -> the next map

A map and a product over the same rows and units have their points in the same threads, so that
whatever goes from one to the other, or to the next iteration, stays in a thread; only the map's
results that are the product's rows go to other blocks. These are a row of a sequence of bf16, which
is filled with a NaN that no rounding makes before the loop: who reads four of them sees by itself
whether they have been written, so that nothing else need be ordered, and no wait of all blocks
stands in the loop. What the next map reads besides is on its way while rows are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import I1, I32, I64, VALUE, Pointer, Value
from rnncc.codegen.nvptx.exchanges.marked import fill
from rnncc.codegen.nvptx.exchanges.pairs import RUN, MappedProduct, PointMap
from rnncc.codegen.nvptx.exchanges.words import Words
from rnncc.codegen.nvptx.fragments import COLUMNS, QUAD
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.tensor_cores.product import TensorProduct
from rnncc.codegen.nvptx.tensor_cores.step import StepTile, TensorStep
from rnncc.ir.dims import Dim, product
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Row, ShiftedRow
from rnncc.kern.kernels import Gemm, Map
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.tensor_cores.loop import TensorLoop

FEW = 4
"""Runs that are all looked at until they are there."""
AT_ONCE, MOST_USED = 12, 152
"""Such runs that are on their way to a thread together; registers for them and for weights."""
MOST_SHARED = 32
"""Rows of the batch that a block has at most, where rows are handed on."""
RowPointer = Callable[[Row | ShiftedRow], Pointer]
"""Where a row lies in the iteration that the symbols tell."""


@record
class _Point:
    """A point of this thread: whether it is there, and where; a point that is there if not."""

    inside: Value
    line: Value
    place: Value
    row: Value
    unit: Value


class PairLoop:
    """A pair in its loop.

    Attributes:
        on: whether rows are handed on without a wait of all blocks, the same for all of them.
        inputs: room for the next map's inputs of each of this thread's points.
    """

    def __init__(
        self, around: TensorLoop, pair: MappedProduct, resident: TensorProduct, row: RowPointer
    ) -> None:
        self.around, self.pair, self.resident, self.row = around, pair, resident, row
        self.emit, self.pointers = around.emit, around.pointers
        self.on: Value = None
        points = range(0, MOST_SHARED * resident.groups.units, self.emit.threads)
        dtypes = [buffer_dtype(value) for value in pair.map.ins]
        self.inputs = [[self._room(VALUE[d]) for d in dtypes] for _ in points]

    def _room(self, type_: ir.Type) -> Value:
        """Room for an input; lanes without a point compute on zeros, which nobody stores."""
        room = self.emit.room(type_, 8)
        self.emit.b.store(ir.Constant(type_, 0), room, align=8)
        return room

    def begin(self, on: Value) -> None:
        """Nothing is written yet; `on`: whether blocks have weights for all units."""
        emit, b, loop, shares = self.emit, self.emit.b, self.around.loop, self.resident.shares
        assert shares is not None
        rows = emit.dim(product(self.pair.gemm.dims[:-1]))
        ranks = b.zext(shares.ranks, I64)
        self.on = b.and_(on, b.icmp_signed("<=", rows, b.mul(ranks, I64(MOST_SHARED))))
        with emit.when(self.on):
            with emit.members():
                fill(emit, loop, self.pair.rows, self.pointers[self.pair.rows.buffer])
            emit.together()

    def write(self, gemm: Product) -> None:
        """An iteration: the map, then the product."""
        emit, b = self.emit, self.emit.b
        step = TensorStep(self.around, gemm, self.resident)
        shares = step.shares
        share = b.and_(b.add(shares.mine, I32(COLUMNS - 1)), I32(-COLUMNS))
        start = b.mul(shares.rank, share)
        with emit.when(b.and_(shares.active, b.icmp_unsigned("<", start, step.count))):
            every = StepTile(step, shares.part, start, share)
            points = [self._point(every, i) for i in range(len(self.inputs))]
            self._run_maps(every, points)
            size, rows = I64(self.resident.rows), b.zext(every.rows, I64)

            def tile(number: Value) -> None:
                first = b.trunc(number, I32)
                rest, most = b.sub(every.rows, first), I32(self.resident.rows)
                some = b.select(b.icmp_unsigned("<", rest, most), rest, most)
                self._product(StepTile(step, shares.part, b.add(start, first), some), first, points)

            emit.strided(I64(0), rows, size, tile)

    def _run_maps(self, every: StepTile, points: Sequence[_Point]) -> None:
        """The map at all points of the block's rows.

        What the first points read is on its way since the iteration before; further ones, of
        blocks with many rows, take the time.
        """
        emit, b, here = self.emit, self.emit.b, self._map()
        numbers = range(len(self.pair.map.ins))
        first, _ = self.around.loop.edges
        with emit.when(self._is_at(first)):
            self._read(here, points[0], self.inputs[0], numbers)
        with emit.when(every.has_points(emit.thread)):
            self._run_map(here, every, points[0], self.inputs[0])
        for i, point in enumerate(points[1:], 1):
            more = b.mul(every.rows, I32(self.resident.groups.units))
            with emit.when(b.icmp_unsigned(">", more, I32(i * emit.threads))):
                self._read(here, point, self.inputs[i], numbers)
                self._run_map(here, every, point, self.inputs[i])
        self._read_ahead(points)

    def _product(self, tile: StepTile, first: Value, points: Sequence[_Point]) -> None:
        """The product of a tile of the block's rows, from the first on."""
        emit, b = self.emit, self.emit.b
        self._await_rows(tile)
        emit.gpu.block_wait()
        tile.sums(None)
        emit.gpu.block_wait()
        for point, rooms in zip(points, self.inputs, strict=True):
            line = b.sub(point.line, first)
            # Lines before the first are far behind the last.
            inside = b.icmp_unsigned("<", line, tile.rows)
            with emit.when(b.and_(point.inside, inside)):
                keep = partial(self._keep, self.pair.gemm, rooms)
                totals = tile.totals(line, point.place)
                tile.loaded(line, point.place)(None, totals, keep)

    # Points

    def _point(self, tile: StepTile, number: int) -> _Point:
        emit, b = self.emit, self.emit.b
        at = b.add(emit.thread, I32(number * emit.threads))
        inside, line, place = tile.split(at)
        # Lanes without a point take the first one's: words are shuffled among all of a warp.
        line, place = (b.select(inside, v, I32(0)) for v in (line, place))
        row, unit = b.add(tile.start, line), b.add(tile.unit, place)
        return _Point(inside, line, place, row, unit)

    def _map(self) -> PointMap:
        op, pointers = self.pair.map, self.pointers
        return PointMap(
            self.emit, op, [pointers[v] for v in op.ins], [pointers[v] for v in op.outs]
        )

    def _read(
        self, code: PointMap, point: _Point, rooms: Sequence[Value], numbers: Sequence[int]
    ) -> None:
        """Some inputs of the map, into their rooms."""
        emit, b = self.emit, self.emit.b
        places = code.places(b.zext(point.row, I64), b.zext(point.unit, I64))
        with emit.when(point.inside):
            for number in numbers:
                b.store(emit.load(places[number]), rooms[number], align=8)

    def _run_map(
        self, code: PointMap, tile: StepTile, point: _Point, rooms: Sequence[Value]
    ) -> None:
        """The map at a point: its rows first, since others wait for them."""
        emit, b, pair = self.emit, self.emit.b, self.pair
        row, unit = b.zext(point.row, I64), b.zext(point.unit, I64)
        inputs = [
            b.load(room, typ=VALUE[buffer_dtype(value)], align=8)
            for room, value in zip(rooms, pair.map.ins, strict=True)
        ]
        values = code.values(pair.results, inputs, row, unit)
        line = tile.step.reader.row(row)
        for slot, number in enumerate(pair.slots):
            k = b.add(unit, I64(slot * pair.gemm.units))
            self._hand_on(point, emit.at(line, k), values[number])
        outs = code.places(row, unit)[len(inputs) :]
        with emit.when(point.inside):
            for number, (value, place) in enumerate(zip(values, outs, strict=True)):
                if number not in pair.slots:
                    emit.store(value, place)
        self._keep(pair.map, rooms, values)

    def _hand_on(self, point: _Point, place: Pointer, value: Value) -> None:
        """A result of four neighbours as a word; neighbouring lanes have neighbouring units."""
        gpu = self.emit.gpu
        # Before lanes part: a shuffle takes all of a warp.
        low = gpu.halves(value, gpu.shuffle_down(value, 1))
        high = gpu.shuffle_down(low, 2)
        with self.emit.when(self._leads(point)):
            gpu.post(place.base, low, high)

    def _leads(self, point: _Point) -> Value:
        """Whether a point is the first of a word's."""
        b = self.emit.b
        first = b.icmp_unsigned("==", b.and_(point.unit, I32(QUAD - 1)), I32(0))
        return b.and_(point.inside, first)

    def _keep(self, op: Map | Gemm, rooms: Sequence[Value], values: Sequence[Value]) -> None:
        """A kernel's results that the next map takes."""
        for number, room in enumerate(rooms):
            source = self.pair.next_of(number)
            if source is not None and source[0] is op:
                self.emit.b.store(values[source[1]], room, align=8)

    # Rows

    def _await_rows(self, tile: StepTile) -> None:
        """A row each warp; one alone is shared by all, but where weights take most registers."""
        b, runs = self.emit.b, -(-tile.shared.depth // (WARP * RUN))
        if self.resident.registers > MOST_USED // 2 and runs <= AT_ONCE:
            tile.each_row(1, partial(self._await_row, tile))
            return
        with b.if_else(b.icmp_unsigned("==", tile.rows, I32(1))) as (one, several):
            with one:
                self._await_parts(tile)
            with several:
                tile.each_row(1, partial(self._await_row, tile))

    def _await_row(self, tile: StepTile, row: Value) -> None:
        """A row, of which a lane takes every 32nd run, once it is there."""
        b, depth = self.emit.b, tile.shared.depth
        line = tile.step.reader.row(b.zext(b.add(tile.start, row), I64))
        runs = -(-depth // (WARP * RUN))
        first = b.mul(tile.lane.number, I32(RUN))
        places = [b.add(first, I32(i * WARP * RUN)) for i in range(runs)]
        # The first of many runs tells when it is worth looking at the others.
        ahead = 1 if runs > FEW else 0
        at_once = min(AT_ONCE, (MOST_USED - self.resident.registers) // 4)
        whole = self.pair.gemm.depth.data % (WARP * RUN) == 0
        for some in range(0, runs, at_once):
            here = places[some : some + at_once]
            self._await_runs(tile, (row, line), here, 0 if some else ahead, whole)

    def _await_parts(self, tile: StepTile) -> None:
        """The one row that there is: each warp waits for a part of it."""
        b, depth = self.emit.b, tile.shared.depth
        line = tile.step.reader.row(b.zext(tile.start, I64))
        lanes = self.emit.threads
        first = b.mul(self.emit.thread, I32(RUN))
        runs = -(-depth // (lanes * RUN))
        places = [b.add(first, I32(i * lanes * RUN)) for i in range(runs)]
        self._await_runs(tile, (I32(0), line), places, 0, False)

    def _await_runs(
        self,
        tile: StepTile,
        source: tuple[Value, Pointer],
        places: Sequence[Value],
        first: int,
        whole: bool,
    ) -> None:
        """Runs of a row; the first of them before the others. `whole`: none is behind the depth."""
        emit, b, depth = self.emit, self.emit.b, self.pair.gemm.depth.data
        row, line = source
        insides = [I1(1) if whole else b.icmp_unsigned("<", k, I32(depth)) for k in places]
        known = [
            emit.at(line, b.zext(b.select(inside, k, I32(0)), I64)).base
            for inside, k in zip(insides, places, strict=True)
        ]
        words = Words(emit).written(known, first)
        for i, (inside, k) in enumerate(zip(insides, places, strict=True)):
            run = vector_of(b, [b.select(inside, word, I64(0)) for word in words[2 * i :][:2]])
            place = emit.at(tile.shared.rows, tile.place(row, k))
            # Products read zeros behind the depth, up to a whole number of their tiles.
            padded = b.icmp_unsigned("<", k, I32(tile.shared.depth))
            with nullcontext() if whole else emit.when(padded):
                b.store(run, place.base, align=2 * RUN)

    # Along the loop

    def _is_at(self, iteration: Dim) -> Value:
        emit = self.emit
        now = emit.symbols[self.around.loop.index.data]
        return emit.b.icmp_signed("==", now, emit.dim(iteration))

    def _read_ahead(self, points: Sequence[_Point]) -> None:
        """What the next map reads and nobody writes; of the last iteration again behind it."""
        emit, b, loop = self.emit, self.emit.b, self.around.loop
        numbers = [i for i in range(len(self.pair.map.ins)) if self.pair.next_of(i) is None]
        now, (_, last) = emit.symbols[loop.index.data], loop.edges
        after = b.sub(now, I64(1)) if bool(loop.reverse) else b.add(now, I64(1))
        following = b.select(self._is_at(last), now, after)
        rows = [op for op in loop.body.block.ops if isinstance(op, Row | ShiftedRow)]
        before: dict[SSAValue, Pointer] = {op.y: self.pointers[op.y] for op in rows}
        with emit.symbols_set({loop.index.data: following}):
            for op in rows:
                self.pointers[op.y] = self.row(op)
            self._read(self._map(), points[0], self.inputs[0], numbers)
            self._fetch_rows(points)
        self.pointers.update(before)

    def _fetch_rows(self, points: Sequence[_Point]) -> None:
        """What is not written yet lies in device memory, and is looked at in the next iteration."""
        emit, b, op = self.emit, self.emit.b, self.pair.gemm
        for point in points:
            first = b.mul(b.zext(point.row, I64), I64(op.depth.data))
            line = emit.at(self.pointers[op.a], b.add(first, b.zext(point.unit, I64)))
            with emit.when(self._leads(point)):
                for slot in range(len(self.pair.slots)):
                    emit.gpu.fetch_ahead(emit.at(line, I64(slot * op.units)).base)
