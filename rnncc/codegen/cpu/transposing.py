"""`kern.map` that transposes: what it reads lies densely along another axis than what it writes.

Square tiles of what it reads are turned round in registers, then go row by row through the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit, stack_size
from rnncc.codegen.cpu.moves import transposed, turned
from rnncc.codegen.llvm.nest import Nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.kernels import Map
from rnncc.platforms import PAGE
from rnncc.records import record

FEW = 8
"""Ops of a body that is written once for each row of a tile, which stays in registers then."""


@record
class TransposeTiling:
    """The axis along which some inputs are dense, and how many elements a tile has along each.

    Attributes:
        columns: these inputs.
        words: room on the stack for one of their elements, in elements that fill a vector.
    """

    axis: int
    lanes: int
    columns: list[int]
    words: int

    @staticmethod
    def of(
        emit: CpuEmit, op: Map, nest: Nest, pointers: Sequence[Pointer]
    ) -> TransposeTiling | None:
        """None for a map that does not transpose: all lies densely along the last axis, or not."""
        count, last = len(op.ins), len(nest.dims) - 1
        if (
            emit.target.lanes == 1
            or last < 1
            # Tiles leave the body row by row, as whole vectors.
            or any(a.strides[last] != 1 for a in nest.accesses[count:])
        ):
            return None
        columns = [i for i, a in enumerate(nest.accesses[:count]) if a.strides[last] not in (0, 1)]
        axes = [
            {axis for axis in range(last) if nest.accesses[i].strides[axis] == 1} for i in columns
        ]
        common = set[int].intersection(*axes) if axes else set[int]()
        if not common:
            return None
        axis = max(common)
        static = [int(d) for d in (nest.dims[axis], nest.dims[last]) if d.is_static]
        # A tile is as wide as it is high: a short axis would fill part of the longest vectors only.
        lanes = emit.target.lanes_for(min(static, default=emit.target.lanes))
        words = max(_words(emit, pointers[i]) for i in columns)
        lanes = max(1, lanes // words)
        fits = len(columns) * lanes * lanes * words <= stack_size(emit.target)
        if not fits or min(static, default=2) == 1 or lanes == 1:
            return None
        return TransposeTiling(axis, lanes, columns, words)


def _words(emit: CpuEmit, pointer: Pointer) -> int:
    return -(-ITEM_BYTES[pointer.dtype] // ITEM_BYTES[emit.element])


def _as_stored(pointer: Pointer) -> Pointer:
    """Where flags are as bytes: vectors of bits are slow to turn round."""
    return replace(pointer, dtype="u8") if pointer.dtype == "i1" else pointer


class TransposingMap:
    """The loops of such a map."""

    def __init__(
        self,
        emit: CpuEmit,
        op: Map,
        nest: Nest,
        pointers: Sequence[Pointer],
        tiling: TransposeTiling,
    ) -> None:
        self.emit, self.op, self.nest, self.tiling = emit, op, nest, tiling
        self.lanes, self.axis, self.last = tiling.lanes, tiling.axis, len(nest.dims) - 1
        self.bases = [
            emit.at(p, emit.dim(a.offset)) for p, a in zip(pointers, nest.accesses, strict=True)
        ]
        arguments: Sequence[SSAValue] = op.body.block.args
        self.arguments = arguments
        varying = {v for i, v in enumerate(arguments) if self._step(i, self.last) is not None}
        self.code = RegionCode(emit, op.body.block, varying, nest.axes[self.last])
        fits = 2 * self.lanes <= emit.target.registers and not emit.target.compact
        # What is read as results are written may be in place, and is not what it was then. Offsets
        # tell nothing: one may be in a row's own address, and in the access of the other.
        moved, count = [i for i, size in enumerate(nest.dims) if size != 1], len(op.ins)
        strides = [tuple(access.strides[i] for i in moved) for access in nest.accesses]
        self.may_come_twice = not set(strides[:count]) & set(strides[count:])
        # Without outer loops threads share tiles of rows, of which there are more.
        shares_rows = self.last == 1 and emit.team is not None
        self.order = (1, 0) if self._reads_far() and not shares_rows else (0, 1)
        self.in_registers = self.code.is_short(FEW) and fits and len(tiling.columns) == 1

    def _reads_far(self) -> bool:
        """Whether tiles follow each other along what is read, not along what is written: where its
        lines, such as those of planes, are pages apart, and further than those of the results."""
        count = len(self.op.ins)
        reads = [self.nest.accesses[i].strides[self.last] for i in self.tiling.columns]
        writes = [access.strides[self.axis] for access in self.nest.accesses[count:]]
        if not all(step.is_static for step in (*reads, *writes)):
            return False
        nearest = min(map(int, reads))
        item = min(ITEM_BYTES[self.bases[i].dtype] for i in self.tiling.columns)
        return nearest * item >= PAGE and nearest > max(map(int, writes))

    def _step(self, number: int, loop: int) -> Value | None:
        """From one index of a loop to the next; None where that is nothing."""
        step = self.nest.accesses[number].strides[loop]
        return None if step == 0 else self.emit.dim(step)

    def run(self) -> None:
        outer = [i for i in range(self.last) if i != self.axis]
        counts = [self.emit.dim(self.nest.dims[i]) for i in outer]

        def body(indices: list[Value]) -> None:
            self._tiles(dict(zip(outer, indices, strict=True)))

        self.emit.nest(counts, body, shared=True)

    def _tiles(self, at: dict[int, Value]) -> None:
        """All tiles; those at the ends have fewer rows or columns, where axes are short."""
        emit, b, lanes = self.emit, self.emit.b, I64(self.lanes)
        dims = [self.nest.dims[i] for i in (self.axis, self.last)]
        sizes = [emit.dim(d) for d in dims]
        bases = [self._at(p, i, at) for i, p in enumerate(self.bases)]
        # With outer loops threads share these.
        loop = emit.loop if at else emit.shared
        if self.in_registers and all(d.is_static for d in dims):
            self._exact_tiles(bases, at, [int(d) for d in dims])
            return

        # The last tile begins further in front, where what it writes again may come twice: but no
        # thread writes what another one does.
        again = [self.may_come_twice and bool(at or emit.team is None), self.may_come_twice]
        outer, inner = self.order
        long = [b.icmp_signed(">=", size, lanes) for size in sizes]

        def tile(numbers: dict[int, Value]) -> None:
            starts = [b.mul(numbers[n], lanes) for n in range(2)]
            rests = [b.sub(size, start) for size, start in zip(sizes, starts, strict=True)]
            fits = [b.icmp_signed(">=", rest, lanes) for rest in rests]
            for n in (n for n in range(2) if again[n]):
                last = b.and_(long[n], b.not_(fits[n]))
                starts[n] = b.select(last, b.sub(sizes[n], lanes), starts[n])
                fits[n] = long[n]
            with b.if_else(b.and_(fits[0], fits[1])) as (whole, part):
                with whole:
                    self._tile(bases, at, starts, None)
                with part:
                    inside = [
                        b.select(fit, lanes, rest) for fit, rest in zip(fits, rests, strict=True)
                    ]
                    self._tile(bases, at, starts, inside)

        def along(i: Value, carried: list[Value]) -> list[Value]:
            def iteration(j: Value, carried: list[Value]) -> list[Value]:
                tile({outer: i, inner: j})
                return []

            emit.loop(emit.parts(sizes[inner], lanes), iteration)
            return []

        loop(emit.parts(sizes[outer], lanes), along)

    def _exact_tiles(
        self, bases: Sequence[Pointer], at: dict[int, Value], sizes: Sequence[int]
    ) -> None:
        """All tiles of known sizes: those at the ends are code of their own."""
        emit, lanes, (outer, inner) = self.emit, self.lanes, self.order
        counts, rests = [size // lanes for size in sizes], [size % lanes for size in sizes]

        def tile(numbers: dict[int, Value], shape: dict[int, int]) -> None:
            starts = [emit.b.mul(numbers[n], I64(lanes)) for n in range(2)]
            self._exact_tile(bases, at, starts, shape[0], shape[1])

        def along(i: Value, size: int) -> None:
            def iteration(j: Value, carried: list[Value]) -> list[Value]:
                tile({outer: i, inner: j}, {outer: size, inner: lanes})
                return []

            emit.loop(I64(counts[inner]), iteration, often=counts[inner])
            if rests[inner]:
                end = I64(counts[inner])
                tile({outer: i, inner: end}, {outer: size, inner: rests[inner]})

        def whole(i: Value, carried: list[Value]) -> list[Value]:
            along(i, lanes)
            return []

        def last() -> None:
            along(I64(counts[outer]), rests[outer])

        if at:
            emit.loop(I64(counts[outer]), whole, often=counts[outer])
            if rests[outer]:
                last()
        else:
            emit.shared(I64(counts[outer]), whole, last=last if rests[outer] else None)

    def _exact_tile(
        self,
        bases: Sequence[Pointer],
        at: dict[int, Value],
        starts: Sequence[Value],
        height: int,
        width: int,
    ) -> None:
        """A tile of so many rows and columns in registers, through the body row by row."""
        emit, lanes, (row, column) = self.emit, self.lanes, starts
        [number] = self.tiling.columns
        here = [self._at(p, i, {self.axis: row, self.last: column}) for i, p in enumerate(bases)]
        pointer = _as_stored(here[number])
        step = emit.dim(self.nest.accesses[number].strides[self.last])
        columns = [
            emit.load(emit.at(pointer, emit.b.mul(I64(j), step)), lanes, emit.mask(height, lanes))
            for j in range(width)
        ]
        columns += [ir.Constant(columns[0].type, None)] * (lanes - len(columns))
        mask = emit.mask(width, lanes)
        for i, vector in enumerate(transposed(emit, columns)[:height]):
            indices = {**at, self.axis: emit.b.add(row, I64(i))}
            if pointer is not here[number]:
                vector = emit.b.icmp_unsigned("!=", vector, ir.Constant(vector.type, None))
            self._row(here, indices, I64(i), column, [vector], mask)

    def _at(self, pointer: Pointer, number: int, at: dict[int, Value]) -> Pointer:
        """A pointer at some loops' indices."""
        for loop, index in at.items():
            step = self._step(number, loop)
            if step is not None:
                pointer = self.emit.at(pointer, self.emit.b.mul(index, step))
        return pointer

    def _tile(
        self,
        bases: Sequence[Pointer],
        at: dict[int, Value],
        starts: Sequence[Value],
        inside: Sequence[Value] | None,
    ) -> None:
        """Turn the columns round, onto the stack or in registers; then the body, row by row.

        Args:
            inside: how many rows and columns the tile has; left out, it has all.
        """
        emit, b = self.emit, self.emit.b
        row, column = starts
        here = [self._at(p, i, {self.axis: row, self.last: column}) for i, p in enumerate(bases)]
        if inside is None and self.in_registers:
            self._exact_tile(bases, at, starts, self.lanes, self.lanes)
            return
        for place, number in enumerate(self.tiling.columns):
            step = emit.dim(self.nest.accesses[number].strides[self.last])
            pointer = _as_stored(here[number])
            for i, vector in enumerate(turned(emit, pointer, step, self.lanes, inside)):
                emit.store(vector, self._held(place, I64(i), pointer.dtype), self.lanes)
        mask = None if inside is None else emit.first_lanes(inside[1], self.lanes)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            held = [self._held(n, i, here[c].dtype) for n, c in enumerate(self.tiling.columns)]
            vectors = [emit.load(pointer, self.lanes) for pointer in held]
            self._row(here, {**at, self.axis: b.add(row, i)}, i, column, vectors, mask)
            return []

        emit.loop(I64(self.lanes) if inside is None else inside[0], iteration)

    def _held(self, place: int, row: Value, dtype: str) -> Pointer:
        """A row of a tile on the stack."""
        emit, lanes, words = self.emit, self.lanes, self.tiling.words
        first = emit.b.add(I64(place * lanes * lanes), emit.b.mul(row, I64(lanes)))
        first, stack = emit.b.mul(first, I64(words)), emit.stack
        return Pointer(emit.at(stack, first).base, dtype)

    def _row(
        self,
        here: Sequence[Pointer],
        at: dict[int, Value],
        row: Value,
        column: Value,
        vectors: Sequence[Value],
        mask: Value | None = None,
    ) -> None:
        """The body on one row of a tile, at some loops' indices; `vectors`: of column inputs."""
        emit, lanes, last = self.emit, self.lanes, self.nest.axes[self.last]
        by_axis = {self.nest.axes[loop]: index for loop, index in at.items()}
        known, scalars = dict[SSAValue, Value](), dict[SSAValue, Value]()
        for i, value in enumerate(self.arguments):
            pointer = self._at(here[i], i, {self.axis: row})
            if i in self.tiling.columns:
                known[value] = vectors[self.tiling.columns.index(i)]
            elif value in self.code.varying:
                known[value] = emit.load(pointer, lanes, mask)
            else:
                scalars[value] = emit.load(pointer)

        def index(axis: int) -> Value:
            if axis == last:
                return emit.lane_numbers(column, lanes)
            return emit.splat(by_axis.get(axis, I64(0)), lanes)

        scalars = self.code.invariants(scalars, lambda axis: by_axis.get(axis, I64(0)))
        values = self.code.vectors(scalars, known, index, lanes)
        for number, value in enumerate(values, len(self.arguments)):
            pointer = self._at(here[number], number, {self.axis: row})
            emit.store(value, pointer, lanes, mask)
