"""Products over many rows of bf16 by tensor cores: both operands are copied, none is converted.

Runs of k go through shared memory, some of them on their way while one is multiplied; sums of a
tile stay in registers, from where threads store the results of their points:

    rows and weights -> shared memory -> sums in registers -> the body

A sum is one chain, k from 0 up, whatever the tile: the bits of `bulk`.
"""

from __future__ import annotations

from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import COLUMNS, PADDING, QUAD, SIDE, Lane, is_low
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.tensor_cores.copies import LINE, PIECE, RUN, STAGES, WarpPart, summed
from rnncc.ir.dims import Dim
from rnncc.kern.access import buffer_dtype, get_access
from rnncc.kern.kernels import Gemm

UNITS = 128
"""Of a tile."""
MOST_ROWS, FEW_ROWS = 256, 128
"""Of a tile: the fewer where else there would be blocks without any."""
AHEAD = 4
"""Runs that the second-level cache is asked for ahead of the copies."""
PITCH, WIDTH = RUN + PADDING, UNITS + 8
"""Of a row in shared memory, in bf16; of a pair of k of all units, in words."""
MOST_OPS = 8
"""Of the body, which is written for each point of a thread."""


def suits(op: Gemm, threads: int) -> bool:
    """Whether rows and weights lie so that both can be copied."""
    a, units, panel = get_access(op.a_access), op.units, op.panel.data
    parts = a.offset, *a.strides[:-1]
    whole = all(factor % PIECE == 0 for part in parts for _, factor in part.terms)
    sides = units % QUAD == 0 and panel % QUAD == 0 and op.depth.data % PIECE == 0
    plain = op.slots.data == 1 and op.rows is None and op.k_sizes is None
    few = len(list(op.body.block.ops)) <= MOST_OPS
    low = is_low(op) and buffer_dtype(op.a) == "bf16" and a.strides[-1] == Dim.of(1)
    return low and whole and sides and plain and few and threads // WARP in (2, 4, 8)


def shared_bytes() -> int:
    """Of shared memory."""
    return STAGES * (2 * PITCH * MOST_ROWS + 4 * WIDTH * RUN // 2)


def write_stream(emit: GpuEmit, gemm: Product) -> None:
    """The product, tile by tile."""
    b = emit.b
    across = -(-gemm.units // UNITS)
    tiles = b.mul(emit.parts(gemm.rows.count, I64(MOST_ROWS)), I64(across))
    enough = b.icmp_signed(">=", tiles, b.zext(emit.blocks, I64))
    with b.if_else(enough) as (many, few):
        with many:
            _write(emit, gemm, MOST_ROWS)
        with few:
            _write(emit, gemm, FEW_ROWS)


def _write(emit: GpuEmit, gemm: Product, rows: int) -> None:
    b, across = emit.b, -(-gemm.units // UNITS)

    def tile(number: Value) -> None:
        row, unit = b.sdiv(number, I64(across)), b.srem(number, I64(across))
        _StreamTile(emit, gemm, rows, b.mul(row, I64(rows)), b.mul(unit, I64(UNITS))).write()

    down = emit.parts(gemm.rows.count, I64(rows))
    emit.for_each_by_blocks(b.mul(down, I64(across)), tile)


class _StreamTile:
    """One tile, from a row and a unit on."""

    def __init__(self, emit: GpuEmit, gemm: Product, size: int, row: Value, unit: Value) -> None:
        self.emit, self.gemm, self.size, self.row, self.unit = emit, gemm, size, row, unit
        self.lane, self.bytes = Lane(emit), 2 * PITCH * size + 4 * WIDTH * RUN // 2
        self.warp = WarpPart.of(emit, self.lane, UNITS, size)
        self.rows = [self._row_piece(i) for i in range(size * RUN // PIECE // emit.threads)]
        count = RUN // 2 * UNITS // QUAD // emit.threads
        self.weights = [self._weight_piece(i) for i in range(count)]

    def write(self) -> None:
        runs = I64(-(-self.gemm.depth // RUN))
        sums = summed(self.emit, runs, self.warp.zeros, self._copy, self._multiply)
        self._points(sums)

    # Operands

    def _row_piece(self, number: int) -> tuple[Pointer, Value, Value, Value]:
        """Of the batch: a row, whether it is there, k within a run, a place in shared memory."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        at = b.add(emit.thread, I32(number * emit.threads))
        line, k = b.lshr(at, I32(2)), b.mul(b.and_(at, I32(RUN // PIECE - 1)), I32(PIECE))
        row = b.add(self.row, b.zext(line, I64))
        inside = b.icmp_signed("<", row, gemm.rows.count)
        safe = b.select(inside, row, self.row)
        source = gemm.rows.at(gemm.pointers, gemm.rows.indices(safe))[0]
        return source, inside, k, b.add(b.mul(line, I32(PITCH)), k)

    def _weight_piece(self, number: int) -> tuple[Pointer, Value, Value, Value, Value]:
        """Of weights: four units, from pair to pair, whether they are there, the pair, a place."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        at = b.add(emit.thread, I32(number * emit.threads))
        pair = b.lshr(at, I32((UNITS // QUAD).bit_length() - 1))
        four = b.mul(b.and_(at, I32(UNITS // QUAD - 1)), I32(QUAD))
        unit = b.add(self.unit, b.zext(four, I64))
        inside = b.icmp_signed("<", unit, I64(gemm.units))
        begin, step = gemm.weights.place(b.select(inside, unit, I64(0)))
        source = emit.at(gemm.weights.packed, begin)
        return source, step, inside, pair, b.add(b.mul(pair, I32(WIDTH)), four)

    def _copy(self, run: Value, stage: Value) -> None:
        """Begin to copy a run; zeros behind the last k."""
        emit, b, depth = self.emit, self.emit.b, self.gemm.depth
        rows, words = self._stage(stage)
        run = b.trunc(run, I32)
        first = b.mul(run, I32(RUN))
        for source, here, own, place in self.rows:
            k = b.add(first, own)
            inside = b.and_(here, b.icmp_signed("<", k, I32(depth)))
            at = emit.at(source, b.zext(b.select(inside, k, I32(0)), I64))
            target = emit.at(rows, b.zext(place, I64))
            emit.gpu.copy_ahead(target.base, at.base, b.select(inside, I32(16), I32(0)))
            self._fetch(source, here, k)
        for source, step, here, own, place in self.weights:
            pair = b.add(b.mul(run, I32(RUN // 2)), own)
            inside = b.and_(here, b.icmp_signed("<", pair, I32(depth // 2)))
            safe = b.zext(b.select(inside, pair, I32(0)), I64)
            at = emit.at(source, b.mul(safe, step))
            target = emit.at(words, b.zext(place, I64))
            emit.gpu.copy_ahead(target.base, at.base, b.select(inside, I32(16), I32(0)))
        emit.gpu.end_copies()

    def _fetch(self, source: Pointer, here: Value, k: Value) -> None:
        """Let the cache fetch a row's line some runs ahead: several blocks come to it at once."""
        emit, b = self.emit, self.emit.b
        later = b.add(k, I32(AHEAD * RUN))
        leads = b.icmp_unsigned("==", b.and_(later, I32(LINE - 1)), I32(0))
        inside = b.and_(here, b.icmp_signed("<", later, I32(self.gemm.depth)))
        with emit.when(b.and_(leads, inside)):
            emit.gpu.fetch_ahead(emit.at(source, b.zext(later, I64)).base)

    def _stage(self, number: Value) -> tuple[Pointer, Pointer]:
        """Where a run's rows lie, and its words of weights."""
        emit, b = self.emit, self.emit.b
        start = b.zext(b.mul(number, I32(self.bytes // 2)), I64)
        rows = emit.at(Pointer(emit.gpu.shared(), "bf16"), start)
        return rows, Pointer(emit.at(rows, I64(PITCH * self.size)).base, "i32")

    # Sums

    def _multiply(self, stage: Value, sums: list[Value]) -> list[Value]:
        emit, b, lane = self.emit, self.emit.b, self.lane
        rows, words = self._stage(stage)
        own = b.mul(self.warp.down, I32(self.warp.columns * COLUMNS * PITCH))
        rows = emit.at(rows, b.zext(b.add(lane.matrix_row(emit, PITCH), own), I64))
        columns = [
            emit.gpu.matrices(emit.at(rows, I64(n * COLUMNS * PITCH)).base, 4)
            for n in range(self.warp.columns)
        ]
        at = b.add(b.mul(lane.pair, I32(WIDTH)), lane.group)
        at = b.add(at, b.mul(self.warp.across, I32(self.warp.tiles * SIDE)))
        words = emit.at(words, b.zext(at, I64))
        sums = list(sums)
        for k in range(RUN // SIDE):
            for m in range(self.warp.tiles):
                # Rows of a tile of A lie eight units apart, its halves along k four pairs.
                places = [
                    emit.at(words, I64((k * 8 + i // 2 * 4) * WIDTH + m * SIDE + i % 2 * 8))
                    for i in range(4)
                ]
                a = [b.load(place.base, typ=I32, align=4) for place in places]
                for n, column in enumerate(columns):
                    i = 4 * (m * self.warp.columns + n)
                    pair = column[2 * k : 2 * k + 2]
                    sums[i : i + 4] = emit.gpu.multiply(a, pair, sums[i : i + 4])
        return sums

    # Results

    def _points(self, sums: list[Value]) -> None:
        """The body at this thread's points: for each of some rows the same units."""
        emit, b, gemm, lane = self.emit, self.emit.b, self.gemm, self.lane
        row = b.add(
            b.mul(self.warp.down, I32(self.warp.columns * COLUMNS)), b.shl(lane.pair, I32(1))
        )
        row = b.add(self.row, b.zext(row, I64))
        unit = b.add(b.mul(self.warp.across, I32(self.warp.tiles * SIDE)), lane.group)
        unit = b.add(self.unit, b.zext(unit, I64))
        for column in range(self.warp.columns * 2):
            n, odd = divmod(column, 2)
            here = b.add(row, I64(n * COLUMNS + odd))
            with emit.when(b.icmp_signed("<", here, gemm.rows.count)):
                indices = gemm.rows.indices(here)
                pointers = gemm.rows.at(gemm.pointers, indices)
                for line in range(self.warp.tiles * 2):
                    m, high = divmod(line, 2)
                    value = sums[4 * (m * self.warp.columns + n) + 2 * high + odd]
                    self._point(indices, pointers, b.add(unit, I64(m * SIDE + high * 8)), value)

    def _point(
        self, indices: list[Value], pointers: list[Pointer], unit: Value, value: Value
    ) -> None:
        emit, gemm = self.emit, self.gemm
        if gemm.units % UNITS == 0:
            gemm.loaded(indices, pointers, unit)(None, [value])
            return
        with emit.when(emit.b.icmp_signed("<", unit, I64(gemm.units))):
            gemm.loaded(indices, pointers, unit)(None, [value])
