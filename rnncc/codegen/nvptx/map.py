"""`kern.map`: one point a thread, neighbours along the last axis."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.rows import KernelRows, begins, values_of
from rnncc.kern.kernels import Map


def emit_map(
    emit: GpuEmit, op: Map, ins: list[Pointer], outs: list[Pointer], listed: Pointer | None
) -> None:
    """Write a map; `listed`: the rows that are computed, if not all are."""
    accesses = [*op.in_accesses, *op.out_accesses]
    pointers = begins(emit, [*ins, *outs], accesses)
    rows = KernelRows(emit, op, accesses, len(op.dims), listed)

    def point(number: Value) -> None:
        indices = rows.indices(number)
        here = rows.at(pointers, indices)
        block = op.body.block
        known: dict[SSAValue, Value] = {
            v: emit.load(p) for v, p in zip(block.args, here, strict=False)
        }
        values = values_of(emit, block, known, rows.by_axis(indices))
        for value, pointer in zip(values, here[len(ins) :], strict=True):
            emit.store(value, pointer)

    emit.for_each(rows.count, point)
