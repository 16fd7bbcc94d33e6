"""`kern.pack`, `kern.reverse`, `kern.gather` and `kern.scatter`: kernels that move elements.

What numbers rows is checked first; the wait behind that shows all threads whether it holds.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import FLOAT, I1, I32, I64, VALUE, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import Dim, product
from rnncc.kern.moves import Gather, IndexedMove, Pack, Reverse, Scatter
from rnncc.kern.signatures import BAD_LENGTH
from rnncc.records import record

SECTOR = 8
"""Floats that memory hands over at once."""


@record
class _Panels:
    """One slot's weights of some panels of the same width.

    Attributes:
        source: where the slot's lie at the caller, by unit and k.
        start, end: the first unit, and the one behind the last; `wide`: units of a panel.
    """

    emit: GpuEmit
    op: Pack
    slot: int
    source: Pointer
    start: int
    end: int
    wide: int

    @property
    def strides(self) -> tuple[Dim, ...]:
        return self.op.in_accesses[self.slot].strides

    def load(self, panel: Value, unit: Value, k: Value) -> Value:
        """A weight of a panel's unit."""
        b = self.emit.b
        row = b.add(I64(self.start), b.add(b.mul(panel, I64(self.wide)), unit))
        return self.emit.load(self.emit.along(self.source, self.strides, [row, k]))

    def place(self, panel: Value, unit: Value, k: Value, depth: int) -> Value:
        """Where it is packed, if units are of so many k, or of words of several."""
        b, slots = self.emit.b, len(self.op.ins)
        before = I64(self.start * depth * slots)
        first = b.add(before, b.mul(panel, I64(self.wide * depth * slots)))
        line = b.add(first, b.mul(k, I64(slots * self.wide)))
        return b.add(line, b.add(I64(self.slot * self.wide), unit))


def emit_pack(emit: GpuEmit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
    """Copy weights into the order in which a product reads them: whole panels, then the rest."""
    units, panel = op.units.data, op.panel.data
    whole = units - units % panel
    pack = _pack_pairs if out.dtype == "bf16" else _pack
    for slot in range(len(ins)):
        begin = emit.at(ins[slot], emit.dim(op.in_accesses[slot].offset))
        for start, end, wide in ((0, whole, panel), (whole, units, units - whole)):
            if start < end:
                pack(_Panels(emit, op, slot, begin, start, end, wide), out)


def _pack(panels: _Panels, out: Pointer) -> None:
    emit, b, depth = panels.emit, panels.emit.b, panels.op.depth.data
    # Lanes have neighbouring units, whose weights lie side by side here. Where a unit's k do so at
    # the caller, each lane reads what a sector of memory holds.
    run = SECTOR if depth % SECTOR == 0 else 1

    def some(number: Value) -> None:
        panel, group, unit = emit.unravel(number, [I64(0), I64(depth // run), I64(panels.wide)])
        first = b.mul(group, I64(run))
        numbers = [b.add(first, I64(i)) for i in range(run)]
        values = [panels.load(panel, unit, k) for k in numbers]
        for k, value in zip(numbers, values, strict=True):
            emit.store(value, emit.at(out, panels.place(panel, unit, k, depth)))

    emit.for_each(I64((panels.end - panels.start) * (depth // run)), some)


def _pack_pairs(panels: _Panels, out: Pointer) -> None:
    """The same as bf16: a thread has two k of a unit, which make a word."""
    emit, b, depth = panels.emit, panels.emit.b, panels.op.depth.data
    pairs, wide = -(-depth // 2), I64(panels.wide)
    by_unit = panels.strides[0] == 1  # neighbouring threads read neighbours, where they can

    def word(number: Value) -> None:
        if by_unit:
            panel, pair, unit = emit.unravel(number, [I64(0), I64(pairs), wide])
        else:
            panel, unit, pair = emit.unravel(number, [I64(0), wide, I64(pairs)])
        k = b.mul(pair, I64(2))
        low, following = panels.load(panel, unit, k), b.add(k, I64(1))
        inside = I1(1) if depth % 2 == 0 else b.icmp_signed("<", following, I64(depth))
        high = panels.load(panel, unit, b.select(inside, following, k))
        high = b.select(inside, high, ir.Constant(FLOAT, 0.0))
        place = panels.place(panel, unit, pair, pairs)
        place = b.gep(out.base, [place], source_etype=I32)
        b.store(emit.gpu.halves(low, high), place, align=4)

    emit.for_each(I64((panels.end - panels.start) * pairs), word)


def check_lengths(emit: GpuEmit, op: Reverse, lengths: Pointer) -> None:
    """Find lengths outside of the sequence."""
    steps, columns, _ = get_dims(op.dims)

    def check(n: Value) -> None:
        # A length of all steps is one.
        emit.record_error(
            _outside(emit, emit.load_number(emit.at(lengths, n)), emit.dim(steps + 1)), BAD_LENGTH
        )

    emit.for_each(emit.dim(columns), check)


def emit_reverse(emit: GpuEmit, op: Reverse, x: Pointer, lengths: Pointer, out: Pointer) -> None:
    """Turn the first steps of each row around; lengths are right."""
    b, dims = emit.b, get_dims(op.dims)
    _, columns, inner = (emit.dim(d) for d in dims)

    def element(indices: list[Value]) -> None:
        t, n, i = indices
        length = emit.load_number(emit.at(lengths, n))
        mirrored = b.sub(b.sub(length, I64(1)), t)
        step = b.select(b.icmp_signed("<", t, length), mirrored, t)
        source, target = (b.add(b.mul(b.add(b.mul(s, columns), n), inner), i) for s in (step, t))
        emit.store(emit.load(emit.at(x, source)), emit.at(out, target))

    emit.points(dims, element)


def check_index(emit: GpuEmit, op: IndexedMove, index: Pointer) -> None:
    """Find numbers of rows that there are not."""
    _, count, _ = get_dims(op.dims)

    def check(j: Value) -> None:
        outside = _outside(emit, emit.load_number(emit.at(index, j)), emit.dim(get_dim(op.size)))
        emit.record_error(outside, op.error)

    emit.for_each(emit.dim(count), check)


def emit_gather(emit: GpuEmit, op: Gather, x: Pointer, index: Pointer, out: Pointer) -> None:
    """Copy numbered rows."""

    def element(indices: list[Value]) -> None:
        here, numbered = _places(emit, op, indices, index)
        emit.store(emit.load(emit.at(x, numbered)), emit.at(out, here))

    emit.points(get_dims(op.dims), element)


def begin_scatter(emit: GpuEmit, op: Scatter, out: Pointer, init: Pointer | None) -> None:
    """What is added to."""

    def element(i: Value) -> None:
        value = ir.Constant(VALUE[out.dtype], 0) if init is None else emit.load(emit.at(init, i))
        emit.store(value, emit.at(out, i))

    emit.for_each(emit.dim(product(op.numbered)), element)


def emit_scatter(emit: GpuEmit, op: Scatter, x: Pointer, index: Pointer, out: Pointer) -> None:
    """Fold numbered rows with rows: a thread has one column, and takes the rows in their order."""
    fold = Folding(emit, op.kind.data, out.dtype)
    outer, count, inner = get_dims(op.dims)

    def column(indices: list[Value]) -> None:
        a, c = indices

        def row(j: Value, carried: list[Value]) -> list[Value]:
            here, numbered = _places(emit, op, [a, j, c], index)
            target = emit.at(out, numbered)
            old, more = emit.load(target), emit.load(emit.at(x, here))
            emit.store(fold.combined(old, more, 1), target)
            return []

        emit.loop(emit.dim(count), row)

    emit.points([outer, inner], column)


def _places(
    emit: GpuEmit, op: IndexedMove, indices: list[Value], index: Pointer
) -> tuple[Value, Value]:
    """An element's place in the rows, and in what they are numbers of."""
    b, [a, j, c] = emit.b, indices
    _, count, inner = (emit.dim(d) for d in get_dims(op.dims))
    number, size = emit.load_number(emit.at(index, j)), emit.dim(get_dim(op.size))
    here, numbered = (
        b.add(b.mul(b.add(b.mul(a, rows), row), inner), c)
        for rows, row in ((count, j), (size, number))
    )
    return here, numbered


def _outside(emit: GpuEmit, value: Value, end: Value) -> Value:
    """Whether a number is below 0, or not below the end."""
    # Unsigned, a negative number is beyond any end.
    return emit.b.icmp_unsigned(">=", value, end)
