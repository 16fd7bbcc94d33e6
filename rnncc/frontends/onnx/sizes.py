"""Arithmetic and comparisons of sizes that may be formulas, as far as they can be decided."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np

from rnncc.frontends.onnx.values import Array, as_objects, is_step
from rnncc.ir.dims import Dim


class Undecided(Exception):
    """The answer depends on what a symbol is, or has no formula."""


def by_element(function: Callable[[Dim, Dim], Any], a: Array, b: Array) -> Array | None:
    """A function of two sizes over arrays of them; None where it is undecided for some."""
    left, right = np.broadcast_arrays(as_objects(a), as_objects(b))
    made: Array = np.empty(left.shape, object)
    try:
        made.reshape(-1)[:] = [function(x, y) for x, y in zip(left.flat, right.flat, strict=True)]
    except Undecided:
        return None
    return made


def add(x: Dim, y: Dim) -> Dim:
    """x + y"""
    return x + y


def subtract(x: Dim, y: Dim) -> Dim:
    """x - y"""
    return x - y


def multiply(x: Dim, y: Dim) -> Dim:
    """x · y"""
    return x * y


def divide(x: Dim, y: Dim) -> Dim:
    """x / y, rounded down, which for sizes is towards zero."""
    if y == 0:
        raise Undecided
    if x.is_static and y.is_static:
        quotient = abs(int(x)) // abs(int(y))
        return Dim.of(quotient if (int(x) < 0) == (int(y) < 0) else -quotient)
    exact = x.divide(y)
    if exact is not None:
        return exact
    if y.is_static and int(y) > 1 and _is_never_negative(x):
        count = int(y)
        rest = x.coefficient() % count
        whole = (x - rest).divide(y)
        if whole is not None:
            return whole
        rounded_up = x - (count - 1)
        if len(rounded_up.terms) == 1 and str(rounded_up).isidentifier():
            return rounded_up.over(count)
    raise Undecided


def modulo(x: Dim, y: Dim) -> Dim:
    """x - y · ⌊x / y⌋"""
    if y.is_static and int(y) != 0 and all(f % int(y) == 0 for m, f in x.terms if m):
        return Dim.of(x.coefficient() % int(y))
    raise Undecided


def smaller(x: Dim, y: Dim) -> Dim:
    """The smaller of two."""
    return x if decide("le", x, y) else y


def larger(x: Dim, y: Dim) -> Dim:
    """The larger of two."""
    return y if decide("le", x, y) else x


def decide(kind: str, x: Dim, y: Dim) -> bool:
    """A comparison, knowing that symbols are at least 0.

    Raises:
        Undecided: it depends on the symbols.
    """
    if kind in ("eq", "ne"):
        return _equal(x, y) == (kind == "eq")
    if kind in ("gt", "ge"):
        return not decide({"gt": "le", "ge": "lt"}[kind], x, y)
    rest = y - x if kind == "le" else y - x - 1
    if is_natural(rest):
        return True
    if is_natural(-rest - 1):
        return False
    raise Undecided


def _equal(x: Dim, y: Dim) -> bool:
    rest = x - y
    if rest.is_static:
        return int(rest) == 0
    if is_natural(rest - 1) or is_natural(-rest - 1):
        return False
    if rest.coefficient() % gcd(*(factor for monomial, factor in rest.terms if monomial)):
        return False  # 2*N is never 1
    raise Undecided


def may_equal(x: Dim, y: Dim | int) -> bool:
    """Whether two sizes may be equal, as far as formulas show."""
    try:
        return decide("eq", x, Dim.of(y))
    except Undecided:
        return True


def may_be_natural(dim: Dim) -> bool:
    """Whether a size may be 0 or more, as far as its formula shows."""
    try:
        return decide("ge", dim, Dim.of(0))
    except Undecided:
        return True


def _is_never_negative(dim: Dim) -> bool:
    """Whether a size is 0 or more for all symbols that are at least 1."""
    if any("/" in name for monomial, _ in dim.terms for name in monomial):
        return is_natural(dim)
    sizes = (name for name in dim.symbols if not is_step(name))
    return is_natural(dim.substitute({name: Dim.of(name) + 1 for name in sizes}))


def is_natural(dim: Dim) -> bool:
    """Whether a formula shows that a size is 0 or more."""
    return all(factor >= 0 for _, factor in dim.terms)


def comparison(kind: str) -> Callable[[Dim, Dim], bool]:
    """A comparison of two sizes."""
    return lambda x, y: decide(kind, x, y)
