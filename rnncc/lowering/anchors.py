"""How an op is lowered: as a kernel of its own, as part of an expression, or as a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.ops.base import Elementwise, RnnOp, Source, View
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Accumulating, Matmul, Reduce, SumRows
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Shift, Transpose, squeezed
from rnncc.ir.ops.source import Param
from rnncc.ir.ops.windows import Windows
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.lowering.maps import is_unit_reshape

TURNED = 3
"""Values that are turned round together at most: of more a kernel is dear, and one that turns their
sum round is not."""


def is_anchor(op: Operation) -> bool:
    """Whether an op stands alone rather than as an expression inside a kernel."""
    if isinstance(op, RnnOp):
        return not isinstance(op, Elementwise | Source | View | Shift)
    return isinstance(op, Scan | Chunks)


def is_lazy(op: Operation | Block) -> bool:
    """Whether an op can be computed inside any kernel that reads it."""
    return isinstance(op, Elementwise) or (isinstance(op, Source) and not isinstance(op, Param))


def is_product(op: Operation) -> TypeGuard[Matmul]:
    """Whether an op is a product with one matrix of known size, as `kern.gemm` computes them."""
    if not isinstance(op, Matmul) or len(dims_of(op.b)) != 2:
        return False
    # Panels and tiles are cut while compiling.
    return all(d.is_static and int(d) > 0 for d in dims_of(op.b))


def addressed(op: Operation) -> Sequence[SSAValue]:
    """Operands whose memory an op reads directly."""
    match op:
        case Scan():
            return op.inits
        # Their kernels, or those of their bodies, compute what they read point by point.
        case Chunks() | Concat() | Reduce():
            return ()
        case SumRows():
            return () if op.starts_at_zero else (op.init,)
        case Accumulating() if op.starts_at_zero:
            return op.operands[1:]
        case Windows() | Shift():
            return op.operands
        case Reshape() if not is_unit_reshape(op):
            return op.operands
        case _:
            return op.operands if is_anchor(op) else ()


def read_each_step(op: Operation) -> list[SSAValue]:
    """Operands that each iteration of a loop reads."""
    if isinstance(op, Chunks):
        return list(op.operands)
    return [*op.consts, *op.xs] if isinstance(op, Scan) else []


def is_turned_later(op: Transpose) -> bool:
    """Whether an elementwise value gets another innermost axis once it is computed: one of many
    others of its shape, or of fewer bytes than what it is computed from."""
    perm, dims, bytes = get_ints(op.perm), squeezed(dims_of(op.x)), ITEM_BYTES[dtype_of(op.x)]
    if perm[-1] == len(perm) - 1 or not isinstance(op.x.owner, Elementwise):
        return False
    sources, seen, queue = set[SSAValue](), set[SSAValue](), [op.x]
    while queue and len(sources) <= TURNED:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Elementwise):
            queue += value.owner.operands
        elif squeezed(dims_of(value)) == dims and not isinstance(value.owner, Broadcast | Source):
            sources.add(value)
    return len(sources) > TURNED or any(ITEM_BYTES[dtype_of(v)] > bytes for v in sources)


def turns_bytes(value: SSAValue) -> bool:
    """Whether a value of bytes is an elementwise one with another axis innermost.

    Products take rows of bytes as words: they are computed where they lie side by side.
    """
    turned = False
    if dtype_of(value) != "i8":
        return False
    while isinstance(view := value.owner, Transpose | Reshape):
        if isinstance(view, Transpose):
            perm = get_ints(view.perm)
            turned |= perm[-1] != len(perm) - 1
        value = view.x
    return turned and isinstance(value.owner, Elementwise)
