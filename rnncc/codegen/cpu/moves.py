"""`kern.pack` and `kern.reverse`: kernels that only move elements."""

from __future__ import annotations

from collections.abc import Callable

from rnncc.codegen.emit import I64, Emit, Pointer, Value
from rnncc.ir.kern import Pack, Reverse
from rnncc.ir.ops.base import get_dims


def emit_pack(emit: Emit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
    """Copy weights into the order in which a product reads them."""
    full, width = divmod(op.units.data, op.panel.data)
    slots, panel = len(ins), op.panel.data

    def copy(first: Value, start: Value, wide: int) -> None:
        """A panel of `wide` units from unit `first` on, to element `start`."""
        for s, (source, access) in enumerate(zip(ins, op.in_accesses, strict=True)):
            base = emit.at(source, emit.dim(access.offset))
            by_unit, by_k = (emit.dim(d) for d in access.strides)

            def element(indices: list[Value], s: int = s, base: Pointer = base) -> None:
                k, u = indices
                at = emit.b.add(
                    emit.b.mul(emit.b.add(first, u), by_unit), emit.b.mul(k, by_k)
                )
                to = emit.b.add(emit.b.mul(k, I64(slots * wide)), emit.b.add(u, I64(s * wide)))
                emit.store(emit.load(emit.at(base, at)), emit.at(out, emit.b.add(start, to)))

            emit.nest([I64(op.depth.data), I64(wide)], element)

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
            fail(3)

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
