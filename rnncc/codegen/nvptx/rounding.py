"""Maps that only round rows to bf16, as the sums of training read them: eight elements a thread."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.map import emit_map
from rnncc.codegen.nvptx.rows import begins
from rnncc.ir.dims import Dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import buffer_dtype
from rnncc.kern.kernels import Map

EIGHT = 8
"""bf16 in one store of 16 bytes."""


def suits(op: Map) -> bool:
    """Whether a map rounds float32 to bf16 and does nothing else, along rows."""
    kinds = [type(inner) for inner in op.body.block.ops]
    rounds = kinds == [Cast, Yield] and len(op.ins) == 1 and op.rows is None
    if not rounds or buffer_dtype(op.ins[0]) != "f32" or buffer_dtype(op.outs[0]) != "bf16":
        return False
    accesses = [*op.in_accesses, *op.out_accesses]
    steps = [access.strides[-1] for access in accesses]
    parts = [part for access in accesses for part in (access.offset, *access.strides[:-1])]
    whole = all(factor % EIGHT == 0 for part in (*parts, op.dims[-1]) for _, factor in part.terms)
    return whole and all(step == Dim.of(1) for step in steps)


def emit_rounding(emit: GpuEmit, op: Map, source: Pointer, target: Pointer) -> None:
    """Write such a map; one element a thread where rows do not begin at multiples of 16 bytes."""
    with emit.b.if_else(emit.aligned(source, target)) as (aligned, other):
        with aligned:
            _emit_eights(emit, op, source, target)
        with other:
            emit_map(emit, op, [source], [target], None)


def _emit_eights(emit: GpuEmit, op: Map, source: Pointer, target: Pointer) -> None:
    b, accesses = emit.b, [*op.in_accesses, *op.out_accesses]
    pointers = begins(emit, [source, target], accesses)
    *outer, last = (emit.dim(size) for size in op.dims)
    counts = [*outer, b.sdiv(last, I64(EIGHT))]

    def eight(number: Value) -> None:
        indices = emit.unravel(number, counts)
        indices[-1] = b.mul(indices[-1], I64(EIGHT))
        left, right = (
            emit.along(p, a.strides, indices) for p, a in zip(pointers, accesses, strict=True)
        )
        words: Value = ir.Constant(ir.VectorType(I32, EIGHT // 2), None)
        for half in range(2):
            place = emit.at(left, I64(half * EIGHT // 2))
            four = b.load(place.base, typ=ir.VectorType(FLOAT, EIGHT // 2), align=16)
            values = [b.extract_element(four, I64(i)) for i in range(EIGHT // 2)]
            for i in (0, 2):
                word = emit.gpu.halves(values[i], values[i + 1])
                words = b.insert_element(words, word, I64(2 * half + i // 2))
        b.store(words, right.base, align=16)

    emit.for_each(emit.multiplied(counts), eight, EIGHT)
