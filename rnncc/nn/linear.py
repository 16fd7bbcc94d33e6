"""Products of matrices, vectors and stacks of them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of, dtype_of, shape_text


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
    if dtype_of(x) in ("i32", "i64"):  # there are no tiles of these
        if left[-1] != right[-2]:
            what = f"multiplies {shape_text(left)} by {shape_text(right)}"
            raise CompileError(b.loc, what, differ=[(left[-1], right[-2])])
        common_lead(b, left, right)
        terms = b.mul(b.reshape(x, (*left, 1)), b.reshape(y, (*right[:-2], 1, *right[-2:])))
        return b.reduce("sum", terms, [len(dims_of(terms)) - 2])
    if all(d == 1 for d in right[:-2]) and len(left) >= len(right):
        return b.matmul(x, b.reshape(y, right[-2:]))
    lead = common_lead(b, left, right)
    rank = len(lead) + 2
    x = b.broadcast(x, (*lead, *left[-2:]), range(rank - len(left), rank))
    y = b.broadcast(y, (*lead, *right[-2:]), range(rank - len(right), rank))
    return b.matmul(x, y)


def common_lead(b: Builder, left: Dims, right: Dims) -> Dims:
    """The shape of stacks of matrices that meet, given the matrices' shapes with those of stacks.

    Raises:
        CompileError: they do not broadcast.
    """
    rank = max(len(left), len(right))
    wide = [(Dim.of(1),) * (rank - len(d)) + d for d in (left, right)]
    lead = list[Dim]()
    for p, q in zip(wide[0][:-2], wide[1][:-2], strict=True):
        if p != q and p != 1 and q != 1:
            what = f"multiplies {shape_text(left)} by {shape_text(right)}"
            raise CompileError(b.loc, what, differ=[(p, q)])
        lead.append(q if p == 1 else p)
    return tuple(lead)
