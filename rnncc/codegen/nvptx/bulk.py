"""Products over many rows, tile by tile: see `rnncc.codegen.nvptx.tiles`.

A tile has 128 rows, and as many units as make about 128 columns with their slots. Its sums go
through shared memory to threads that each run the kernel's body for some points of it.
"""

from __future__ import annotations

from rnncc.codegen.llvm.emit import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.tiles import (
    DEPTH,
    QUAD,
    SIDE,
    SQUARE,
    ZERO,
    Loaded,
    Tile,
    clamped,
    for_tiles,
    pitch_of,
    place_of,
)

QUADS = 2
ROWS = QUADS * SIDE * QUAD
LEAST_ROWS = 8
"""Fewer are left to the plain code, one unit and row a thread."""
MOST_SLOTS = 8
SHARED = 4 * max(4 * DEPTH * pitch_of(QUADS), ROWS // QUADS * (SIDE * MOST_SLOTS + QUAD))
"""Bytes of shared memory."""


def suits(made: Product, threads: int) -> bool:
    """Whether there are tiles for a product."""
    return threads == SQUARE and made.slots <= MOST_SLOTS and made.weights.packed.dtype == "f32"


def write_bulk(emit: GpuEmit, made: Product) -> None:
    """The product in tiles, if it has rows enough."""
    many = emit.b.icmp_signed(">=", made.rows.count, I64(LEAST_ROWS))
    with emit.b.if_else(many) as (tiles, plain):
        with tiles:
            _write_tiles(emit, made)
        with plain:
            made.write()


def _write_tiles(emit: GpuEmit, made: Product) -> None:
    units = _Units(emit, made)
    sizes = ROWS, units.count

    def tile(row: Value, unit: Value) -> None:
        units.first = unit
        left = _Rows(emit, made, row)
        work = Tile(emit, left, units, I64(made.depth))
        sums = work.sums([ZERO] * (work.rows * work.columns))
        _finish(emit, made, units, row, sums)

    for_tiles(emit, made.rows.count, I64(made.units), sizes, tile)


class _Rows:
    """Rows of the left operand: a thread reads some neighbouring k of one of them."""

    quads = QUADS

    def __init__(self, emit: GpuEmit, made: Product, first: Value) -> None:
        self.emit, self.made = emit, made
        b = emit.b
        self.place = b.and_(emit.thread64, I64(ROWS - 1))
        self.part = b.lshr(emit.thread64, I64(ROWS.bit_length() - 1))
        number = clamped(emit, b.add(first, self.place), made.rows.count)
        self.row = made.rows.at(made.pointers, made.rows.indices(number))[0]

    @property
    def each(self) -> int:
        """k that a thread reads."""
        return DEPTH * ROWS // SQUARE

    def load(self, k: Value) -> Loaded:
        emit, b = self.emit, self.emit.b
        first = b.add(k, b.mul(self.part, I64(self.each)))
        numbers = [
            clamped(emit, b.add(first, I64(i)), I64(self.made.depth)) for i in range(self.each)
        ]
        return [emit.load(emit.along(self.row, [self.made.k_step], [n])) for n in numbers]

    def store(self, loaded: Loaded, place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        first = b.mul(self.part, I64(self.each))
        for i, value in enumerate(loaded):
            line = b.mul(b.add(first, I64(i)), I64(pitch_of(self.quads)))
            emit.store(value, emit.at(place, b.add(line, self.place)))


class _Units:
    """Weights of some units from `first` on; a thread's quads hold all slots of its units.

    Attributes:
        count: units of a tile.
    """

    def __init__(self, emit: GpuEmit, made: Product) -> None:
        self.emit, self.made = emit, made
        self.slots = made.slots
        self.per_quad = max(1, QUAD // self.slots)
        self.quads = QUADS if self.slots <= QUAD else -(-self.slots // QUAD)
        self.each = self.per_quad * QUADS if self.slots <= QUAD else 1
        self.count = SIDE * self.each
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
        """Thread t reads the unit t mod `count`, of all slots, for some of the k."""
        emit, b, made = self.emit, self.emit.b, self.made
        unit = clamped(emit, b.add(self.first, self._unit()), I64(made.units))
        first, step = made.weights.place(unit)
        values: Loaded = []
        for i in range(self._rounds):
            number = clamped(emit, b.add(k, self._k(i)), I64(made.depth))
            for slot in range(self.slots):
                at = b.add(b.mul(number, I64(self.slots)), I64(slot))
                values.append(made.weights.load(b.add(first, b.mul(at, step))))
        return values

    def store(self, loaded: Loaded, place: Pointer) -> None:
        emit, b = self.emit, self.emit.b
        unit = self._unit()
        per = SIDE * self.per_quad
        quad = b.sdiv(unit, I64(per))
        within = b.sub(unit, b.mul(quad, I64(per)))
        x = b.sdiv(within, I64(self.per_quad))
        inner = b.sub(within, b.mul(x, I64(self.per_quad)))
        first = b.add(b.mul(quad, I64(SIDE * QUAD)), b.mul(x, I64(QUAD)))
        first = b.add(first, b.mul(inner, I64(self.slots)))
        values = iter(loaded)
        for i in range(self._rounds):
            line = b.add(first, b.mul(self._k(i), I64(pitch_of(self.quads))))
            for slot in range(self.slots):
                beside = slot // QUAD * SIDE * QUAD + slot % QUAD
                emit.store(next(values), emit.at(place, b.add(line, I64(beside))))

    @property
    def _rounds(self) -> int:
        """How many k a thread reads."""
        return DEPTH * self.count // SQUARE

    def _unit(self) -> Value:
        return self.emit.b.and_(self.emit.thread64, I64(self.count - 1))

    def _k(self, number: int) -> Value:
        b = self.emit.b
        first = b.lshr(self.emit.thread64, I64(self.count.bit_length() - 1))
        return b.add(first, I64(number * (SQUARE // self.count)))


def _finish(emit: GpuEmit, made: Product, units: _Units, row: Value, sums: list[Value]) -> None:
    """The body at each point of a tile, half of the rows at a time."""
    b = emit.b
    width = units.count * units.slots
    memory = Pointer(emit.gpu.shared(), "f32")
    y, x = place_of(emit)
    columns = units.quads * QUAD
    height = ROWS // QUADS
    for half in range(QUADS):
        emit.gpu.block_wait()
        for r in range(QUAD):
            line = b.mul(b.add(b.mul(y, I64(QUAD)), I64(r)), I64(width))
            own = sums[(half * QUAD + r) * columns :]
            for number in range(units.each):
                unit = units.unit(x, number)
                for slot in range(units.slots):
                    at = b.add(line, b.add(unit, I64(slot * units.count)))
                    emit.store(own[units.column(number, slot)], emit.at(memory, at))
        emit.gpu.block_wait()
        _points(emit, made, units, b.add(row, I64(half * height)), height)


def _points(emit: GpuEmit, made: Product, units: _Units, row: Value, height: int) -> None:
    """The points whose sums lie in shared memory; `row`: the first one."""
    b = emit.b
    memory = Pointer(emit.gpu.shared(), "f32")

    def point(number: Value) -> None:
        line, unit = emit.unravel(number, [I64(height), I64(units.count)])
        here, own = b.add(row, line), b.add(units.first, unit)
        inside = b.and_(
            b.icmp_signed("<", here, made.rows.count), b.icmp_signed("<", own, I64(made.units))
        )
        with emit.when(inside):
            at = b.add(b.mul(line, I64(units.count * units.slots)), unit)
            sums = [
                emit.load(emit.at(memory, b.add(at, I64(slot * units.count))))
                for slot in range(units.slots)
            ]
            indices = made.rows.indices(here)
            pointers = made.rows.at(made.pointers, indices)
            made.loaded(indices, pointers, own)(None, sums)

    emit.strided(emit.thread64, I64(height * units.count), I64(SQUARE), point)
