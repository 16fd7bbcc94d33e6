"""Dropout: which elements are dropped follows from a seed, an input of the net."""

from __future__ import annotations

from rnncc.frontends.torch.site import Site, Table, Value
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of


def dropout(at: Site, x: Value, p: float, train: bool) -> Value:
    """x with some elements 0, the others larger by as much; x itself out of training"""
    return dropped(at, x, p) if train else x


def native_dropout(at: Site, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """The same, and where it was kept"""
    if train is False or p == 0:
        return x, at.b.fill(1, dims_of(x), "i1")
    kept = _kept(at, x, p)
    return _masked(at, x, kept, p), kept


def dropped(at: Site, x: Value, p: float) -> Value:
    """x with each element 0 with probability p, and divided by 1 - p otherwise."""
    return x if p == 0 else _masked(at, x, _kept(at, x, p), p)


def _kept(at: Site, x: Value, p: float) -> Value:
    b = at.b
    count = product(dims_of(x))
    index = b.reshape(b.iota([count], 0), dims_of(x))
    drawn = b.uniform(at.random.seed(), index, at.random.stream())
    return b.compare("ge", drawn, b.fill(p, ()))


def _masked(at: Site, x: Value, kept: Value, p: float) -> Value:
    grown = at.b.mul(x, at.b.full_like(x, 1 / (1 - p))) if p < 1 else x
    return at.b.select(kept, grown, at.b.full_like(x, 0.0))


OPERATORS: Table = {
    "dropout": dropout,
    "native_dropout": native_dropout,
}
