"""`kern.pack`, `kern.reverse`, `kern.gather` and `kern.scatter`: kernels that move elements.

What numbers rows is checked first; the wait behind that shows all threads whether it holds.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import (
    BAD_INDEX,
    BAD_LENGTH,
    FLOAT,
    I1,
    I32,
    I64,
    VALUE,
    Pointer,
    Value,
)
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import product
from rnncc.kern.moves import Gather, IndexedMove, Pack, Reverse, Scatter

SECTOR = 8
"""Floats that memory hands over at once."""


def emit_pack(emit: GpuEmit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
    """Copy weights into the order in which a product reads them: whole panels, then the rest."""
    units, panel = op.units.data, op.panel.data
    whole = units - units % panel
    pack = _pack_pairs if out.dtype == "bf16" else _pack
    for slot in range(len(ins)):
        begin = emit.at(ins[slot], emit.dim(op.in_accesses[slot].offset))
        for start, end, wide in ((0, whole, panel), (whole, units, units - whole)):
            if start < end:
                pack(emit, op, (slot, begin), out, (start, end, wide))


def _pack(
    emit: GpuEmit,
    op: Pack,
    source: tuple[int, Pointer],
    out: Pointer,
    panels: tuple[int, int, int],
) -> None:
    """One slot's weights; `panels`: the first unit, the one behind the last, units of a panel."""
    b, depth, slots = emit.b, op.depth.data, len(op.ins)
    [slot, begin], [start, end, wide] = source, panels
    strides = op.in_accesses[slot].strides

    # Lanes have neighbouring units, whose weights lie side by side here. Where a unit's k do so at
    # the caller, each lane reads what a sector of memory holds.
    run = SECTOR if depth % SECTOR == 0 else 1

    def some(number: Value) -> None:
        one, group, unit = emit.unravel(number, [I64(0), I64(depth // run), I64(wide)])
        row = b.add(I64(start), b.add(b.mul(one, I64(wide)), unit))
        first = b.mul(group, I64(run))
        numbers = [b.add(first, I64(i)) for i in range(run)]
        values = [emit.load(emit.along(begin, strides, [row, k])) for k in numbers]
        panel = b.add(I64(start * depth * slots), b.mul(one, I64(wide * depth * slots)))
        own = emit.at(out, b.add(panel, b.add(I64(slot * wide), unit)))
        for k, value in zip(numbers, values, strict=True):
            emit.store(value, emit.at(own, b.mul(k, I64(slots * wide))))

    emit.for_each(I64((end - start) * (depth // run)), some)


def _pack_pairs(
    emit: GpuEmit,
    op: Pack,
    source: tuple[int, Pointer],
    out: Pointer,
    panels: tuple[int, int, int],
) -> None:
    """The same as bf16: a thread has two k of a unit, which make a word."""
    b, depth, slots = emit.b, op.depth.data, len(op.ins)
    [slot, begin], [start, end, wide] = source, panels
    strides, pairs = op.in_accesses[slot].strides, -(-depth // 2)
    by_unit = strides[0] == 1  # neighbouring threads read neighbours, where they can

    def word(number: Value) -> None:
        if by_unit:
            one, pair, unit = emit.unravel(number, [I64(0), I64(pairs), I64(wide)])
        else:
            one, unit, pair = emit.unravel(number, [I64(0), I64(wide), I64(pairs)])
        row = b.add(I64(start), b.add(b.mul(one, I64(wide)), unit))
        k = b.mul(pair, I64(2))
        low, following = emit.load(emit.along(begin, strides, [row, k])), b.add(k, I64(1))
        inside = I1(1) if depth % 2 == 0 else b.icmp_signed("<", following, I64(depth))
        place = emit.along(begin, strides, [row, b.select(inside, following, k)])
        high = b.select(inside, emit.load(place), ir.Constant(FLOAT, 0.0))
        first = b.add(I64(start * pairs * slots), b.mul(one, I64(wide * pairs * slots)))
        at = b.add(b.add(first, b.mul(pair, I64(slots * wide))), b.add(I64(slot * wide), unit))
        place = b.gep(out.base, [at], source_etype=I32)
        b.store(emit.gpu.halves(low, high), place, align=4)

    emit.for_each(I64((end - start) * pairs), word)


def check_lengths(emit: GpuEmit, op: Reverse, lengths: Pointer) -> None:
    """Find lengths outside of the sequence."""
    steps, columns, _ = get_dims(op.dims)

    def check(n: Value) -> None:
        # A length of all steps is one.
        emit.record_error(_outside(emit, _whole(emit, lengths, n), emit.dim(steps + 1)), BAD_LENGTH)

    emit.for_each(emit.dim(columns), check)


def emit_reverse(emit: GpuEmit, op: Reverse, x: Pointer, lengths: Pointer, out: Pointer) -> None:
    """Turn the first steps of each row around; lengths are right."""
    b, dims = emit.b, get_dims(op.dims)
    _, columns, inner = (emit.dim(d) for d in dims)

    def element(indices: list[Value]) -> None:
        t, n, i = indices
        length = _whole(emit, lengths, n)
        mirrored = b.sub(b.sub(length, I64(1)), t)
        step = b.select(b.icmp_signed("<", t, length), mirrored, t)
        source, target = (b.add(b.mul(b.add(b.mul(s, columns), n), inner), i) for s in (step, t))
        emit.store(emit.load(emit.at(x, source)), emit.at(out, target))

    emit.points(dims, element)


def check_index(emit: GpuEmit, op: IndexedMove, index: Pointer) -> None:
    """Find numbers of rows that there are not."""
    _, count, _ = get_dims(op.dims)

    def check(j: Value) -> None:
        outside = _outside(emit, _whole(emit, index, j), emit.dim(get_dim(op.size)))
        emit.record_error(outside, BAD_INDEX)

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
    number, size = _whole(emit, index, j), emit.dim(get_dim(op.size))
    here, numbered = (
        b.add(b.mul(b.add(b.mul(a, rows), row), inner), c)
        for rows, row in ((count, j), (size, number))
    )
    return here, numbered


def _whole(emit: GpuEmit, pointer: Pointer, at: Value) -> Value:
    value = emit.load(emit.at(pointer, at))
    return value if pointer.dtype == "i64" else emit.b.sext(value, I64)


def _outside(emit: GpuEmit, value: Value, end: Value) -> Value:
    """Whether a number is below 0, or not below the end."""
    # Unsigned, a negative number is beyond any end.
    return emit.b.icmp_unsigned(">=", value, end)
