"""`kern.pack` and `kern.reverse`: kernels that only move elements."""

from __future__ import annotations

from collections.abc import Callable

from rnncc.codegen.emit import BAD_LENGTH, I64, Emit, Pointer, Value
from rnncc.ir.kernels import Pack, Reverse
from rnncc.ir.ops.base import get_dims

Pair = tuple[Value, Value]


def emit_pack(emit: Emit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
    """Copy weights into the order in which a product reads them."""
    full, width = divmod(op.units.data, op.panel.data)
    slots, panel, depth = len(ins), op.panel.data, I64(op.depth.data)

    def copy(first: Value, start: Value, wide: int) -> None:
        """A panel of `wide` units from unit `first` on, to element `start`."""
        for s, (source, access) in enumerate(zip(ins, op.in_accesses, strict=True)):
            by_unit, by_k = (emit.dim(d) for d in access.strides)
            at = emit.b.add(emit.dim(access.offset), emit.b.mul(first, by_unit))
            to = emit.b.add(start, I64(s * wide))
            steps = ((by_k, by_unit), (I64(slots * wide), I64(1)))
            _copy(emit, emit.at(source, at), emit.at(out, to), (depth, I64(wide)), steps)

    def turn(i: Value, carried: list[Value]) -> list[Value]:
        copy(emit.b.mul(i, I64(panel)), emit.b.mul(i, I64(op.depth.data * slots * panel)), panel)
        return []

    emit.loop(I64(full), turn)
    if width:
        copy(I64(full * panel), I64(full * op.depth.data * slots * panel), width)


def emit_reverse(
    emit: Emit, op: Reverse, x: Pointer, lengths: Pointer, out: Pointer, fail: Callable[[int], None]
) -> None:
    """Copy columns, the first `length` rows of each from last to first."""
    b = emit.b
    steps, columns, inner = (emit.dim(d) for d in get_dims(op.dims))

    def column(n: Value, carried: list[Value]) -> list[Value]:
        length = b.sext(emit.load(emit.at(lengths, n)), I64)
        bad = b.or_(b.icmp_signed("<", length, I64(0)), b.icmp_signed(">", length, steps))
        with emit.when(bad):
            fail(BAD_LENGTH)

        def row(indices: list[Value]) -> None:
            t, i = indices
            inside = b.icmp_signed("<", t, length)
            mirrored = b.sub(b.sub(length, I64(1)), t)
            source = b.select(inside, mirrored, t)
            read = b.add(b.mul(b.add(b.mul(source, columns), n), inner), i)
            write = b.add(b.mul(b.add(b.mul(t, columns), n), inner), i)
            emit.store(emit.load(emit.at(x, read)), emit.at(out, write))

        emit.nest([steps, inner], row)
        return []

    emit.loop(columns, column)


def _copy(
    emit: Emit,
    source: Pointer,
    target: Pointer,
    sizes: Pair,
    steps: tuple[Pair, Pair],
) -> None:
    """Copy a matrix; `steps`: from row to row and from column to column, in source and target."""

    def element(indices: list[Value]) -> None:
        (row, column), b = indices, emit.b
        at, to = (b.add(b.mul(row, down), b.mul(column, right)) for down, right in steps)
        emit.store(emit.load(emit.at(source, at)), emit.at(target, to))

    emit.nest(sizes, element)
