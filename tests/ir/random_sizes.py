"""Random formulas of sizes, each beside a function that computes it by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from rnncc.ir.dims import Dim

SYMBOLS = ("T", "N", "W_2")
Formula = tuple[Dim, Callable[[Mapping[str, int]], int]]


def _sum(a: Formula, b: Formula, k: int) -> Formula:
    return a[0] + b[0] * k, lambda v: a[1](v) + k * b[1](v)


def _product(a: Formula, b: Formula) -> Formula:
    return a[0] * b[0], lambda v: a[1](v) * b[1](v)


def _over(a: Formula, k: int) -> Formula:
    return a[0].over(k), lambda v: -(-a[1](v) // k)


def _under(a: Formula, k: int) -> Formula:
    return a[0].under(k), lambda v: a[1](v) // k


def _excess(a: Formula) -> Formula:
    return a[0].excess(), lambda v: max(a[1](v), 0)


def _symbol(name: str) -> Formula:
    return Dim.of(name), lambda v: v[name]


def _number(k: int) -> Formula:
    return Dim.of(k), lambda v: k


def _more(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    counts = st.integers(1, 12)
    return st.one_of(
        st.builds(_sum, inner, inner, st.integers(-4, 4)),
        st.builds(_product, inner, LEAVES),
        st.builds(_over, inner, counts),
        st.builds(_under, inner, counts),
        st.builds(_excess, inner),
    )


LEAVES = st.one_of(st.sampled_from(SYMBOLS).map(_symbol), st.integers(-9, 9).map(_number))
FORMULAS = st.recursive(LEAVES, _more, max_leaves=8)
VALUES = st.fixed_dictionaries({name: st.integers(0, 40) for name in SYMBOLS})
