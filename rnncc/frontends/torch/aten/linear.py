"""Products of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Number, Site, Table, Value, rank_of
from rnncc.ir.types import dims_of
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
