"""Which loops are a map and a product that takes what it made: see `tensor_cores.pair`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.exchanges.rows import is_own, whole
from rnncc.codegen.nvptx.fragments import QUAD
from rnncc.codegen.nvptx.rows import KernelRows, begins, unit_steps, values_of
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.casts import Cast
from rnncc.ir.types import dtype_of
from rnncc.kern.access import Access, dense, get_access
from rnncc.kern.dialect import Buffer, For, Row
from rnncc.kern.kernels import Gemm, Map
from rnncc.records import record

RUN = 8
"""bf16 that a thread waits for at a time: two words."""


@record
class MappedProduct:
    """A map and the product that it makes rows for.

    Attributes:
        rows: the row of a sequence that they are.
        slots: the map's results that are runs of `units` of k each, in order.
        following: argument of the loop's body -> what the next iteration gets.
    """

    map: Map
    gemm: Gemm
    rows: Row
    slots: tuple[int, ...]
    following: dict[SSAValue, SSAValue]

    @property
    def results(self) -> list[SSAValue]:
        """What the map computes: rows before they are rounded."""
        values = list(self.map.yields)
        for number in self.slots:
            cast = values[number].owner
            assert isinstance(cast, Cast)
            values[number] = cast.x
        return values

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


def paired(loop: For, gemms: Sequence[Gemm], dtype: str) -> MappedProduct | None:
    """A loop's one map and one product, whose points other threads need nothing else of.

    Args:
        dtype: of the rows.
    """
    # A third kernel's points could be needed by other threads, which would have to wait for them.
    if len(loop.kernels) != 2 or len(gemms) != 1:
        return None
    (first, last), op = loop.kernels, gemms[0]
    if not isinstance(first, Map) or last is not op or first.dims != op.dims:
        return None
    slots, rows = _slots(first, op, dtype), row_of(loop, op, op.a, dtype)
    if first.rows is not None or op.rows is not None or slots is None or rows is None:
        return None
    following: dict[SSAValue, SSAValue] = dict(zip(loop.body.block.args, loop.yields, strict=True))
    written = {whole(value) for kernel in (first, op) for value in kernel.outs}
    outs = [pair for o in (first, op) for pair in zip(o.outs, o.out_accesses, strict=True)]
    for kernel in (first, op):
        for value, access in zip(kernel.ins, kernel.in_accesses, strict=True):
            # what the map writes at a point, the product's body reads at the same: in one thread
            now = kernel is op and (value, access) in outs
            if not now and not is_own(value, access, following, outs, written):
                return None
    return MappedProduct(first, op, rows, slots, following)


def row_of(loop: For, op: Gemm, value: SSAValue, dtype: str, if_wanted: bool = False) -> Row | None:
    """The row that a product's rows are, of dense rows that lie one behind another.

    Args:
        if_wanted: they may be of an output, which has fewer rows where nobody wants it.
    """
    row, lines = value.owner, op.dims[:-1]
    depth = Dim.of(op.depth.data)
    dense_rows = Access(Dim.of(0), dense((*lines, depth)))
    if not isinstance(row, Row) or get_access(op.a_access) != dense_rows:
        return None
    buffer = row.buffer.owner
    kept = isinstance(buffer, Buffer) and buffer.dtype == dtype and _is_kept(buffer, if_wanted)
    steps = get_dim(row.index) == Dim.of(loop.index.data)
    apart = get_dim(row.stride) == product(lines) * depth
    return row if kept and steps and apart and op.depth.data % RUN == 0 else None


def _is_kept(buffer: Buffer, if_wanted: bool) -> bool:
    """Whether all rows of a sequence are kept, in memory that has nothing else in the loop."""
    # A ring's row still holds an earlier iteration's numbers, where readers look for the mark of a
    # row that is not written yet.
    kept = buffer.rows_kept is None or (if_wanted and buffer.role.data == "output")
    return kept and buffer.within is None


def _slots(first: Map, op: Gemm, dtype: str) -> tuple[int, ...] | None:
    """The map's results by the run of k that they are; None if they are not a's whole rows."""
    a, units = get_access(op.a_access), op.units
    if op.k_sizes is not None or units % QUAD:
        return None
    slots: dict[int, int] = {}
    for number, (value, access) in enumerate(zip(first.outs, first.out_accesses, strict=True)):
        cast = first.yields[number].owner
        if value is not op.a:
            continue
        # the rows that others read are rounded once, from floats, as the map writes them
        if dtype != "f32" and not (isinstance(cast, Cast) and dtype_of(cast.x) == "f32"):
            return None
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

    def values(
        self, results: Sequence[SSAValue], inputs: Sequence[Value], row: Value, unit: Value
    ) -> list[Value]:
        """What the body computes at a point."""
        block = self.op.body.block
        by_axis = self.rows.by_axis(self.rows.indices(row))
        known: dict[SSAValue, Value] = dict(zip(block.args, inputs, strict=True))
        axes = {**by_axis, len(self.op.dims) - 1: unit}
        return values_of(self.emit, block, known, axes, results)

    def write(self, row: Value, unit: Value, posted: Collection[int] = ()) -> None:
        """A point, all of it; `posted`: the results that other blocks wait for."""
        emit, count = self.emit, len(self.op.ins)
        places = self.places(row, unit)
        inputs = [emit.load(place) for place in places[:count]]
        values = self.values(self.op.yields, inputs, row, unit)
        emit.put(values, places[count:], posted)
