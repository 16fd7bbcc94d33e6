"""A loop whose product takes what a map of the same points has just made: gradients, step by step.

    map -> rows of a, handed on as words -> sums -> the body of the product -> the next map

A map and a product over the same rows and units have their points in the same threads, so that
whatever goes from one to the other, or to the next iteration, stays in a thread; only the map's
results that are the product's rows go to other blocks, as marked words (`exchange`). What the next
map reads besides is on its way while words are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import I32, I64, VALUE, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.exchange import is_own, whole
from rnncc.codegen.nvptx.fragments import QUAD
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.rows import KernelRows, begins, unit_steps, values_of
from rnncc.codegen.nvptx.tensor_product import ROWS, TensorProduct
from rnncc.codegen.nvptx.tensor_step import StepTile, TensorStep
from rnncc.ir.attributes import get_dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import buffer_dtype, get_access
from rnncc.kern.dialect import For, Row, ShiftedRow
from rnncc.kern.kernels import Gemm, Map

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.tensor import TensorLoop

RowPointer = Callable[[Row | ShiftedRow], Pointer]
"""Where a row lies in the iteration that the symbols tell."""


@dataclass(frozen=True)
class Pair:
    """A map and the product that it makes rows for.

    Attributes:
        slots: the map's results that are runs of `units` of k each, in order.
        following: argument of the loop's body -> what the next iteration gets.
    """

    map: Map
    gemm: Gemm
    slots: tuple[int, ...]
    following: dict[SSAValue, SSAValue]

    def next_of(self, number: int) -> tuple[Map | Gemm, int] | None:
        """The result that an input of the map is in the next iteration, if it is one's."""
        value, access = self.map.ins[number], self.map.in_accesses[number]
        if value not in self.following:
            return None
        for op in (self.map, self.gemm):
            outs = list(zip(op.outs, op.out_accesses, strict=True))
            if (self.following[value], access) in outs:
                return op, outs.index((self.following[value], access))
        return None


def paired(loop: For, gemms: Sequence[Gemm]) -> Pair | None:
    """A loop's one map and one product, whose points other threads need nothing else of."""
    *ops, end = loop.body.block.ops
    others = [op for op in ops if not isinstance(op, Row | ShiftedRow)]
    if len(others) != 2 or len(gemms) != 1 or not isinstance(end, Yield):
        return None
    first, op = others[0], gemms[0]
    if not isinstance(first, Map) or others[1] is not op or first.dims != op.dims:
        return None
    slots = _slots(first, op)
    if first.rows is not None or op.rows is not None or slots is None:
        return None
    following: dict[SSAValue, SSAValue] = dict(zip(loop.body.block.args, end.values, strict=True))
    written = {whole(value) for kernel in (first, op) for value in kernel.outs}
    outs = [pair for o in (first, op) for pair in zip(o.outs, o.out_accesses, strict=True)]
    for kernel in (first, op):
        for value, access in zip(kernel.ins, kernel.in_accesses, strict=True):
            now = kernel is op and (value, access) in outs
            if not now and not is_own(value, access, following, outs, written):
                return None
    return Pair(first, op, slots, following)


def _slots(first: Map, op: Gemm) -> tuple[int, ...] | None:
    """The map's results by the run of k that they are; None if they are not a's whole rows."""
    a, units = get_access(op.a_access), op.units
    if op.k_sizes is not None or units % QUAD:
        return None
    slots: dict[int, int] = {}
    for number, (value, access) in enumerate(zip(first.outs, first.out_accesses, strict=True)):
        if value is not op.a:
            continue
        start = access.offset - a.offset
        if access.strides != a.strides or not start.is_static or int(start) % units:
            return None
        slots[int(start) // units] = number
    count = op.depth.data // units
    if sorted(slots) != list(range(count)) or count * units != op.depth.data:
        return None
    return tuple(slots[i] for i in range(count))


class PointMap:
    """What a map reads and writes, by row and unit."""

    def __init__(
        self, emit: GpuEmit, op: Map, ins: Sequence[Pointer], outs: Sequence[Pointer]
    ) -> None:
        self.emit, self.op = emit, op
        accesses = [*op.in_accesses, *op.out_accesses]
        self.pointers = begins(emit, [*ins, *outs], accesses)
        self.steps = unit_steps(accesses)
        self.rows = KernelRows(emit, op, accesses, len(op.dims) - 1, None)

    def places(self, row: Value, unit: Value) -> list[Pointer]:
        """Where the inputs and the results of a point are."""
        here = self.rows.at(self.pointers, self.rows.indices(row))
        return [
            self.emit.along(p, [step], [unit]) for p, step in zip(here, self.steps, strict=True)
        ]

    def values(self, inputs: Sequence[Value], row: Value, unit: Value) -> list[Value]:
        """The body at a point."""
        block = self.op.body.block
        by_axis = self.rows.by_axis(self.rows.indices(row))
        known: dict[SSAValue, Value] = dict(zip(block.args, inputs, strict=True))
        return values_of(self.emit, block, known, {**by_axis, len(self.op.dims) - 1: unit})


@dataclass(frozen=True)
class _Point:
    """A point of this thread: whether it is there, and where; a point that is there if not."""

    inside: Value
    line: Value
    place: Value
    row: Value
    unit: Value


class PairLoop:
    """A pair in its loop, where a block's rows are one tile.

    Attributes:
        inputs: room for the next map's inputs of each of this thread's points.
    """

    def __init__(
        self, around: TensorLoop, pair: Pair, resident: TensorProduct, row: RowPointer
    ) -> None:
        self.around, self.pair, self.resident, self.row = around, pair, resident, row
        self.emit, self.pointers = around.emit, around.pointers
        points = range(0, ROWS * resident.groups.units, self.emit.threads)
        dtypes = [buffer_dtype(value) for value in pair.map.ins]
        self.inputs = [[self._room(VALUE[d]) for d in dtypes] for _ in points]

    def _room(self, type_: ir.Type) -> Value:
        """Room for an input; lanes without a point compute on zeros, which nobody stores."""
        room = self.emit.room(type_, 8)
        self.emit.b.store(ir.Constant(type_, 0), room, align=8)
        return room

    def write(self, gemm: Product) -> None:
        """An iteration: the map, then the product."""
        emit, b, exchange = self.emit, self.emit.b, self.around.exchange
        assert exchange is not None
        step = TensorStep(self.around, gemm, self.resident)
        part, rank, ranks, size = step.shares()
        start = b.mul(rank, size)
        is_first = b.icmp_unsigned("==", exchange.iteration, I32(0))
        exchange.next_iteration()
        busy = b.and_(b.icmp_unsigned("<", rank, ranks), b.icmp_unsigned("<", start, step.count))
        with emit.when(busy):
            tile = StepTile(step, part, start, size)
            points = [self._point(tile, i) for i in range(len(self.inputs))]
            here = self._map()
            with emit.when(is_first):
                self._read(here, points, range(len(self.pair.map.ins)))
            for point, rooms in zip(points, self.inputs, strict=True):
                self._run_map(here, point, rooms)
            self._read_ahead(points)
            tile.await_rows(exchange, 1, self.around.most_awaited)
            emit.gpu.block_wait()
            tile.sums(None)
            emit.gpu.block_wait()
            for point, rooms in zip(points, self.inputs, strict=True):
                with emit.when(point.inside):
                    totals = tile.totals(point.line, point.place)
                    keep = partial(self._keep, self.pair.gemm, rooms)
                    tile.loaded(point.line, point.place)(None, totals, keep)

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

    def _read(self, code: PointMap, points: Sequence[_Point], numbers: Sequence[int]) -> None:
        """Some inputs of the map, into their rooms."""
        emit, b = self.emit, self.emit.b
        for point, rooms in zip(points, self.inputs, strict=True):
            places = code.places(b.zext(point.row, I64), b.zext(point.unit, I64))
            with emit.when(point.inside):
                for number in numbers:
                    b.store(emit.load(places[number]), rooms[number], align=8)

    def _run_map(self, code: PointMap, point: _Point, rooms: Sequence[Value]) -> None:
        """The map at a point: its rows are posted first, since others wait for them."""
        emit, b, exchange = self.emit, self.emit.b, self.around.exchange
        assert exchange is not None
        row, unit = b.zext(point.row, I64), b.zext(point.unit, I64)
        inputs = [
            b.load(room, typ=VALUE[buffer_dtype(value)], align=8)
            for room, value in zip(rooms, self.pair.map.ins, strict=True)
        ]
        values = code.values(inputs, row, unit)
        for slot, number in enumerate(self.pair.slots):
            k = b.add(point.unit, I32(slot * self.pair.gemm.units))
            exchange.hand_on(point.inside, point.row, k, values[number], exchange.iteration)
        outs = code.places(row, unit)[len(inputs) :]
        with emit.when(point.inside):
            for value, place in zip(values, outs, strict=True):
                emit.store(value, place)
        self._keep(self.pair.map, rooms, values)

    def _keep(self, op: Map | Gemm, rooms: Sequence[Value], values: Sequence[Value]) -> None:
        """A kernel's results that the next map takes."""
        for number, room in enumerate(rooms):
            source = self.pair.next_of(number)
            if source is not None and source[0] is op:
                self.emit.b.store(values[source[1]], room, align=8)

    def _read_ahead(self, points: Sequence[_Point]) -> None:
        """What the next map reads and nobody writes; of the last iteration again behind it."""
        emit, b, loop = self.emit, self.emit.b, self.around.loop
        numbers = [i for i in range(len(self.pair.map.ins)) if self.pair.next_of(i) is None]
        index, start, count = loop.index.data, get_dim(loop.start), get_dim(loop.count)
        now, first = emit.symbols[index], emit.dim(start)
        last = b.sub(b.add(first, emit.dim(count)), I64(1))
        if bool(loop.reverse):
            more, after = b.icmp_signed(">", now, first), b.sub(now, I64(1))
        else:
            more, after = b.icmp_signed("<", now, last), b.add(now, I64(1))
        rows = [op for op in loop.body.block.ops if isinstance(op, Row | ShiftedRow)]
        before: dict[SSAValue, Pointer] = {op.y: self.pointers[op.y] for op in rows}
        with emit.symbols_set({index: b.select(more, after, now)}):
            for op in rows:
                self.pointers[op.y] = self.row(op)
            self._read(self._map(), points, numbers)
        self.pointers.update(before)
