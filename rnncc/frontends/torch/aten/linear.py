"""Products of aten."""

from __future__ import annotations

import math

from rnncc.frontends.torch.site import Number, Site, Table, Value, rank_of
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.attention import attend
from rnncc.nn.linear import MAX_INVERTED, inverse
from rnncc.nn.linear import matmul as nn_matmul


def mm(at: Site, a: Value, b: Value) -> Value:
    """a · b"""
    return at.b.matmul(a, b)


def addmm(at: Site, c: Value, a: Value, b: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta · c + alpha · a · b"""
    return at.b.add(at.scaled(at.b.matmul(a, b), alpha), at.scaled(c, beta))


def linear(at: Site, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x · weightᵀ + bias"""
    rows = x if rank_of(x) > 1 else at.b.reshape(x, (1, *dims_of(x)))
    product = at.b.reshape(at.b.matmul(rows, weight, transpose_b=True), at.dims)
    return product if bias is None else at.b.add(product, bias)


def matmul(at: Site, a: Value, b: Value) -> Value:
    """a · b, as NumPy has it"""
    return nn_matmul(at.b, a, b)


def mv(at: Site, a: Value, x: Value) -> Value:
    """a · x, as row x · aᵀ"""
    row = at.b.reshape(x, (1, *dims_of(x)))
    return at.b.reshape(at.b.matmul(row, a, transpose_b=True), at.dims)


def dot(at: Site, x: Value, y: Value) -> Value:
    """The sum of x · y"""
    return at.b.reduce("sum", at.b.mul(x, y), [0])


def scaled_attention(
    at: Site,
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
    return attend(b, query, key, value, None if scale is None else float(scale), mask)


def inverted(at: Site, x: Value, *_: object, **__: object) -> tuple[Value, Value]:
    """The inverses of square matrices of known sizes; and 0, as PyTorch's code of a success"""
    _check_square(at, x)
    return inverse(at.b, x), at.b.fill(0, dims_of(x)[:-2], "i32")


def solved(at: Site, a: Value, y: Value, *, left: bool = True, **_: object) -> tuple[Value, Value]:
    """The x of a x = y, or of x a = y, by the inverse of a; and 0 for success"""
    _check_square(at, a)
    b, vector = at.b, rank_of(y) == rank_of(a) - 1
    y = b.reshape(y, (*dims_of(y), 1)) if vector else y
    made = nn_matmul(b, inverse(b, a), y) if left else nn_matmul(b, y, inverse(b, a))
    return b.reshape(made, at.dims), b.fill(0, dims_of(a)[:-2], "i32")


def _check_square(at: Site, x: Value) -> None:
    rows, columns = dims_of(x)[-2:]
    if rows != columns or not rows.is_static or int(rows) > MAX_INVERTED:
        at.refuse(f"inverting {rows} x {columns} is not supported", f"{MAX_INVERTED} rows are")


OPERATORS: Table = {
    "_scaled_dot_product_attention_math": scaled_attention,
    "linalg_inv_ex": inverted,
    "linalg_solve_ex": solved,
    "mm": mm,
    "bmm": mm,
    "addmm": addmm,
    "baddbmm": addmm,
    "linear": linear,
    "matmul": matmul,
    "mv": mv,
    "dot": dot,
}
