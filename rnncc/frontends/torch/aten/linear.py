"""Products of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Number, Site, Table, Value, rank_of
from rnncc.ir.types import dims_of


def mm(at: Site, a: Value, b: Value) -> Value:
    """A · b"""
    return at.b.matmul(a, b)


def addmm(at: Site, c: Value, a: Value, b: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """Beta · c + alpha · a · b"""
    product = at.b.matmul(a, b)
    product = product if alpha == 1 else at.b.mul(product, at.value(alpha))
    c = c if beta == 1 else at.b.mul(c, at.value(beta))
    return at.b.add(product, c)


def linear(at: Site, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """X · weightᵀ + bias"""
    rows = x if rank_of(x) > 1 else at.b.reshape(x, (1, *dims_of(x)))
    product = at.b.reshape(at.b.matmul(rows, weight, transpose_b=True), at.dims)
    return product if bias is None else at.b.add(product, bias)


def matmul(at: Site, a: Value, b: Value) -> Value:
    """A · b, as NumPy has it"""
    left = at.b.reshape(a, (1, *dims_of(a))) if rank_of(a) == 1 else a
    right = at.b.reshape(b, (*dims_of(b), 1)) if rank_of(b) == 1 else b
    if rank_of(right) > 2 and dims_of(left)[:-2] != dims_of(right)[:-2]:
        left, right = _spread(at, left, right)
    return at.b.reshape(at.b.matmul(left, right), at.dims)


def _spread(at: Site, left: Value, right: Value) -> tuple[Value, Value]:
    """Stacks of matrices, repeated to as many."""
    ones = at.b.fill(0, dims_of(left)[:-2]), at.b.fill(0, dims_of(right)[:-2])
    leading = dims_of(at.b.broadcast_together(*ones)[0])
    rank = len(leading) + 2
    first, second = (
        at.b.broadcast(x, (*leading, *dims_of(x)[-2:]), range(rank - rank_of(x), rank))
        for x in (left, right)
    )
    return first, second


def mv(at: Site, a: Value, x: Value) -> Value:
    """A · x, as row x · aᵀ"""
    row = at.b.reshape(x, (1, *dims_of(x)))
    return at.b.reshape(at.b.matmul(row, a, transpose_b=True), at.dims)


def dot(at: Site, x: Value, y: Value) -> Value:
    """The sum of x · y"""
    return at.b.reduce("sum", at.b.mul(x, y), [0])


OPERATORS: Table = {
    "mm": mm,
    "bmm": mm,
    "addmm": addmm,
    "baddbmm": addmm,
    "linear": linear,
    "matmul": matmul,
    "mv": mv,
    "dot": dot,
}
