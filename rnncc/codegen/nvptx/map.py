"""`kern.map`: one point a thread, neighbours along the last axis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.rows import KernelRows, begins, values_of
from rnncc.kern.kernels import Map

MOST_TOGETHER = 4
MOST_OPS = 128
"""Of the points that a thread computes at a time: so that they fit into registers, and code stays
small."""


def emit_map(
    emit: GpuEmit, op: Map, ins: list[Pointer], outs: list[Pointer], listed: Pointer | None
) -> None:
    """Write a map; `listed`: the rows that are computed, if not all are."""
    b, block = emit.b, op.body.block
    accesses = [*op.in_accesses, *op.out_accesses]
    pointers = begins(emit, [*ins, *outs], accesses)
    rows = KernelRows(emit, op, accesses, len(op.dims), listed)
    share, together = emit.share(rows.count), _together(emit, op)

    def point(number: Value, inside: Value | None) -> Iterator[None]:
        indices = rows.indices(number)
        here = rows.at(pointers, indices)
        known: dict[SSAValue, Value] = {
            v: emit.load(p) for v, p in zip(block.args, here, strict=False)
        }
        yield
        values = values_of(emit, block, known, rows.by_axis(indices))
        with nullcontext() if inside is None else emit.when(inside):
            for value, pointer in zip(values, here[len(ins) :], strict=True):
                emit.store(value, pointer)

    def some(first: Value) -> None:
        """Points whose inputs are all read before any is computed."""
        points = [point(share.number(first), None)]
        for i in range(1, together):
            following = b.add(first, b.mul(share.step, I64(i)))
            inside = b.icmp_signed("<", following, share.count)
            points.append(point(share.number(b.select(inside, following, first)), inside))
        for part in (*points, *points):
            next(part, None)

    emit.strided(share.first, share.count, b.mul(share.step, I64(together)), some)


def _together(emit: GpuEmit, op: Map) -> int:
    """How many points to compute at a time: several where a block has a row of many."""
    each = len(op.body.block.ops)
    most = min(MOST_TOGETHER, emit.points_of_a_row // emit.threads, MOST_OPS // each)
    return max(1, most)
