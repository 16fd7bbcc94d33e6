"""Products over many rows by tensor cores: bf16 weights, tiles of 128 rows of A and of the batch.

Runs of k of both operands go through shared memory, the next on its way while one is multiplied:

    rows of a, rounded to bf16, and weights -> registers -> shared memory -> sums in registers

The sums of a tile then go through shared memory to threads that each run the kernel's body for some
points of it. A sum is one chain, k from 0 up, whatever the tile.
"""

from __future__ import annotations

from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import (
    COLUMNS,
    PADDING,
    QUAD,
    SIDE,
    ZERO,
    Groups,
    Lane,
    RowReader,
    WeightWords,
    is_low,
)
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.tensor_cores.copies import ACROSS, RUN
from rnncc.kern.kernels import Gemm

ROWS = 128
"""Of a batch, in a tile."""
MOST_TILES = 8
"""Of 16 rows of A, in a tile."""
PITCH = RUN + PADDING
"""Of a row in shared memory, in bf16."""
Loaded = tuple[list[Value], list[list[Value]]]
"""Words of weights, and runs of rows."""


def suits(op: Gemm, threads: int) -> bool:
    """Whether there are tiles for a product."""
    return is_low(op) and threads // WARP in (2, 4, 8)


def shared_bytes(op: Gemm) -> int:
    """Of shared memory."""
    groups = _groups(op)
    # Two buffers of bf16: one is filled while the other is multiplied.
    staged = 2 * 2 * PITCH * (ROWS + groups.rows)
    return max(staged, 4 * ROWS * (groups.rows + QUAD))


def _groups(op: Gemm) -> Groups:
    least = Groups.least(op.slots.data)
    return least.times(max(1, MOST_TILES // least.tiles))


def write_bulk(emit: GpuEmit, gemm: Product) -> None:
    """The product, tile by tile."""
    b = emit.b
    groups = _groups(gemm.op)
    across = -(-gemm.units // groups.units)
    down = b.sdiv(b.add(gemm.rows.count, I64(ROWS - 1)), I64(ROWS))

    def tile(number: Value) -> None:
        row = b.sdiv(number, I64(across))
        unit = b.sub(number, b.mul(row, I64(across)))
        first = b.mul(b.trunc(unit, I32), I32(groups.units))
        _BulkTile(emit, gemm, groups, b.mul(row, I64(ROWS)), first).write()

    emit.for_each_by_blocks(b.mul(down, I64(across)), tile)


class _BulkTile:
    """One tile, from a row and a unit on."""

    def __init__(
        self, emit: GpuEmit, gemm: Product, groups: Groups, row: Value, unit: Value
    ) -> None:
        self.emit, self.gemm, self.groups, self.row, self.unit = emit, gemm, groups, row, unit
        self.lane, self.reader = Lane(emit), RowReader(emit, gemm)
        self.words = WeightWords(emit, gemm.op, gemm.weights, unit)
        warps = emit.threads // WARP
        # A warp reads fragments of both operands from shared memory; the squarer its part of the
        # tile, the fewer.
        across = ACROSS if groups.tiles % ACROSS == 0 else 1
        self.tiles, self.columns = groups.tiles // across, ROWS // COLUMNS // (warps // across)
        b = emit.b
        self.across = b.and_(self.lane.warp, I32(across - 1))
        self.down = b.lshr(self.lane.warp, I32(across.bit_length() - 1))
        self.rows = [self.reader.row(self._clamped(self._staged_row(i))) for i in range(self.runs)]

    def write(self) -> None:
        if not self.gemm.is_dense:
            self._write(False)
            return
        with self.emit.b.if_else(self.gemm.aligned()) as (aligned, other):
            with aligned:
                self._write(True)
            with other:
                self._write(False)

    def _write(self, whole: bool) -> None:
        emit, b = self.emit, self.emit.b
        count = -(-self.gemm.depth // RUN)
        emit.gpu.block_wait()  # until nobody reads what lies in shared memory
        self._store(self._load(I32(0), whole), I32(0))
        emit.gpu.block_wait()

        def iteration(i: Value, sums: list[Value]) -> list[Value]:
            number = b.trunc(i, I32)
            following = b.add(number, I32(1))
            last = b.icmp_unsigned("==", following, I32(count))
            ahead = b.select(last, number, following)  # nobody reads it behind the last one
            # Under way while the tensor cores are busy; stored behind them.
            loaded = self._load(b.mul(ahead, I32(RUN)), whole)
            sums = self._multiply(b.and_(number, I32(1)), sums)
            self._store(loaded, b.and_(following, I32(1)))
            emit.gpu.block_wait()
            return sums

        sums = emit.loop(I64(count), iteration, [ZERO] * (4 * self.tiles * self.columns))
        self._keep(sums)
        emit.gpu.block_wait()
        self._points()

    # Operands

    @property
    def runs(self) -> int:
        """Runs of rows that a thread reads at a time."""
        return ROWS * RUN // QUAD // self.emit.threads

    def _staged_row(self, number: int) -> Value:
        b = self.emit.b
        row = b.lshr(self.emit.thread, I32((RUN // QUAD).bit_length() - 1))
        return b.add(row, I32(number * (ROWS // self.runs)))

    def _clamped(self, row: Value) -> Value:
        """A row of the tile as one of the product's."""
        b = self.emit.b
        number, last = b.add(self.row, b.zext(row, I64)), b.sub(self.gemm.rows.count, I64(1))
        return b.select(b.icmp_signed("<", number, last), number, last)

    def _staged_words(self) -> list[tuple[Value, Value, Value]]:
        """The unit, slot and pair of each word of weights that this thread reads."""
        emit, b = self.emit, self.emit.b
        # A warp reads four pairs of k of eight neighbouring units, whose words make 32 bytes.
        slots, high = self.groups.slots, max(1, self.groups.units // 8)
        low = min(8, self.groups.units)
        words: list[tuple[Value, Value, Value]] = []
        for i in range(self.groups.rows * RUN // 2 // emit.threads):
            number = b.add(emit.thread, I32(i * emit.threads))
            unit, rest = b.urem(number, I32(low)), b.udiv(number, I32(low))
            pair, rest = b.and_(rest, I32(3)), b.lshr(rest, I32(2))
            unit = b.add(unit, b.mul(b.urem(rest, I32(high)), I32(low)))
            rest = b.udiv(rest, I32(high))
            slot, rest = b.urem(rest, I32(slots)), b.udiv(rest, I32(slots))
            words.append((unit, slot, b.add(pair, b.shl(rest, I32(2)))))
        return words

    def _load(self, k: Value, whole: bool) -> Loaded:
        b = self.emit.b
        pairs = b.lshr(k, I32(1))
        words = [
            self.words.word(unit, slot, b.add(pairs, pair), self._sure)
            for unit, slot, pair in self._staged_words()
        ]
        own = b.add(k, b.mul(b.and_(self.emit.thread, I32(RUN // QUAD - 1)), I32(QUAD)))
        return words, [self.reader.four(row, own, whole, self._sure) for row in self.rows]

    @property
    def _sure(self) -> bool:
        """Whether all runs are whole."""
        return self.gemm.depth % RUN == 0

    def _store(self, loaded: Loaded, buffer: Value) -> None:
        emit, b = self.emit, self.emit.b
        words, rows = loaded
        left, right = self._buffer(buffer)
        for word, (unit, slot, pair) in zip(words, self._staged_words(), strict=True):
            row = b.add(b.mul(unit, I32(self.groups.slots)), slot)
            at = b.add(b.mul(row, I32(PITCH)), b.shl(pair, I32(1)))
            b.store(word, emit.at(left, b.zext(at, I64)).base, align=4)
        own = b.mul(b.and_(emit.thread, I32(RUN // QUAD - 1)), I32(QUAD))
        for i, values in enumerate(rows):
            at = b.add(b.mul(self._staged_row(i), I32(PITCH)), own)
            self.reader.store(values, emit.at(right, b.zext(at, I64)))

    def _buffer(self, number: Value) -> tuple[Pointer, Pointer]:
        """Where the rows of A and the batch's rows lie in one of two buffers."""
        emit, b = self.emit, self.emit.b
        size = PITCH * (ROWS + self.groups.rows)
        start = b.zext(b.mul(number, I32(size)), I64)
        first = emit.at(Pointer(emit.gpu.shared(), "bf16"), start)
        return first, emit.at(first, I64(PITCH * self.groups.rows))

    # Sums

    def _multiply(self, buffer: Value, sums: list[Value]) -> list[Value]:
        emit, b = self.emit, self.emit.b
        left, right = self._buffer(buffer)
        lane = self.lane
        # matrices of A: rows 0 to 7, rows 8 to 15, then the same of the next 8 k
        line = b.add(b.and_(lane.number, I32(15)), b.mul(self.across, I32(self.tiles * SIDE)))
        at = b.add(b.mul(line, I32(PITCH)), b.shl(b.lshr(lane.number, I32(4)), I32(3)))
        left = emit.at(left, b.zext(at, I64))
        own = b.mul(self.down, I32(self.columns * COLUMNS * PITCH))
        right = emit.at(right, b.zext(b.add(lane.matrix_row(emit, PITCH), own), I64))
        columns = [
            emit.gpu.matrices(emit.at(right, I64(n * COLUMNS * PITCH)).base, 4)
            for n in range(self.columns)
        ]
        sums = list(sums)
        for k in range(RUN // SIDE):
            for m in range(self.tiles):
                place = emit.at(left, I64(m * SIDE * PITCH + k * SIDE))
                a = emit.gpu.matrices(place.base, 4)
                for n, words in enumerate(columns):
                    i = 4 * (m * self.columns + n)
                    sums[i : i + 4] = emit.gpu.multiply(
                        a, words[2 * k : 2 * k + 2], sums[i : i + 4]
                    )
        return sums

    # Results

    @property
    def _width(self) -> int:
        return self.groups.rows + QUAD

    def _keep(self, sums: list[Value]) -> None:
        """Sums in shared memory, by row; over what was multiplied."""
        emit, b, lane = self.emit, self.emit.b, self.lane
        memory = Pointer(emit.gpu.shared(), "f32")
        row = b.add(b.mul(self.down, I32(self.columns * COLUMNS)), b.shl(lane.pair, I32(1)))
        at = b.add(b.mul(row, I32(self._width)), lane.group)
        at = b.add(at, b.mul(self.across, I32(self.tiles * SIDE)))
        place = emit.at(memory, b.zext(at, I64))
        for i, value in enumerate(sums):
            tile, number = divmod(i, 4)
            m, n = divmod(tile, self.columns)
            row_of = n * COLUMNS + number % 2
            offset = row_of * self._width + m * SIDE + number // 2 * 8
            emit.store(value, emit.at(place, I64(offset)))

    def _points(self) -> None:
        emit, b, gemm, groups = self.emit, self.emit.b, self.gemm, self.groups

        def point(number: Value) -> None:
            number = b.trunc(number, I32)
            line = b.udiv(number, I32(groups.units))
            place = b.sub(number, b.mul(line, I32(groups.units)))
            row = b.add(self.row, b.zext(line, I64))
            unit = b.zext(b.add(self.unit, place), I64)
            inside = b.and_(
                b.icmp_signed("<", row, gemm.rows.count),
                b.icmp_signed("<", unit, I64(gemm.units)),
            )
            with emit.when(inside):
                indices = gemm.rows.indices(row)
                here = gemm.rows.at(gemm.pointers, indices)
                gemm.loaded(indices, here, unit)(None, self._sums(line, place))

        emit.strided(emit.thread64, I64(ROWS * groups.units), I64(emit.threads), point)

    def _sums(self, line: Value, place: Value) -> list[Value]:
        """Of all slots of a point."""
        emit, b, slots = self.emit, self.emit.b, self.groups.slots
        at = b.add(b.mul(line, I32(self._width)), b.mul(place, I32(slots)))
        first = emit.at(Pointer(emit.gpu.shared(), "f32"), b.zext(at, I64))
        return [emit.load(emit.at(first, I64(slot))) for slot in range(slots)]
