"""Products over many rows, tile by tile: see `rnncc.codegen.nvptx.tiles`.

A tile has 128 rows, and as many units as make about 128 columns with their slots; or half as many
of both, where such tiles keep more of the grid busy. Its sums go through shared memory to threads
that each run the kernel's body for some points of it.
"""

from __future__ import annotations

from contextlib import nullcontext

from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.gemm import Product
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
from rnncc.records import record

PART = SIDE * QUAD
"""Rows of a quad."""
LEAST_ROWS = 8
"""Fewer are left to the plain code, one unit and row a thread."""
MOST_SLOTS = 8
SHARED = max(bytes_of(LARGE, LARGE), bytes_of(SMALL, SMALL), 4 * PART * (SIDE * MOST_SLOTS + QUAD))
"""Bytes of shared memory."""


def suits(gemm: Product, threads: int) -> bool:
    """Whether there are tiles for a product."""
    return threads == SQUARE and gemm.slots <= MOST_SLOTS and gemm.weights.packed.dtype == "f32"


def write_bulk(emit: GpuEmit, gemm: Product) -> None:
    """The product in tiles, if it has rows enough."""
    b = emit.b
    many = b.icmp_signed(">=", gemm.rows.count, I64(LEAST_ROWS))
    with b.if_else(many) as (tiles, plain):
        with tiles:
            _write_many(emit, gemm)
        with plain:
            gemm.write()


def _write_many(emit: GpuEmit, gemm: Product) -> None:
    """In tiles, which are read by fours where something can be and a call's memory allows it."""
    if not gemm.is_dense and not _by_fours(gemm):
        _write_tiles(emit, gemm, False)
        return
    with emit.b.if_else(_aligned(gemm)) as (fours, ones):
        with fours:
            _write_tiles(emit, gemm, True)
        with ones:  # rare: one size of tiles will do
            _write_tiles_of(emit, gemm, False, SMALL, brief=True)


def _by_fours(gemm: Product) -> bool:
    """Whether the weights of four neighbouring units lie side by side, from a multiple of four."""
    whole = gemm.units % QUAD == 0 and gemm.op.panel.data % QUAD == 0
    return whole and gemm.weights.group == 1


def _aligned(gemm: Product) -> Value:
    """Whether whatever is read by fours begins at a multiple of 16 bytes.

    A caller's rows need not, nor weights that a call has packed into its workspace.
    """
    read = gemm.pointers[:1] if gemm.is_dense else []
    return gemm.aligned(*read, *([gemm.weights.packed] if _by_fours(gemm) else []))


def _write_tiles(emit: GpuEmit, gemm: Product, fours: bool) -> None:
    """`fours`: whether all that may be read by fours begins at a multiple of 16 bytes."""
    b = emit.b

    def tiles(quads: int) -> Value:
        across = -(-gemm.units // _Units(emit, gemm, fours, quads).count)
        return b.mul(emit.parts(gemm.rows.count, I64(quads * PART)), I64(across))

    with_tiles_of(emit, tiles, lambda quads: _write_tiles_of(emit, gemm, fours, quads))


def _write_tiles_of(
    emit: GpuEmit, gemm: Product, fours: bool, quads: int, brief: bool = False
) -> None:
    units = _Units(emit, gemm, fours, quads)
    sizes = quads * PART, units.count

    def tile(row: Value, unit: Value) -> None:
        units.first = unit
        left = _LeftRows(emit, gemm, row, fours and gemm.is_dense, quads, units.run)
        work = OperandTile(emit, left, units, I64(gemm.depth), brief)
        sums = work.sums([ZERO] * (work.rows * work.columns))
        _finish(emit, gemm, units, row, sums)

    for_tiles(emit, gemm.rows.count, I64(gemm.units), sizes, tile)


class _LeftRows:
    """Rows of the left operand: a thread reads some neighbouring k of one of them.

    Args:
        fours: whether four of them lie side by side at a multiple of 16 bytes.
    """

    def __init__(
        self, emit: GpuEmit, gemm: Product, first: Value, fours: bool, quads: int, run: int
    ) -> None:
        self.emit, self.gemm, self.fours = emit, gemm, fours
        self.quads, self.run = quads, run
        b, rows = emit.b, quads * PART
        self.per_thread = run * rows // SQUARE
        self.place = b.and_(emit.thread64, I64(rows - 1))
        self.part = b.lshr(emit.thread64, I64(rows.bit_length() - 1))
        # Behind the last row that one is read once more: nobody stores such sums.
        number = clamped(emit, b.add(first, self.place), gemm.rows.count)
        self.row = gemm.rows.at(gemm.pointers[:1], gemm.rows.indices(number))[0]

    def load(self, k: Value) -> Loaded:
        emit, b, depth = self.emit, self.emit.b, self.gemm.depth
        first = b.add(k, b.mul(self.part, I64(self.per_thread)))
        if not self.fours:
            numbers = [
                clamped(emit, b.add(first, I64(i)), I64(depth)) for i in range(self.per_thread)
            ]
            return [emit.load(self.gemm.along_k(self.row, n)) for n in numbers]
        values: Loaded = []
        for i in range(0, self.per_thread, QUAD):
            at = b.add(first, I64(i))
            inside = b.icmp_signed("<", at, I64(depth))
            # Behind the depth the last four are read once more: no sum takes them in.
            at = b.select(inside, at, I64(depth - QUAD))
            values += read_quad(emit, self.gemm.along_k(self.row, at))
        return values

    def store(self, loaded: Loaded, place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        first = b.mul(self.part, I64(self.per_thread))
        for i, value in enumerate(loaded):
            line = b.mul(b.add(first, I64(i)), I64(pitch_of(self.quads)))
            emit.store(value, emit.at(place, b.add(line, self.place)))


class _Units:
    """Weights of some units from `first` on; a thread's quads hold all slots of its units.

    Args:
        left: quads of the other operand.

    Attributes:
        count: units of a tile.
    """

    def __init__(self, emit: GpuEmit, gemm: Product, fours: bool, left: int) -> None:
        self.emit, self.gemm, self.fours = emit, gemm, fours
        self.slots = gemm.slots
        self.per_quad = max(1, QUAD // self.slots)
        self.quads = left if self.slots <= QUAD else -(-self.slots // QUAD)
        self.per_thread = self.per_quad * left if self.slots <= QUAD else 1
        self.run = run_of(left, self.quads)
        self.count = SIDE * self.per_thread
        self.first: Value = I64(0)

    def column(self, unit: int, slot: int) -> int:
        """The place among a thread's columns."""
        if self.slots > QUAD:
            return slot
        quad, within = divmod(unit, self.per_quad)
        return quad * QUAD + within * self.slots + slot

    def unit(self, x: Value, number: int) -> Value:
        """Which of the tile's units is a thread's, from 0 up."""
        b = self.emit.b
        quad, within = divmod(number, self.per_quad)
        place = b.add(b.mul(x, I64(self.per_quad)), I64(within))
        return b.add(place, I64(quad * SIDE * self.per_quad))

    def load(self, k: Value) -> Loaded:
        """This thread's reads: of one k and slot, of `QUAD` neighbouring units or of one."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        values: Loaded = []
        for part in self._parts():
            number = clamped(emit, b.add(k, part.k), I64(gemm.depth))
            unit = b.add(self.first, part.unit)
            last = I64(gemm.units - self._side)
            unit = b.select(b.icmp_signed("<", unit, last), unit, last)
            first, step = gemm.weights.place(unit)
            at = b.add(b.mul(number, I64(self.slots)), part.slot)
            place = emit.at(gemm.weights.packed, b.add(first, b.mul(at, step)))
            values += read_quad(emit, place) if self._side == QUAD else [emit.load(place)]
        return values

    def store(self, loaded: Loaded, place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        line = pitch_of(self.quads)
        for number, part in enumerate(self._parts()):
            own = loaded[number * self._side :][: self._side]
            with nullcontext() if part.inside is None else emit.when(part.inside):
                start = emit.at(place, b.mul(part.k, I64(line)))
                # One slot: four neighbouring units are neighbouring columns, which one store
                # writes.
                if self._side == QUAD and self.slots == 1:
                    write_quad(emit, own, emit.at(start, self._place(part.unit, part.slot)))
                    continue
                for i, value in enumerate(own):
                    at = self._place(b.add(part.unit, I64(i)), part.slot)
                    emit.store(value, emit.at(start, at))

    @property
    def _side(self) -> int:
        """How many units a read takes: four, where they lie side by side at 16 bytes."""
        return QUAD if self.fours and _by_fours(self.gemm) and self.count % QUAD == 0 else 1

    def _parts(self) -> list[_WeightsRead]:
        """What this thread reads of a run."""
        emit, b = self.emit, self.emit.b
        across = self.count // self._side
        total = self.run * self.slots * across
        parts: list[_WeightsRead] = []
        for first in range(0, total, SQUARE):
            number = b.add(emit.thread64, I64(first))
            full = first + SQUARE <= total
            inside = None if full else b.icmp_signed("<", number, I64(total))
            above, quad = _divided(emit, number, across)
            k, slot = _divided(emit, above, self.slots)
            if not full:
                # What it reads is dropped, but has to be there.
                k = clamped(emit, k, I64(self.run))
            parts.append(_WeightsRead(inside, k, slot, b.mul(quad, I64(self._side))))
        return parts

    def _place(self, unit: Value, slot: Value) -> Value:
        """Of a unit of the tile and a slot, among the places of a k."""
        emit, b = self.emit, self.emit.b
        quad, within = _divided(emit, unit, SIDE * self.per_quad)
        x, inner = _divided(emit, within, self.per_quad)
        first = b.add(b.mul(quad, I64(SIDE * QUAD)), b.mul(x, I64(QUAD)))
        column = b.add(b.mul(inner, I64(self.slots)), slot)
        if self.slots <= QUAD:
            return b.add(first, column)
        above, rest = _divided(emit, slot, QUAD)
        return b.add(first, b.add(b.mul(above, I64(SIDE * QUAD)), rest))


@record
class _WeightsRead:
    """What one read of weights is of; `inside`: whether there is so much to read, if in doubt."""

    inside: Value | None
    k: Value
    slot: Value
    unit: Value


def _divided(emit: GpuEmit, value: Value, by: int) -> tuple[Value, Value]:
    """Quotient and remainder."""
    b = emit.b
    quotient = value if by == 1 else b.udiv(value, I64(by))
    return quotient, I64(0) if by == 1 else b.sub(value, b.mul(quotient, I64(by)))


def _finish(emit: GpuEmit, gemm: Product, units: _Units, row: Value, sums: list[Value]) -> None:
    """The body at each point of a tile, the rows of a quad at a time."""
    b = emit.b
    width = units.count * units.slots
    memory = Pointer(emit.gpu.shared(), "f32")
    y, x = place_of(emit)
    columns = units.quads * QUAD
    for part in range(len(sums) // (QUAD * columns)):
        # Until all have read what lies there: operands, or another part's sums.
        emit.gpu.block_wait()
        for r in range(QUAD):
            line = b.mul(b.add(b.mul(y, I64(QUAD)), I64(r)), I64(width))
            own = sums[(part * QUAD + r) * columns :]
            for number in range(units.per_thread):
                unit = units.unit(x, number)
                for slot in range(units.slots):
                    at = b.add(line, b.add(unit, I64(slot * units.count)))
                    emit.store(own[units.column(number, slot)], emit.at(memory, at))
        emit.gpu.block_wait()
        _points(emit, gemm, units, b.add(row, I64(part * PART)))


def _points(emit: GpuEmit, gemm: Product, units: _Units, row: Value) -> None:
    """The points whose sums lie in shared memory; `row`: the first one."""
    b = emit.b
    memory = Pointer(emit.gpu.shared(), "f32")

    def point(number: Value) -> None:
        line, unit = emit.unravel(number, [I64(PART), I64(units.count)])
        here, own = b.add(row, line), b.add(units.first, unit)
        inside = b.and_(
            b.icmp_signed("<", here, gemm.rows.count), b.icmp_signed("<", own, I64(gemm.units))
        )
        with emit.when(inside):
            at = b.add(b.mul(line, I64(units.count * units.slots)), unit)
            sums = [
                emit.load(emit.at(memory, b.add(at, I64(slot * units.count))))
                for slot in range(units.slots)
            ]
            indices = gemm.rows.indices(here)
            pointers = gemm.rows.at(gemm.pointers, indices)
            gemm.loaded(indices, pointers, own)(None, sums)

    emit.strided(emit.thread64, I64(PART * units.count), I64(SQUARE), point)
