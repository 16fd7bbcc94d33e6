"""Products of aten."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rnncc.frontends.torch.node_context import (
    NodeContext,
    Number,
    Table,
    Translation,
    Value,
    of_one_type,
    rank_of,
)
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn import factors
from rnncc.nn.attention import attend
from rnncc.nn.axes import transposed
from rnncc.nn.linear import common_lead
from rnncc.nn.linear import matmul as nn_matmul

Parts = tuple[Value | None, ...]
"""Results, None for those that nobody reads."""


def mm(at: NodeContext, a: Value, b: Value) -> Value:
    """a · b"""
    return at.b.matmul(a, b)


def addmm(
    at: NodeContext, c: Value, a: Value, b: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """beta · c + alpha · a · b"""
    return at.b.add(at.scaled(at.b.matmul(a, b), alpha), at.scaled(c, beta))


def addbmm(
    at: NodeContext, c: Value, a: Value, b: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """beta · c + alpha · (the sum of a · b over the batch)"""
    total = at.b.reduce("sum", at.b.matmul(a, b), [0])
    return at.b.add(at.scaled(total, alpha), at.scaled(c, beta))


def linear(at: NodeContext, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x · weightᵀ + bias"""
    rows = x if rank_of(x) > 1 else at.b.reshape(x, (1, *dims_of(x)))
    product = at.b.reshape(at.b.matmul(rows, weight, transpose_b=True), at.dims)
    return product if bias is None else at.b.add(product, bias)


def matmul(at: NodeContext, a: Value, b: Value) -> Value:
    """a · b, as NumPy has it"""
    return nn_matmul(at.b, a, b)


def mv(at: NodeContext, a: Value, x: Value) -> Value:
    """a · x, as row x · aᵀ"""
    row = at.b.reshape(x, (1, *dims_of(x)))
    return at.b.reshape(at.b.matmul(row, a, transpose_b=True), at.dims)


def dot(at: NodeContext, x: Value, y: Value) -> Value:
    """The sum of x · y"""
    return at.b.reduce("sum", at.b.mul(x, y), [0])


def trilinear(
    at: NodeContext,
    x: Value,
    weight: Value,
    y: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """The sum of x · weight · y along axes, each with new axes of size 1 first"""
    b = at.b
    wide = [
        _with_axes(b, one, axes)
        for one, axes in zip((x, weight, y), (expand1, expand2, expand3), strict=True)
    ]
    product = b.mul(b.mul(wide[0], wide[1]), wide[2])
    return b.reduce("sum", product, list(sumdim))


def _with_axes(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    dims = list(dims_of(x))
    for axis in sorted(axes):
        dims.insert(axis, Dim.of(1))
    return b.reshape(x, dims)


def scaled_attention(
    at: NodeContext,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    dropout: Number = 0.0,
    is_causal: bool = False,
    dropped: Value | None = None,
    *,
    scale: Number | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value]:
    """softmax(scale · q kᵀ + mask) v, and the weights of v"""
    b, kind = at.b, dtype_of(query)
    if dropout or dropped is not None or enable_gqa:
        at.refuse("attention with dropout or with groups of queries is not supported")
    steps, keys = dims_of(query)[-2], dims_of(key)[-2]
    zero, never = b.fill(0.0, (), kind), b.fill(-math.inf, (), kind)
    if is_causal:
        mask = b.compare("le", b.iota((steps, keys), 1), b.iota((steps, keys), 0))
    if mask is not None and dtype_of(mask) == "i1":
        mask = b.select(mask, zero, never)
    factor = None if scale is None else float(scale)
    return attend(b, query, key, value, factor, mask, safe=mask is not None)


def checked(at: NodeContext, *_: object, **__: object) -> None:
    """PyTorch's errors of singular matrices, whose results are NaN"""
    return


def inverted(at: NodeContext, a: Value) -> Value:
    """The inverses of square matrices"""
    _check_square(at, a)
    return factors.inverse(at.b, a)


def solved(at: NodeContext, a: Value, y: Value, *, left: bool = True) -> Value:
    """The x of a x = y, or of x a = y"""
    _check_square(at, a)
    b, vector = at.b, rank_of(y) == rank_of(a) - 1
    y = b.reshape(y, (*dims_of(y), 1)) if vector else y
    return b.reshape(_from_a_side(b, factors.solve, a, y, left), at.dims)


def with_failures(function: Callable[..., Value]) -> Translation:
    """The same; and which pivot of the first operand is 0"""

    def translate(
        at: NodeContext, a: Value, *others: Value, check_errors: bool = False, **how: Any
    ) -> Parts:
        result, last = function(at, a, *others, **how), at.parts - 1
        _only(at, 0, last)
        failed = factors.singular_at(at.b, a) if at.is_read(last) else None
        return (result, *[None] * (last - 1), failed)

    return translate


def _from_a_side(
    b: Builder, solve: Callable[[Builder, Value, Value], Value], a: Value, y: Value, left: bool
) -> Value:
    """The x of a x = y, or of x a = y; stacks are made alike."""
    if not left:
        a, y = transposed(b, a), transposed(b, y)
    lead = common_lead(b, dims_of(a), dims_of(y))
    solution = solve(b, *(_stacked(b, x, lead) for x in (a, y)))
    return solution if left else transposed(b, solution)


def _stacked(b: Builder, x: Value, lead: Sequence[Dim]) -> Value:
    own = dims_of(x)
    x = b.reshape(x, (*[1] * (len(lead) + 2 - len(own)), *own))
    return b.broadcast(x, (*lead, *own[-2:]), range(len(lead) + 2))


def determinant(at: NodeContext, a: Value) -> Value:
    """The determinants of square matrices"""
    _check_square(at, a)
    return factors.determinant(at.b, a)


def log_determinant(at: NodeContext, a: Value) -> tuple[Value, Value]:
    """The signs of determinants, and the logarithms of their sizes"""
    _check_square(at, a)
    return factors.log_determinant(at.b, a)


def with_factors(
    function: Callable[[NodeContext, Value], Value | tuple[Value, ...]],
) -> Translation:
    """The same, with two factors that PyTorch keeps for its own backward pass"""

    def translate(at: NodeContext, a: Value) -> Parts:
        result = function(at, a)
        results = result if isinstance(result, tuple) else (result,)
        _only(at, *range(len(results)))
        return (*results, None, None)

    return translate


def cholesky_and_failures(
    at: NodeContext, a: Value, *, upper: bool = False, check_errors: bool = False
) -> tuple[Value, Value]:
    """Cholesky's factors of symmetric matrices; and which leading minor is not positive"""
    _check_square(at, a)
    factor, failed = factors.cholesky(at.b, transposed(at.b, a) if upper else a)
    return transposed(at.b, factor) if upper else factor, failed


def cholesky(at: NodeContext, a: Value, upper: bool = False) -> Value:
    """Cholesky's factors of symmetric matrices"""
    return cholesky_and_failures(at, a, upper=upper)[0]


def solved_triangular(
    at: NodeContext,
    a: Value,
    y: Value,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """The x of a x = y, or of x a = y, of triangles"""
    _check_square(at, a)
    upper = upper == left

    def solve(b: Builder, a: Value, y: Value) -> Value:
        return factors.solve_triangular(b, a, y, upper, unitriangular)

    return _from_a_side(at.b, solve, a, y, left)


def solved_triangular_of(
    at: NodeContext,
    y: Value,
    a: Value,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Value, Value]:
    """The x of a x = y, or of aᵀ x = y, of triangles; and a"""
    own = transposed(at.b, a) if transpose else a
    solution = solved_triangular(at, own, y, upper=upper != transpose, unitriangular=unitriangular)
    return solution, a


def solved_by_cholesky(at: NodeContext, y: Value, factor: Value, upper: bool = False) -> Value:
    """The x of a x = y, by Cholesky's factor of a"""
    other = transposed(at.b, factor)
    lower, higher = (other, factor) if upper else (factor, other)
    half = solved_triangular(at, lower, y, upper=False)
    return solved_triangular(at, higher, half, upper=True)


def inverted_by_cholesky(at: NodeContext, factor: Value, upper: bool = False) -> Value:
    """The inverse of a, by Cholesky's factor of a"""
    return solved_by_cholesky(
        at, factors.identity(at.b, dims_of(factor), dtype_of(factor)), factor, upper
    )


def reflections(at: NodeContext, vectors: Value, scales: Value) -> Value:
    """The first columns of a product of Householder's reflections"""
    return factors.reflections(at.b, vectors, scales)


def orthogonal_factors(at: NodeContext, a: Value, mode: str = "reduced") -> Parts:
    """The q and r of q r = a, r being an upper triangle"""
    rows, columns = dims_of(a)[-2:]
    if not (rows.is_static and columns.is_static):
        at.refuse(f"qr of matrices of {rows} x {columns} is not supported", "fixed sizes")
    if mode == "complete" and int(rows) > int(columns):
        at.refuse("the last columns of a complete q are not unique", "mode='reduced'")
    q, r = factors.orthogonal_factors(at.b, a)
    if mode != "r":
        return q, r
    _only(at, 1)
    return None, r


def exponential(at: NodeContext, a: Value) -> Value:
    """The exponentials of square matrices; NaN where ‖a‖ is beyond 5986 (float64: 1227)"""
    return factors.exponential(at.b, a)


def _only(at: NodeContext, *parts: int) -> None:
    """What PyTorch keeps for its own backward passes is not made."""
    if any(at.is_read(part) for part in set(range(at.parts)) - set(parts)):
        at.refuse("its factors are not supported, its results are")


def _check_square(at: NodeContext, x: Value) -> None:
    rows, columns = dims_of(x)[-2:]
    if rows != columns:
        at.refuse(f"a matrix of {rows} x {columns} is not known to be square")


OPERATORS: Table = {
    "_scaled_dot_product_attention_math": scaled_attention,
    "_linalg_check_errors": checked,
    "_linalg_det": with_factors(determinant),
    "_linalg_slogdet": with_factors(log_determinant),
    "linalg_det": determinant,
    "linalg_slogdet": log_determinant,
    "_linalg_solve_ex": with_failures(solved),
    **dict.fromkeys(("cholesky", "linalg_cholesky"), cholesky),
    **dict.fromkeys(("inverse", "linalg_inv"), inverted),
    "linalg_solve": solved,
    "cholesky_inverse": inverted_by_cholesky,
    "cholesky_solve": solved_by_cholesky,
    "linalg_cholesky_ex": cholesky_and_failures,
    "linalg_inv_ex": with_failures(inverted),
    "linalg_householder_product": reflections,
    "linalg_matrix_exp": exponential,
    "linalg_qr": orthogonal_factors,
    "linalg_solve_ex": with_failures(solved),
    "linalg_solve_triangular": solved_triangular,
    "triangular_solve": solved_triangular_of,
    "_trilinear": trilinear,
    **dict.fromkeys(("mm", "bmm"), of_one_type(mm)),
    **dict.fromkeys(("addmm", "baddbmm"), of_one_type(addmm)),
    "addbmm": of_one_type(addbmm),
    "linear": of_one_type(linear),
    "matmul": of_one_type(matmul),
    "mv": of_one_type(mv),
    "dot": of_one_type(dot),
}
