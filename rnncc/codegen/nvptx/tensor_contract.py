"""`kern.contract` with rounded operands: weights' gradients by tensor cores.

Runs of k of both operands go through shared memory as bf16, the next on its way while one is
multiplied; sums of a tile stay in registers. k is cut into parts, whose number depends on the
sizes of the result alone, and whose length on the depth alone:

    rows of a and b -> registers -> bf16 in shared memory -> sums in registers -> scratch -> out

A part's sum is one chain, k from its first up, sixteen at a time; the parts' sums are added in
order to what the kernel starts at. So no bit depends on how many blocks there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import (
    COLUMNS,
    PADDING,
    QUAD,
    SIDE,
    ZERO,
    Lane,
    joined,
    store_words,
    two_words,
    words_of,
)
from rnncc.codegen.nvptx.limits import WARP, contract_tile, parts_of
from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Contract

RUN = 32
"""k at a time."""
ACROSS = 2
"""Warps along the rows of a tile."""


def shared_bytes(op: Contract) -> int:
    """Of shared memory: two buffers of bf16, one being filled while the other is multiplied."""
    return sum(2 * 2 * RUN * (side + PADDING) for side in contract_tile(_sizes(op)[1]))


def _sizes(op: Contract) -> tuple[int, int]:
    """Of the result."""
    _, rows, columns = op.sizes
    return int(rows), int(columns)


@dataclass(frozen=True)
class Operands:
    """What a rounded sum reads and writes."""

    a: Pointer
    b: Pointer
    out: Pointer
    scratch: Pointer
    init: Pointer | None
    first: Pointer | None


def emit_rounded(emit: GpuEmit, op: Contract, given: Operands) -> None:
    """Write a sum of outer products of rounded rows."""
    _Rounded(emit, op, given).write()


class _Rounded:
    def __init__(self, emit: GpuEmit, op: Contract, given: Operands) -> None:
        self.emit, self.op, self.given = emit, op, given
        self.m, self.n = _sizes(op)
        self.parts, self.tile = parts_of(self.m, self.n), contract_tile(self.n)
        b = emit.b
        self.depth = emit.dim(op.sizes[0])
        # Whole runs, so that no run is of two parts.
        runs = emit.parts(emit.parts(self.depth, I64(RUN)), I64(self.parts))
        self.length = b.mul(runs, I64(RUN))
        some = b.select(b.icmp_signed(">", self.length, I64(0)), self.length, I64(1))
        self.used = emit.parts(self.depth, some)

    def write(self) -> None:
        emit, b = self.emit, self.emit.b
        down, across = (-(-n // side) for n, side in zip((self.m, self.n), self.tile, strict=True))
        rows = self._operands()
        count = self.used if self.parts > 1 else I64(1)
        block, blocks = b.zext(emit.block, I64), b.zext(emit.blocks, I64)

        def item(number: Value) -> None:
            part, place = b.sdiv(number, I64(down * across)), b.srem(number, I64(down * across))
            m, n = b.sdiv(place, I64(across)), b.srem(place, I64(across))
            starts = b.mul(m, I64(self.tile[0])), b.mul(n, I64(self.tile[1]))
            by_fours = [side.by_fours for side in rows]
            with b.if_else(reduce(b.and_, by_fours)) as (fours, ones):
                with fours:
                    self._item(rows, part, starts, True)
                with ones:
                    self._item(rows, part, starts, False)

        emit.strided(block, b.mul(count, I64(down * across)), blocks, item)
        if self.parts > 1:
            emit.together()
            emit.for_each(I64(self.m * self.n), self._add_parts)

    def _operands(self) -> list[_Rows]:
        op, given = self.op, self.given
        of_b = bool(op.of_b)
        return [
            _Rows(self, given.a, get_access(op.a_access), None if of_b else given.first, self.m),
            _Rows(self, given.b, get_access(op.b_access), given.first if of_b else None, self.n),
        ]

    def _item(
        self, rows: list[_Rows], part: Value, starts: tuple[Value, Value], fours: bool
    ) -> None:
        """One tile of one part."""
        b = self.emit.b
        begin = b.mul(part, self.length)
        end = b.add(begin, self.length)
        end = b.select(b.icmp_signed("<", end, self.depth), end, self.depth)
        sums = _Tile(self, rows, starts, begin, end, fours)
        sums.write(part)

    def _add_parts(self, element: Value) -> None:
        """One element of the result."""
        emit, b, given = self.emit, self.emit.b, self.given
        begin = ZERO if given.init is None else emit.load(emit.at(given.init, element))

        def part(i: Value, total: list[Value]) -> list[Value]:
            at = b.add(b.mul(i, I64(self.m * self.n)), element)
            return [b.fadd(total[0], emit.load(emit.at(given.scratch, at)))]

        [total] = emit.loop(self.used, part, [begin])
        emit.store(total, emit.at(given.out, element))

    def keep(self, part: Value, m: Value, n: Value, value: Value) -> None:
        """A sum of a part, if the element is there."""
        emit, b, given = self.emit, self.emit.b, self.given
        inside = b.and_(b.icmp_signed("<", m, I64(self.m)), b.icmp_signed("<", n, I64(self.n)))
        with emit.when(inside):
            at = b.add(b.mul(m, I64(self.n)), n)
            if self.parts > 1:
                first = b.mul(part, I64(self.m * self.n))
                emit.store(value, emit.at(given.scratch, b.add(first, at)))
                return
            if given.init is not None:
                value = b.fadd(emit.load(emit.at(given.init, at)), value)
            emit.store(value, emit.at(given.out, at))


class _Rows:
    """An operand's rows, one a k; `first`: rows in front of them or behind them.

    Attributes:
        by_fours: whether fours of a row's elements lie at multiples of their size, in all rows.
    """

    def __init__(
        self, code: _Rounded, pointer: Pointer, access: Access, first: Pointer | None, width: int
    ) -> None:
        self.emit, self.op, self.first, self.width = code.emit, code.op, first, width
        self.depth, self.stride = code.depth, access.strides[0]
        self.pointer = self.emit.at(pointer, self.emit.dim(access.offset))
        self.by_fours = self._by_fours()

    def _by_fours(self) -> Value:
        b = self.emit.b
        strides = [self.stride, *([] if self.first is None else [Dim.of(self.width)])]
        whole = all(factor % QUAD == 0 for stride in strides for _, factor in stride.terms)
        if not whole or self.width % QUAD:
            return ir.Constant(ir.IntType(1), 0)
        pointers = [self.pointer, *([] if self.first is None else [self.first])]
        bits = reduce(b.or_, [b.ptrtoint(p.base, I64) for p in pointers])
        size = ITEM_BYTES[self.pointer.dtype] * QUAD
        return b.icmp_unsigned("==", b.and_(bits, I64(size - 1)), I64(0))

    def row(self, k: Value) -> Pointer:
        emit, b, op = self.emit, self.emit.b, self.op
        if self.first is None:
            return emit.along(self.pointer, [self.stride], [k])
        shift = emit.dim(op.shifted_by)
        if bool(op.late):
            kept = b.sub(self.depth, shift)
            own, number, inside = b.icmp_signed("<", k, kept), b.sub(k, kept), b.add(k, shift)
        else:
            own, number, inside = b.icmp_signed(">=", k, shift), k, b.sub(k, shift)
        row = emit.along(self.pointer, [self.stride], [inside])
        other = emit.along(self.first, [Dim.of(self.width)], [number])
        return Pointer(b.select(own, row.base, other.base), row.dtype)


class _Tile:
    """A tile's sums over the k from `begin` up to `end`; `fours`: by loads of four elements."""

    def __init__(
        self,
        code: _Rounded,
        rows: list[_Rows],
        starts: tuple[Value, Value],
        begin: Value,
        end: Value,
        fours: bool,
    ) -> None:
        self.code, self.emit, self.starts = code, code.emit, starts
        self.begin, self.end = begin, end
        self.lane = Lane(self.emit)
        height, width = code.tile
        warps = self.emit.threads // WARP
        across = min(ACROSS, warps)
        self.tiles = height // SIDE // across
        self.columns = width // COLUMNS // (warps // across)
        b = self.emit.b
        self.down = b.and_(self.lane.warp, I32(across - 1))
        self.right = b.lshr(self.lane.warp, I32(across.bit_length() - 1))
        self.sides = [
            _Side(self, side, start, size, fours)
            for side, start, size in zip(rows, starts, code.tile, strict=True)
        ]

    def write(self, part: Value) -> None:
        emit, b = self.emit, self.emit.b
        count = emit.parts(b.sub(self.end, self.begin), I64(RUN))
        emit.gpu.block_wait()  # until nobody reads what lies in shared memory
        with emit.when(b.icmp_signed(">", count, I64(0))):  # there may be no k to read
            self._store(self._load(self.begin), I32(0))
        emit.gpu.block_wait()

        def iteration(i: Value, sums: list[Value]) -> list[Value]:
            number = b.and_(b.trunc(i, I32), I32(1))
            # Behind the last run nothing is added: its rows are read as the last one's.
            ahead = self._load(b.add(self.begin, b.mul(b.add(i, I64(1)), I64(RUN))))
            sums = self._multiply(number, sums)
            self._store(ahead, b.xor(number, I32(1)))
            emit.gpu.block_wait()
            return sums

        sums = emit.loop(count, iteration, [ZERO] * (4 * self.tiles * self.columns))
        self._keep(part, sums)

    def _load(self, k: Value) -> list[list[Value]]:
        return [side.load(k) for side in self.sides]

    def _store(self, loaded: list[list[Value]], buffer: Value) -> None:
        for side, words, place in zip(self.sides, loaded, self._buffers(buffer), strict=True):
            side.store(words, place)

    def _buffers(self, number: Value) -> list[Pointer]:
        """Where both operands lie, in one of two buffers."""
        emit, b = self.emit, self.emit.b
        left, right = (RUN * side.pitch for side in self.sides)
        start = b.zext(b.mul(number, I32(left + right)), I64)
        first = emit.at(Pointer(emit.gpu.shared(), "bf16"), start)
        return [first, emit.at(first, I64(left))]

    def _multiply(self, buffer: Value, sums: list[Value]) -> list[Value]:
        """All k of a run. Both operands lie with k along the rows, and are turned as they come."""
        emit, b, lane = self.emit, self.emit.b, self.lane
        left, right = self._buffers(buffer)
        pitches = [side.pitch for side in self.sides]
        row, matrix = b.and_(lane.number, I32(7)), b.lshr(lane.number, I32(3))
        odd, high = b.and_(matrix, I32(1)), b.lshr(matrix, I32(1))
        # of a: 8 k by 16 rows of the result, then the next 8 k
        k, place = b.add(row, b.shl(high, I32(3))), b.shl(odd, I32(3))
        place = b.add(place, b.mul(self.down, I32(self.tiles * SIDE)))
        left = emit.at(left, b.zext(b.add(b.mul(k, I32(pitches[0])), place), I64))
        # of b: 16 k by 8 columns, then the next 8 columns
        k, place = b.add(row, b.shl(odd, I32(3))), b.shl(high, I32(3))
        place = b.add(place, b.mul(self.right, I32(self.columns * COLUMNS)))
        right = emit.at(right, b.zext(b.add(b.mul(k, I32(pitches[1])), place), I64))
        sums = list(sums)
        for step in range(RUN // SIDE):
            columns: list[Value] = []
            for n in range(self.columns // 2):
                at = I64(step * SIDE * pitches[1] + n * 2 * COLUMNS)
                columns += emit.gpu.matrices(emit.at(right, at).base, 4, turned=True)
            for m in range(self.tiles):
                at = I64(step * SIDE * pitches[0] + m * SIDE)
                a = emit.gpu.matrices(emit.at(left, at).base, 4, turned=True)
                for n in range(self.columns):
                    i = 4 * (m * self.columns + n)
                    pair = columns[2 * n : 2 * n + 2]
                    sums[i : i + 4] = emit.gpu.multiply(a, pair, sums[i : i + 4])
        return sums

    def _keep(self, part: Value, sums: list[Value]) -> None:
        b, lane = self.emit.b, self.lane
        row = b.add(b.mul(self.down, I32(self.tiles * SIDE)), lane.group)
        column = b.add(b.mul(self.right, I32(self.columns * COLUMNS)), b.shl(lane.pair, I32(1)))
        m0, n0 = (
            b.add(start, b.zext(v, I64))
            for start, v in zip(self.starts, (row, column), strict=True)
        )
        for i, value in enumerate(sums):
            tile, number = divmod(i, 4)
            m, n = divmod(tile, self.columns)
            down, right = m * SIDE + number // 2 * 8, n * COLUMNS + number % 2
            self.code.keep(part, b.add(m0, I64(down)), b.add(n0, I64(right)), value)


class _Side:
    """Some columns of an operand's rows: a thread reads fours of neighbours of some k of a run."""

    def __init__(self, tile: _Tile, rows: _Rows, first: Value, size: int, fours: bool) -> None:
        self.tile, self.emit, self.rows, self.fours = tile, tile.emit, rows, fours
        self.pitch = size + PADDING
        b, threads, quads = self.emit.b, self.emit.threads, size // QUAD
        self.runs = max(1, RUN * quads // threads)
        at = [b.add(self.emit.thread, I32(i * threads)) for i in range(self.runs)]
        self.k = [b.udiv(number, I32(quads)) for number in at]
        self.places = [b.shl(b.urem(number, I32(quads)), I32(2)) for number in at]
        self.first = first

    def load(self, k: Value) -> list[Value]:
        """The words of this thread's fours of the run from the k-th on, zero behind the end."""
        b, last = self.emit.b, self.emit.b.sub(self.tile.end, I64(1))
        fours: list[tuple[Value, list[Value]]] = []
        for own, place in zip(self.k, self.places, strict=True):
            number = b.add(k, b.zext(own, I64))
            inside = b.icmp_signed("<=", number, last)
            row = self.rows.row(b.select(inside, number, last))
            fours.append((inside, self._four(row, b.add(self.first, b.zext(place, I64)))))
        words: list[Value] = []
        for inside, four in fours:
            words += [b.select(inside, word, I32(0)) for word in words_of(self.emit, four)]
        return words

    def _four(self, row: Pointer, column: Value) -> list[Value]:
        """Four neighbours, or their two words.

        Behind the last column something is read that no stored sum takes in.
        """
        emit, b, width = self.emit, self.emit.b, self.rows.width
        if self.fours:
            known = b.icmp_signed("<", column, I64(width))
            place = emit.at(row, b.select(known, column, I64(0)))
            if row.dtype == "bf16":
                return two_words(emit, place)
            four = b.load(place.base, typ=ir.VectorType(FLOAT, QUAD), align=4 * QUAD)
            return [b.extract_element(four, I64(i)) for i in range(QUAD)]
        values: list[Value] = []
        for i in range(QUAD):
            number = b.add(column, I64(i))
            known = b.icmp_signed("<", number, I64(width))
            values.append(emit.load(emit.at(row, b.select(known, number, I64(width - 1)))))
        if row.dtype == "bf16":
            return joined(emit, [b.zext(value, I32) for value in values])
        return values

    def store(self, words: list[Value], place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        for i, (k, column) in enumerate(zip(self.k, self.places, strict=True)):
            at = b.add(b.mul(k, I32(self.pitch)), column)
            store_words(emit, words[2 * i :][:2], emit.at(place, b.zext(at, I64)))
