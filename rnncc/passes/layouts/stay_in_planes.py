"""Layouts of sums over windows that stand alone: they are computed where x is."""

from __future__ import annotations

import math
from collections.abc import Container

from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.ops.base import Elementwise, RnnOp
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Concat, Slice, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rewriting import NetPass, blocks_of, run_all
from rnncc.ir.types import dims_of
from rnncc.passes.layouts.sink_transposes import Perm, fits, perm_behind, sink
from rnncc.records import record

LANES = 16
"""Of a full vector."""
COPIES, ROW = 6, 3
"""Terms of a vector that take as long as turning one of x and one of results; as what a row takes
besides."""
BEYOND, FAR, LARGE, PAGE = 2, 4, 1 << 17, 1 << 10
"""How often as long turning takes where x is beyond the second-level cache, or channels whole pages
apart, which take each other's place in the first; elements of such x; of a page."""
STRIDED = 1.6
"""Terms that take as long as one whose elements are some apart."""
FEW_TAPS, MOST_TAPS = 16, 32
"""Of windows along rows: weights stay in registers; terms are written one by one."""


@record
class StayInPlanes(NetPass):
    """transpose(f(transpose(x))) → f(x), where f is sums over windows and elementwise ops.

    Nothing is turned round for them alone, but where rows of planes are short, so that vectors
    along the channels are worth it.

    Before:

        v1 = transpose(x, perm=[0, 2, 3, 1])
        v2 = windows(v1, axis=1, start=0, count=24, stride=2, taps=2, dilation=1)
        v3 = windows(v2, axis=3, start=0, count=48, stride=2, taps=2, dilation=1)
        v4 = reduce(v3, kind=sum, axes=[2, 4])
        v5 = relu(v4)
        v6 = transpose(v5, perm=[0, 3, 1, 2])
        return v6

    After:

        v1 = windows(x, axis=2, start=0, count=24, stride=2, taps=2, dilation=1)
        v2 = windows(v1, axis=4, start=0, count=48, stride=2, taps=2, dilation=1)
        v3 = reduce(v2, kind=sum, axes=[3, 5])
        v4 = relu(v3)
        return v4
    """

    name = "rnn-stay-in-planes"

    def rewrite(self, net: Net) -> bool:
        transposes = [
            op
            for block in blocks_of(net.body.block)
            for op in block.ops
            if isinstance(op, Transpose) and _turns_back(op)
        ]
        return run_all(sink(block, {op.y}) for op in transposes if (block := op.parent) is not None)


def _turns_back(turned: Transpose) -> bool:
    """Whether all that is computed of a transpose is sums over windows, and turned back again."""
    laid: dict[SSAValue, Perm] = {turned.y: get_ints(turned.perm)}
    op, strides, summed = turned.next_op, list[int](), False
    while op is not None:
        perms = {laid[value] for value in op.operands if value in laid}
        if perms:
            [perm, *others] = perms
            if others or not isinstance(op, RnnOp) or not _keeps(op, perm, laid):
                return False
            if isinstance(op, Reduce):
                if not _are_wide(op, perm, max(strides, default=1)):
                    return False
                summed = True
            strides += [op.stride.data] if isinstance(op, Windows) else []
            behind = perm_behind(op, perm)
            if not isinstance(op, Transpose) or list(behind) != sorted(behind):
                laid[op.results[0]] = behind
        op = op.next_op
    return summed


def _keeps(op: RnnOp, perm: Perm, laid: Container[SSAValue]) -> bool:
    """Whether a transpose can move behind an op, with those of its other operands."""
    if isinstance(op, Elementwise | Concat):
        return all(value in laid or fits(value, perm) for value in op.operands)
    return isinstance(op, Windows | Reduce | Slice | Transpose)


def _are_wide(op: Reduce, perm: Perm, stride: int) -> bool:
    """Whether sums along rows of planes take less time than along channels and turning round."""
    axes, behind = get_ints(op.axes), perm_behind(op, perm)
    # a batch, rows of planes and channels
    if len(behind) < 3 or not axes or 0 in axes or perm[0] != 0:
        return False
    (batch, *dims), around = dims_of(op.y), dims_of(op.x)[1:]
    if not all(size.is_static for size in around):
        return False
    taps = [dims_of(op.x)[axis] for axis in axes]
    row, channels = int(dims[behind.index(len(dims)) - 1]), int(dims[-1])
    results, count = math.prod(map(int, dims)), math.prod(map(int, taps))
    if results == 0:
        return False
    spread = stride ** len(taps)  # elements of x for each result
    plane = results // channels * spread
    results *= int(batch) if batch.is_static else 1
    far = FAR if plane % PAGE == 0 else BEYOND if results * spread >= LARGE else 1
    if count > (MOST_TAPS if far == FAR else FEW_TAPS):
        return False
    # Sums along the planes' rows against sums along channels plus turning: COPIES counts one
    # element of x and one of the results, and of x there are `spread` as many.
    terms = -(-row // LANES) * count * (STRIDED if stride > 1 else 1)
    other = row * -(-channels // LANES) / channels * count
    return terms + ROW < other + row / LANES * COPIES * far * (1 + spread) / 2
