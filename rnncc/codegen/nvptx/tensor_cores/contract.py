"""`kern.contract` of bf16: weights' gradients by tensor cores.

Runs of k of both operands are copied into shared memory, some of them on their way while one is
multiplied; sums of a tile stay in registers. k is cut into parts, whose number depends on the
sizes of the result alone, and whose length on the depth alone:

    rows of a and b -> shared memory -> sums in registers -> scratch -> out

A part's sum is one chain, k from its first up, sixteen at a time; the parts' sums are added in
order to what the kernel starts at. So no bit depends on how many blocks there are.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I1, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import COLUMNS, PADDING, QUAD, SIDE, Lane
from rnncc.codegen.nvptx.limits import contract_tile, parts_of
from rnncc.codegen.nvptx.tensor_cores.copies import LINE, PIECE, RUN, STAGES, WarpPart, summed
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Contract
from rnncc.records import record

AHEAD = 8
"""Runs that the second-level cache is asked for ahead of the copies."""


def shared_bytes(op: Contract) -> int:
    """Of shared memory."""
    return sum(STAGES * 2 * RUN * (side + PADDING) for side in contract_tile(_sizes(op)[1]))


def _sizes(op: Contract) -> tuple[int, int]:
    """Of the result."""
    _, rows, columns = op.sizes
    return int(rows), int(columns)


@record
class Operands:
    """What such a sum reads and writes; rows of a and b begin at multiples of 16 bytes."""

    a: Pointer
    b: Pointer
    out: Pointer
    scratch: Pointer
    init: Pointer | None


def emit_rounded(emit: GpuEmit, op: Contract, operands: Operands) -> None:
    """Write a sum of outer products of rows of bf16."""
    _Rounded(emit, op, operands).write()


class _Rounded:
    def __init__(self, emit: GpuEmit, op: Contract, operands: Operands) -> None:
        self.emit, self.operands = emit, operands
        self.m, self.n = _sizes(op)
        self.parts, self.tile = parts_of(self.m, self.n), contract_tile(self.n)
        b = emit.b
        self.depth = emit.dim(op.sizes[0])
        # Whole runs, so that no run is of two parts.
        runs = emit.parts(emit.parts(self.depth, I64(RUN)), I64(self.parts))
        self.length = b.mul(runs, I64(RUN))
        some = b.select(b.icmp_signed(">", self.length, I64(0)), self.length, I64(1))
        self.used = emit.parts(self.depth, some)
        self.rows = [
            _TensorOperand(emit, operands.a, get_access(op.a_access), self.m),
            _TensorOperand(emit, operands.b, get_access(op.b_access), self.n),
        ]

    def write(self) -> None:
        emit, b = self.emit, self.emit.b
        down, across = (-(-n // side) for n, side in zip((self.m, self.n), self.tile, strict=True))
        count = self.used if self.parts > 1 else I64(1)

        def item(number: Value) -> None:
            part, place = b.sdiv(number, I64(down * across)), b.srem(number, I64(down * across))
            m, n = b.sdiv(place, I64(across)), b.srem(place, I64(across))
            starts = b.mul(m, I64(self.tile[0])), b.mul(n, I64(self.tile[1]))
            begin = b.mul(part, self.length)
            end = b.add(begin, self.length)
            end = b.select(b.icmp_signed("<", end, self.depth), end, self.depth)
            _ContractTile(self, starts, begin, end).write(part)

        emit.for_each_by_blocks(b.mul(count, I64(down * across)), item)
        if self.parts > 1:
            emit.together()
            self._add_parts()

    def _add_parts(self) -> None:
        """All elements of the result, by fours where these lie at multiples of 16 bytes."""
        emit, b, operands = self.emit, self.emit.b, self.operands
        size = self.m * self.n
        pointers = [
            operands.out,
            operands.scratch,
            *([] if operands.init is None else [operands.init]),
        ]
        aligned = emit.aligned(*pointers)
        with b.if_else(aligned if size % QUAD == 0 else I1(0)) as (fours, ones):
            with fours:
                emit.for_each(I64(size // QUAD), lambda i: self._add(b.mul(i, I64(QUAD)), QUAD))
            with ones:
                emit.for_each(I64(size), lambda i: self._add(i, 1))

    def _add(self, element: Value, count: int) -> None:
        """Neighbouring elements. All parts are read before any is added: there is no time to lose
        between one read and the next."""
        emit, b, operands = self.emit, self.emit.b, self.operands
        type_ = FLOAT if count == 1 else ir.VectorType(FLOAT, count)
        zero = ir.Constant(type_, 0.0 if count == 1 else None)

        def read(pointer: Pointer, at: Value) -> Value:
            return b.load(emit.at(pointer, at).base, typ=type_, align=4 * count)

        total = zero if operands.init is None else read(operands.init, element)
        parts: list[tuple[Value, Value]] = []
        for i in range(self.parts):
            has_part = b.icmp_signed("<", I64(i), self.used)
            at = b.add(b.select(has_part, I64(i * self.m * self.n), I64(0)), element)
            parts.append((has_part, read(operands.scratch, at)))
        for has_part, part in parts:
            total = b.select(has_part, b.fadd(total, part), total)
        b.store(total, emit.at(operands.out, element).base, align=4 * count)

    def keep(self, part: Value, m: Value, n: Value, value: Value) -> None:
        """A sum of a part, if the element is there."""
        emit, b, operands = self.emit, self.emit.b, self.operands
        inside = b.and_(b.icmp_signed("<", m, I64(self.m)), b.icmp_signed("<", n, I64(self.n)))
        with emit.when(inside):
            at = b.add(b.mul(m, I64(self.n)), n)
            if self.parts > 1:
                first = b.mul(part, I64(self.m * self.n))
                emit.store(value, emit.at(operands.scratch, b.add(first, at)))
                return
            if operands.init is not None:
                value = b.fadd(emit.load(emit.at(operands.init, at)), value)
            emit.store(value, emit.at(operands.out, at))


class _TensorOperand:
    """An operand: rows of `width` elements, one a k."""

    def __init__(self, emit: GpuEmit, pointer: Pointer, access: Access, width: int) -> None:
        self.emit, self.width = emit, width
        self.first = emit.at(pointer, emit.dim(access.offset))
        self.stride = emit.dim(access.strides[0])


class _ContractTile:
    """A tile's sums over the k from `begin` up to `end`."""

    def __init__(
        self, code: _Rounded, starts: tuple[Value, Value], begin: Value, end: Value
    ) -> None:
        self.code, self.emit, self.starts = code, code.emit, starts
        self.begin, self.end = begin, end
        self.lane = Lane(self.emit)
        self.warp = WarpPart.of(self.emit, self.lane, *code.tile)
        self.sides = [
            _Side(self, rows, start, size)
            for rows, start, size in zip(code.rows, starts, code.tile, strict=True)
        ]

    def write(self, part: Value) -> None:
        emit = self.emit
        runs = emit.parts(emit.b.sub(self.end, self.begin), I64(RUN))
        sums = summed(emit, runs, self.warp.zeros, self._copy, self._multiply)
        self._keep(part, sums)

    def _copy(self, run: Value, stage: Value) -> None:
        """Begin to copy a run; zeros behind the last k."""
        k = self.emit.b.mul(run, I64(RUN))
        for side, place in zip(self.sides, self._stage(stage), strict=True):
            side.copy(k, place)
        self.emit.gpu.end_copies()

    def _stage(self, number: Value) -> list[Pointer]:
        """Where both operands of a run lie."""
        emit, b = self.emit, self.emit.b
        left, right = (RUN * side.pitch for side in self.sides)
        start = b.zext(b.mul(number, I32(left + right)), I64)
        first = emit.at(Pointer(emit.gpu.shared(), "bf16"), start)
        return [first, emit.at(first, I64(left))]

    def _multiply(self, stage: Value, sums: list[Value]) -> list[Value]:
        """All k of a run. Both operands lie with k along the rows, and are turned as they come."""
        emit, b, lane = self.emit, self.emit.b, self.lane
        left, right = self._stage(stage)
        pitches = [side.pitch for side in self.sides]
        row, matrix = b.and_(lane.number, I32(7)), b.lshr(lane.number, I32(3))
        odd, high = b.and_(matrix, I32(1)), b.lshr(matrix, I32(1))
        # of a: 8 k by 16 rows of the result, then the next 8 k
        k, place = b.add(row, b.shl(high, I32(3))), b.shl(odd, I32(3))
        place = b.add(place, b.mul(self.warp.across, I32(self.warp.tiles * SIDE)))
        left = emit.at(left, b.zext(b.add(b.mul(k, I32(pitches[0])), place), I64))
        # of b: 16 k by 8 columns, then the next 8 columns
        k, place = b.add(row, b.shl(odd, I32(3))), b.shl(high, I32(3))
        place = b.add(place, b.mul(self.warp.down, I32(self.warp.columns * COLUMNS)))
        right = emit.at(right, b.zext(b.add(b.mul(k, I32(pitches[1])), place), I64))
        sums = list(sums)
        for step in range(RUN // SIDE):
            columns: list[Value] = []
            for n in range(self.warp.columns // 2):
                at = I64(step * SIDE * pitches[1] + n * 2 * COLUMNS)
                columns += emit.gpu.matrices(emit.at(right, at).base, 4, turned=True)
            for m in range(self.warp.tiles):
                at = I64(step * SIDE * pitches[0] + m * SIDE)
                a = emit.gpu.matrices(emit.at(left, at).base, 4, turned=True)
                for n in range(self.warp.columns):
                    i = 4 * (m * self.warp.columns + n)
                    pair = columns[2 * n : 2 * n + 2]
                    sums[i : i + 4] = emit.gpu.multiply(a, pair, sums[i : i + 4])
        return sums

    def _keep(self, part: Value, sums: list[Value]) -> None:
        b, lane = self.emit.b, self.lane
        row = b.add(b.mul(self.warp.across, I32(self.warp.tiles * SIDE)), lane.group)
        column = b.add(
            b.mul(self.warp.down, I32(self.warp.columns * COLUMNS)), b.shl(lane.pair, I32(1))
        )
        m0, n0 = (
            b.add(start, b.zext(v, I64))
            for start, v in zip(self.starts, (row, column), strict=True)
        )
        for i, value in enumerate(sums):
            tile, number = divmod(i, 4)
            m, n = divmod(tile, self.warp.columns)
            down, right = m * SIDE + number // 2 * 8, n * COLUMNS + number % 2
            self.code.keep(part, b.add(m0, I64(down)), b.add(n0, I64(right)), value)


class _Side:
    """Some columns of an operand's rows: a thread copies the same pieces of each run."""

    def __init__(self, tile: _ContractTile, rows: _TensorOperand, first: Value, size: int) -> None:
        self.emit, self.rows = tile.emit, rows
        self.pitch = size + PADDING
        emit, b, pieces = self.emit, self.emit.b, size // PIECE
        self.count = b.sub(tile.end, tile.begin)
        begin = emit.at(rows.first, b.mul(tile.begin, rows.stride))
        self.pieces: list[tuple[Value, Pointer, Value, Value]] = []
        for i in range(max(1, RUN * pieces // emit.threads)):
            number = b.add(emit.thread, I32(i * emit.threads))
            k, at = b.udiv(number, I32(pieces)), b.mul(b.urem(number, I32(pieces)), I32(PIECE))
            column = b.add(first, b.zext(at, I64))
            size_of, known = self._known(column)
            row = emit.at(begin, b.mul(b.zext(k, I64), rows.stride))
            place = b.add(b.mul(k, I32(self.pitch)), at)
            self.pieces.append((b.zext(k, I64), emit.at(row, known), size_of, place))

    def _known(self, column: Value) -> tuple[Value, Value]:
        """How many bytes of a piece are there, and a column that is."""
        b, width = self.emit.b, self.rows.width
        inside = b.icmp_signed("<", column, I64(width))
        safe = b.select(inside, column, I64(0))
        rest = b.sub(I64(width), safe)
        some = b.select(b.icmp_signed("<", rest, I64(PIECE)), rest, I64(PIECE))
        size = b.select(inside, b.trunc(b.shl(some, I64(1)), I32), I32(0))
        return size, safe

    def copy(self, first: Value, stage: Pointer) -> None:
        """Begin to copy the run from the first k on, counted from the part's."""
        emit, b = self.emit, self.emit.b
        offset = b.mul(first, self.rows.stride)
        for k, source, size, place in self.pieces:
            inside = b.icmp_signed("<", b.add(first, k), self.count)
            # Nothing is read where nothing is to be copied, but the address is to be one.
            here = emit.at(source, offset).base
            here = b.select(inside, here, self.rows.first.base)
            target = emit.at(stage, b.zext(place, I64))
            emit.gpu.copy_ahead(target.base, here, b.select(inside, size, I32(0)))
            self._fetch(b.add(first, k), source, offset, size)

    def _fetch(self, k: Value, source: Pointer, offset: Value, size: Value) -> None:
        """Let the cache fetch a run much further on: all blocks come to it at about the same time.

        One thread for each line of the cache that it reads.
        """
        emit, b = self.emit, self.emit.b
        later = b.add(offset, b.mul(I64(AHEAD * RUN), self.rows.stride))
        place = emit.at(source, later).base
        leads = b.icmp_unsigned("==", b.and_(emit.thread, I32(LINE // PIECE - 1)), I32(0))
        inside = b.icmp_signed("<", b.add(k, I64(AHEAD * RUN)), self.count)
        some = b.and_(inside, b.icmp_unsigned(">", size, I32(0)))
        with emit.when(b.and_(leads, some)):
            emit.gpu.fetch_ahead(place)
