"""Products of matrices, vectors and stacks of them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.axes import kept_dims
from rnncc.nn.indexing import extremum_place
from rnncc.nn.reduction import reduce_keepdims


def matmul(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x y over the last two axes, the leading ones broadcast: NumPy's matmul.

    A vector is a row on the left and a column on the right, which goes from the result.

    Raises:
        CompileError: an operand has no axes, or the leading ones do not broadcast.
    """
    left, right = dims_of(x), dims_of(y)
    if not left or not right:
        raise CompileError(b.loc, "multiplies a scalar")
    x = b.reshape(x, (1, *left)) if len(left) == 1 else x
    y = b.reshape(y, (*right, 1)) if len(right) == 1 else y
    product = _of_stacks(b, x, y)
    dims = list(dims_of(product))
    if len(right) == 1:
        del dims[-1]
    if len(left) == 1:
        del dims[-1 if len(right) == 1 else -2]
    return b.reshape(product, dims)


def _of_stacks(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    left, right = dims_of(x), dims_of(y)
    if all(d == 1 for d in right[:-2]) and len(left) >= len(right):
        return b.matmul(x, b.reshape(y, right[-2:]))
    rank = max(len(left), len(right))
    wide = [[Dim.of(1)] * (rank - len(d)) + list(d) for d in (left, right)]
    lead = list[Dim]()
    for p, q in zip(wide[0][:-2], wide[1][:-2], strict=True):
        if p != q and p != 1 and q != 1:
            what = f"multiplies {shape_text(left)} by {shape_text(right)}"
            raise CompileError(b.loc, what, differ=[(p, q)])
        lead.append(q if p == 1 else p)
    x = b.broadcast(x, (*lead, *left[-2:]), range(rank - len(left), rank))
    y = b.broadcast(y, (*lead, *right[-2:]), range(rank - len(right), rank))
    return b.matmul(x, y)


MAX_INVERTED = 32
"""Rows of a matrix that is inverted: each is a few ops."""


def inverse(b: Builder, x: SSAValue) -> SSAValue:
    """The inverses of square matrices of a known size along the last two axes.

    Gauss-Jordan elimination, with the largest element of what is left of a column as its pivot;
    of a singular matrix elements that are infinite or NaN.
    """
    *lead, _, size = dims_of(x)
    rows, rank = int(size), len(dims_of(x))
    number = b.iota((*lead, rows, 1), rank - 2)
    right = b.cast(
        b.compare("eq", b.iota(dims_of(x), rank - 1), b.iota(dims_of(x), rank - 2)), dtype_of(x)
    )
    both = b.concat([x, right], rank - 1)
    for k in range(rows):
        both = _eliminated(b, both, number, k)
    return b.slice(both, rank - 1, rows, rows)


def _eliminated(b: Builder, rows: SSAValue, number: SSAValue, k: int) -> SSAValue:
    """Rows of which the k-th is divided by its pivot, and taken from all others to have 0 there."""
    axis = len(dims_of(rows)) - 2
    column = b.slice(rows, axis + 1, k, 1)
    left = b.compare("ge", number, b.fill(k, (), "i32"))
    size = b.select(left, b.abs(column), b.fill(-1.0, (), dtype_of(column)))
    at = b.reshape(extremum_place(b, size, "max", axis), kept_dims(size, [axis]))
    chosen = b.compare("eq", b.cast(number, "i64"), at)
    zero = b.fill(0.0, (), dtype_of(rows))
    pivot = reduce_keepdims(b, "sum", b.select(chosen, rows, zero), [axis])
    here = b.compare("eq", number, b.fill(k, (), "i32"))
    swapped = b.select(chosen, b.slice(rows, axis, k, 1), rows)
    pivot = b.div(pivot, b.slice(pivot, axis + 1, k, 1))
    rest = b.sub(swapped, b.mul(b.slice(swapped, axis + 1, k, 1), pivot))
    return b.select(here, pivot, rest)
