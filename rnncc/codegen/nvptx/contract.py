"""`kern.contract`: tiles of the sum in registers, k in the order that the kernel states."""

from __future__ import annotations

from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.tiles import (
    LARGE,
    QUAD,
    SIDE,
    SMALL,
    SQUARE,
    ZERO,
    Loaded,
    OperandTile,
    bytes_of,
    clamped,
    for_tiles,
    pitch_of,
    place_of,
    read_quad,
    run_of,
    with_tiles_of,
    write_quad,
)
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Contract

SHARED = max(bytes_of(LARGE, LARGE), bytes_of(SMALL, SMALL))
"""Bytes of shared memory."""


def emit_contract(
    emit: GpuEmit,
    op: Contract,
    a: Pointer,
    b: Pointer,
    out: Pointer,
    init: Pointer | None,
    first: Pointer | None,
) -> None:
    """Write a sum of outer products."""
    _ContractKernel(emit, op, a, b, out, init, first).write()


class _ContractKernel:
    def __init__(
        self,
        emit: GpuEmit,
        op: Contract,
        a: Pointer,
        b: Pointer,
        out: Pointer,
        init: Pointer | None,
        first: Pointer | None,
    ) -> None:
        self.emit, self.op, self.out, self.init = emit, op, out, init
        self.depth, self.m, self.n = (emit.dim(d) for d in op.sizes)
        of_b, (_, m, n) = bool(op.of_b), op.sizes
        self.left = _OperandRows(emit, op, a, get_access(op.a_access), m, None if of_b else first)
        self.right = _OperandRows(emit, op, b, get_access(op.b_access), n, first if of_b else None)

    def write(self) -> None:
        emit, b = self.emit, self.emit.b
        if emit.threads != SQUARE:
            emit.points(self.op.sizes[1:], self._element)
            return
        if not (self.left.by_fours and self.right.by_fours):
            self._sized(False)
            return
        with b.if_else(b.and_(self.left.aligned, self.right.aligned)) as (fours, ones):
            with fours:
                self._sized(True)
            with ones:  # rare: one size of tiles will do
                self._tiles(SMALL, False)

    def _sized(self, fours: bool) -> None:
        emit, b = self.emit, self.emit.b

        def tiles(quads: int) -> Value:
            side = I64(quads * SIDE * QUAD)
            return b.mul(emit.parts(self.m, side), emit.parts(self.n, side))

        with_tiles_of(emit, tiles, lambda quads: self._tiles(quads, fours))

    def _tiles(self, quads: int, fours: bool) -> None:
        """Tiles of so many quads a side and thread."""
        side = quads * SIDE * QUAD

        def tile(m: Value, n: Value) -> None:
            self._tile(m, n, quads, fours)

        for_tiles(self.emit, self.m, self.n, (side, side), tile)

    def _place(self, m: Value, n: Value) -> Value:
        return self.emit.b.add(self.emit.b.mul(m, self.n), n)

    def _element(self, indices: list[Value]) -> None:
        """One element, by one thread."""
        emit, b = self.emit, self.emit.b
        m, n = indices
        at = self._place(m, n)
        begin = ZERO if self.init is None else emit.load(emit.at(self.init, at))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            x, y = (
                emit.load(emit.at(side.row(i), place))
                for side, place in ((self.left, m), (self.right, n))
            )
            return [emit.math(1).fma(b, x, y, carried[0])]

        [total] = emit.loop(self.depth, iteration, [begin])
        emit.store(total, emit.at(self.out, at))

    def _tile(self, m: Value, n: Value, quads: int, fours: bool) -> None:
        emit, b = self.emit, self.emit.b
        y, x = (b.mul(place, I64(QUAD)) for place in place_of(emit))
        rows, columns = (
            [b.add(start, I64(q * SIDE * QUAD + i)) for q in range(quads) for i in range(QUAD)]
            for start in (b.add(m, y), b.add(n, x))
        )
        begin = [self._begin(row, column) for row in rows for column in columns]
        brief = not fours and self.left.by_fours and self.right.by_fours
        left, right = (
            _RowColumns(rows, first, count, quads, fours)
            for rows, first, count in ((self.left, m, self.m), (self.right, n, self.n))
        )
        sums = OperandTile(emit, left, right, self.depth, brief).sums(begin)
        places = ((row, column) for row in rows for column in columns)
        for total, (row, column) in zip(sums, places, strict=True):
            inside = b.and_(b.icmp_signed("<", row, self.m), b.icmp_signed("<", column, self.n))
            with emit.when(inside):
                emit.store(total, emit.at(self.out, self._place(row, column)))

    def _begin(self, m: Value, n: Value) -> Value:
        """What an element starts at."""
        if self.init is None:
            return ZERO
        emit = self.emit
        at = self._place(clamped(emit, m, self.m), clamped(emit, n, self.n))
        return emit.load(emit.at(self.init, at))


class _OperandRows:
    """An operand's rows, one a k; `first`: rows in front of them or behind them."""

    def __init__(
        self,
        emit: GpuEmit,
        op: Contract,
        pointer: Pointer,
        access: Access,
        width: Dim,
        first: Pointer | None,
    ) -> None:
        self.emit, self.op, self.first, self.stride = emit, op, first, access.strides[0]
        self.pointer = emit.at(pointer, emit.dim(access.offset))
        self.depth, self.width = emit.dim(op.sizes[0]), width

    @property
    def by_fours(self) -> bool:
        """Whether each row is made of fours that lie where the first row's first does, or 16 bytes
        on."""
        sizes = (self.stride, self.width)
        return all(factor % QUAD == 0 for size in sizes for _, factor in size.terms)

    @property
    def aligned(self) -> Value:
        """Whether the first row's first four lies at a multiple of 16 bytes."""
        places = [self.pointer, *([] if self.first is None else [self.first])]
        return self.emit.aligned(*places)

    def row(self, i: Value) -> Pointer:
        """The i-th row in the order of the sum."""
        emit, b, op = self.emit, self.emit.b, self.op
        k = b.sub(b.sub(self.depth, I64(1)), i) if bool(op.reverse) else i
        if self.first is None:
            return emit.along(self.pointer, [self.stride], [k])
        shift = emit.dim(op.shifted_by)
        if bool(op.late):
            kept = b.sub(self.depth, shift)
            own, number = b.icmp_signed("<", k, kept), b.sub(k, kept)
            inside = b.add(k, shift)
        else:
            own, number = b.icmp_signed(">=", k, shift), k
            inside = b.sub(k, shift)
        row = emit.along(self.pointer, [self.stride], [inside])
        other = emit.along(self.first, [self.width], [number])
        return Pointer(b.select(own, row.base, other.base), row.dtype)


class _RowColumns:
    """Some columns of an operand's rows: a thread reads fours of neighbours, of some k.

    Args:
        fours: whether all of these lie at multiples of 16 bytes.
    """

    def __init__(
        self, rows: _OperandRows, first: Value, count: Value, quads: int, fours: bool
    ) -> None:
        self.rows, self.first, self.count, self.emit = rows, first, count, rows.emit
        self.quads, self.fours, self.run = quads, fours, run_of(quads, quads)
        b, thread = self.emit.b, self.emit.thread64
        # In the order of numbers, so that neighbours copy neighbours.
        row, x = b.lshr(thread, I64(4)), b.and_(thread, I64(SIDE - 1))
        self.lines = [b.add(row, I64(start)) for start in range(0, self.run, SIDE)]
        self.places = [b.add(b.mul(x, I64(QUAD)), I64(q * SIDE * QUAD)) for q in range(quads)]

    def load(self, k: Value) -> Loaded:
        emit, b = self.emit, self.emit.b
        # Behind the depth or the last column something is read that no stored sum takes in.
        values: Loaded = []
        for line in self.lines:
            row = self.rows.row(clamped(emit, b.add(k, line), self.rows.depth))
            for place in self.places:
                values += self._four(row, b.add(self.first, place))
        return values

    def _four(self, row: Pointer, first: Value) -> Loaded:
        emit, b = self.emit, self.emit.b
        if self.fours:
            last = b.sub(self.count, I64(QUAD))
            inside = b.icmp_signed("<", first, last)
            return read_quad(emit, emit.at(row, b.select(inside, first, last)))
        numbers = [clamped(emit, b.add(first, I64(i)), self.count) for i in range(QUAD)]
        return [emit.load(emit.at(row, number)) for number in numbers]

    def store(self, loaded: Loaded, place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        values = iter(loaded)
        for number in self.lines:
            line = b.mul(number, I64(pitch_of(self.quads)))
            for at in self.places:
                four = [next(values) for _ in range(QUAD)]
                write_quad(emit, four, emit.at(place, b.add(line, at)))
