"""Rows of products that are windows of a tensor: read where they lie, as runs of k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.kern.access import Access
from rnncc.lowering.maps import Placed, merged

if TYPE_CHECKING:
    from rnncc.codegen.target import Target
    from rnncc.lowering.walk import Lowering


VECTOR = 16
"""Bytes that the runs of rows of bytes are a multiple of: these are copied in whole vectors."""


def reads_windows(target: Target, precision: str) -> bool:
    """Whether a target's products read rows of floats in several runs: none that converts them
    does."""
    return target.reads_windows and precision == "fp32"


def left_operand(lowering: Lowering, op: Matmul) -> tuple[Placed, Sequence[Dim]]:
    """Where a product's left operand is, and the sizes of k's axes if these are several.

    Before:

        v1 = windows(x, axis=1, start=0, count=3, stride=1, taps=3, dilation=2)
        v2 = reshape(v1, dims=[N, 3, 6])
        v3 = matmul(v2, w)
        return v3

    After:

        scratch packed: 32
        pack packed = w
        gemm i in N, j in 3, k in 4: y = x[16*i + 2*j + 4*d + e]·packed
    """
    view = op.a.owner
    if (
        isinstance(view, Reshape)
        and not op.transpose_a
        and lowering.find(op.a) is None
        and _can_read(lowering, dtype_of(op.a))
    ):
        below = lowering.place(view.x)
        runs = _in_runs(below.access, dims_of(view.x), dims_of(view.y))
        if runs is not None and (dtype_of(op.a) in FLOATS or _are_whole(*runs)):
            access, sizes = runs
            return Placed(below.buffer, access), sizes
    return lowering.place(op.a), ()


def _can_read(lowering: Lowering, dtype: str) -> bool:
    if dtype in FLOATS:
        return reads_windows(lowering.target, lowering.weights.precision)
    return lowering.target.reads_windows and lowering.target.byte_products


def _are_whole(access: Access, sizes: Sequence[Dim]) -> bool:
    """Whether runs of bytes are whole vectors."""
    return access.strides[-1] == 1 and int(sizes[-1]) % VECTOR == 0


def _in_runs(
    access: Access, old: Sequence[Dim], new: Sequence[Dim]
) -> tuple[Access, list[Dim]] | None:
    """The access over rows and over several axes whose elements are those of a row, and their
    sizes; None where one axis is enough, or rows are no runs of axes."""
    *rows, depth = new
    first = len(old)
    while first > 0 and product(old[first:]) != depth:
        first -= 1
    leading = merged(Access(access.offset, access.strides[:first]), old[:first], rows)
    if leading is None or product(old[first:]) != depth:
        return None
    axes = list[tuple[Dim, Dim]]()
    for size, step in zip(old[first:], access.strides[first:], strict=True):
        if size == 1:
            continue
        # An outer axis that steps over all of this one is one with it.
        if axes and axes[-1][1] == step * size:
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    if len(axes) < 2:
        return None
    steps = tuple(step for _, step in axes)
    return Access(access.offset, (*leading.strides, *steps)), [size for size, _ in axes]
