"""Operands of tensor cores: weights as rows of A, 16 by 16; the rows of a batch as columns of B.

A product of bf16 multiplies 16 rows of A by 16 k and 8 columns of B at a time. Rows of A are units
with their slots side by side, so that a block which has some groups of units has all their slots.
"""

from __future__ import annotations

from math import gcd

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import FLOAT, I1, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.gemm import DeviceWeights, Product
from rnncc.codegen.nvptx.limits import WARP
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Gemm
from rnncc.records import record

SIDE = 16
"""Rows and k of A."""
COLUMNS = 8
"""Of B."""
MOST_SLOTS = 16
PADDING = 8
"""bf16 that part rows in shared memory, so that reads of eight rows meet in no bank."""
QUAD = 4
"""Values that a thread reads at a time."""
ZERO = ir.Constant(FLOAT, 0.0)


def is_low(op: Gemm) -> bool:
    """Whether tensor cores compute a product."""
    weights = op.weights.owner
    low = isinstance(weights, Buffer) and weights.dtype == "bf16"
    return low and op.room is not None and op.slots.data <= MOST_SLOTS


@record
class Groups:
    """How a block's units and slots make rows of A.

    Attributes:
        units: of a block; a multiple of what fills whole tiles.
        tiles: of 16 rows.
    """

    slots: int
    units: int

    @staticmethod
    def least(slots: int) -> Groups:
        """The fewest units that fill whole tiles."""
        return Groups(slots, SIDE // gcd(SIDE, slots))

    def times(self, count: int) -> Groups:
        return Groups(self.slots, self.units * count)

    @property
    def rows(self) -> int:
        return self.units * self.slots

    @property
    def tiles(self) -> int:
        return self.rows // SIDE


class Lane:
    """This thread in its warp: `group` and `pair` as tensor cores number lanes."""

    def __init__(self, emit: GpuEmit) -> None:
        b = emit.b
        self.warp, self.number = b.lshr(emit.thread, I32(5)), b.and_(emit.thread, I32(WARP - 1))
        self.group, self.pair = b.lshr(self.number, I32(2)), b.and_(self.number, I32(3))

    def matrix_row(self, emit: GpuEmit, pitch: int) -> Value:
        """Where the lane's row of 8 k begins, of matrices that lie side by side, in bf16."""
        b = emit.b
        row = b.mul(b.and_(self.number, I32(COLUMNS - 1)), I32(pitch))
        return b.add(row, b.mul(b.lshr(self.number, I32(3)), I32(COLUMNS)))


class WeightWords:
    """Weights in device memory as rows of A, two k a word.

    Args:
        first: the first unit.
    """

    def __init__(self, emit: GpuEmit, op: Gemm, source: DeviceWeights, first: Value) -> None:
        self.emit, self.op, self.source, self.first = emit, op, source, first
        self.slots = op.slots.data

    def word(self, unit: Value, slot: Value, pair: Value, sure: bool = False) -> Value:
        """Two weights of a unit, counted from the first one; zeros behind the depth.

        Args:
            sure: the pair is not behind it.
        """
        emit, b, op = self.emit, self.emit.b, self.op
        number = b.zext(b.add(self.first, unit), I64)
        inside = b.icmp_signed("<", number, I64(op.units))
        # Behind the last unit any weights do: sums of theirs are not stored.
        begin, step = self.source.place(b.select(inside, number, I64(op.units - 1)))
        within = I1(1) if sure else b.icmp_signed("<", pair, I32(self.source.words))
        here = b.zext(b.select(within, pair, I32(0)), I64)
        at = b.add(b.mul(here, I64(self.slots)), b.zext(slot, I64))
        place = emit.at(self.source.packed, b.add(begin, b.mul(at, step)))
        word = b.load(place.base, typ=I32, align=4)
        # Rows have zeros behind the depth as well: 0 times what lies there could be NaN.
        return b.select(within, word, I32(0))

    def fragment(self, lane: Lane, tile: int, depth_tile: Value, sure: bool) -> list[Value]:
        """The lane's part of a tile of A, from device memory; `sure`: as of words."""
        b = self.emit.b
        words: list[Value] = []
        for i in range(4):
            row = b.add(lane.group, I32(tile * SIDE + i % 2 * 8))
            pair = b.add(b.mul(depth_tile, I32(SIDE // 2)), b.add(lane.pair, I32(i // 2 * 4)))
            unit = b.udiv(row, I32(self.slots))
            slot = b.sub(row, b.mul(unit, I32(self.slots)))
            words.append(self.word(unit, slot, pair, sure))
        return words


class RowReader:
    """Runs of four k of a product's rows, rounded to bf16."""

    def __init__(self, emit: GpuEmit, gemm: Product) -> None:
        self.emit, self.gemm = emit, gemm

    def row(self, number: Value) -> Pointer:
        gemm = self.gemm
        return gemm.rows.at(gemm.pointers, gemm.rows.indices(number))[0]

    def four(self, row: Pointer, k: Value, whole: bool, sure: bool = False) -> list[Value]:
        """Values from the k-th on, zero behind the depth; `whole`: by one load.

        Of rows of bf16 the two words that they are.

        Args:
            sure: they are not behind it.
        """
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        depth = I32(gemm.depth)
        if row.dtype == "bf16":
            return self._words(row, k, whole, sure)
        if whole:
            inside = I1(1) if sure else b.icmp_signed("<", k, depth)
            place = emit.at(row, b.zext(b.select(inside, k, I32(0)), I64))
            four = b.load(place.base, typ=ir.VectorType(FLOAT, QUAD), align=16)
            values = [b.extract_element(four, I64(i)) for i in range(QUAD)]
            return [b.select(inside, v, ZERO) for v in values]
        loaded: list[Value] = []
        for i in range(QUAD):
            number = b.add(k, I32(i))
            inside = I1(1) if sure else b.icmp_signed("<", number, depth)
            safe = b.zext(b.select(inside, number, I32(0)), I64)
            value = emit.load(gemm.along_k(row, safe))
            loaded.append(b.select(inside, value, ZERO))
        return loaded

    def _words(self, row: Pointer, k: Value, whole: bool, sure: bool) -> list[Value]:
        """Of bf16."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        if whole:
            inside = I1(1) if sure else b.icmp_signed("<", k, I32(gemm.depth))
            place = emit.at(row, b.zext(b.select(inside, k, I32(0)), I64))
            return [b.select(inside, word, I32(0)) for word in two_words(emit, place)]
        halves: list[Value] = []
        for i in range(QUAD):
            number = b.add(k, I32(i))
            inside = I1(1) if sure else b.icmp_signed("<", number, I32(gemm.depth))
            safe = b.zext(b.select(inside, number, I32(0)), I64)
            half = b.zext(emit.load(gemm.along_k(row, safe)), I32)
            halves.append(b.select(inside, half, I32(0)))
        return joined(emit, halves)

    def store(self, values: list[Value], place: Pointer) -> None:
        """Four values, or their words, as bf16 at a multiple of 8 bytes."""
        store_words(self.emit, words_of(self.emit, values), place)


def words_of(emit: GpuEmit, values: list[Value]) -> list[Value]:
    """Four values as two words; words as they are."""
    if len(values) == 2:
        return values
    return [emit.gpu.halves(values[i], values[i + 1]) for i in (0, 2)]


def two_words(emit: GpuEmit, place: Pointer) -> list[Value]:
    """Four bf16 at a multiple of 8 bytes."""
    two = emit.b.load(place.base, typ=ir.VectorType(I32, 2), align=8)
    return [emit.b.extract_element(two, I64(i)) for i in range(2)]


def joined(emit: GpuEmit, halves: list[Value]) -> list[Value]:
    """Bits of four bf16, an i32 each, as two words."""
    b = emit.b
    return [b.or_(halves[i], b.shl(halves[i + 1], I32(16))) for i in (0, 2)]


def store_words(emit: GpuEmit, words: list[Value], place: Pointer) -> None:
    """The opposite of `two_words`."""
    emit.b.store(vector_of(emit.b, words), place.base, align=8)
