"""Arithmetic and comparisons of sizes that may be formulas, as far as they can be decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any

import numpy as np

from rnncc.frontends.onnx.values import Array, as_objects, varies
from rnncc.ir import size_proofs
from rnncc.ir.dims import MOST_DIVISOR, Dim
from rnncc.ir.size_proofs import is_natural


class Undecided(Exception):
    """The answer depends on what a symbol is, or has no formula."""


def by_element(function: Callable[[Dim, Dim], Any], a: Array, b: Array) -> Array | None:
    """A function of two sizes over arrays of them; None where it is undecided for some."""
    left, right = np.broadcast_arrays(as_objects(a), as_objects(b))
    results: Array = np.empty(left.shape, object)
    try:
        results.reshape(-1)[:] = [
            function(x, y) for x, y in zip(left.flat, right.flat, strict=True)
        ]
    except Undecided:
        return None
    return results


def add(x: Dim, y: Dim) -> Dim:
    """x + y"""
    return x + y


def subtract(x: Dim, y: Dim) -> Dim:
    """x - y"""
    return x - y


def multiply(x: Dim, y: Dim) -> Dim:
    """x · y"""
    return x * y


def divide(x: Dim, y: Dim, facts: Sequence[Dim] = ()) -> Dim:
    """x / y, rounded towards zero, knowing formulas that are not negative."""
    if y == 0:
        raise Undecided
    if not y.is_static:
        exact = x.divide(y)
        if exact is None:
            raise Undecided
        return exact
    count = abs(int(y))
    if count > MOST_DIVISOR and not x.is_static:
        raise Undecided
    quotient = _truncated(x, count, facts)
    return _settled(quotient if int(y) > 0 else -quotient)


def _truncated(x: Dim, count: int, facts: Sequence[Dim]) -> Dim:
    """x / count, rounded towards zero for all sizes, 0 among them: (T - 1) / 2 is 0 of none."""
    if is_natural(x, facts):
        return x.under(count)
    if is_natural(x + (count - 1), facts):  # what is negative is less than a whole divisor
        return x.under(count).excess()
    up = x.excess()
    return up.under(count) - (up - x).under(count)


def exact_quotient(x: Dim, y: Dim) -> Dim:
    """x / y where that is an integer for all symbols."""
    quotient = x.divide(y)
    if quotient is None:
        raise Undecided
    return quotient


def floored(x: Dim, y: Dim) -> Dim:
    """⌊x / y⌋"""
    if not y.is_static:
        return _floored_by_open(x, y)
    if y == 0 or (abs(int(y)) > MOST_DIVISOR and not x.is_static):
        raise Undecided
    return _settled(x.under(int(y)) if int(y) > 0 else (-x).under(-int(y)))


def _floored_by_open(x: Dim, y: Dim) -> Dim:
    """⌊x / y⌋ where it is the same for all y, which are at least 1 where they divide."""
    facts = (y - 1,)
    if is_natural(x) and is_natural(y - x - 1, facts):
        return Dim.of(0)
    if is_natural(-x - 1) and is_natural(x + y, facts):
        return Dim.of(-1)
    return exact_quotient(x, y)


def raised(x: Dim, y: Dim) -> Dim:
    """⌈x / y⌉"""
    return -floored(-x, y)


def modulo(x: Dim, y: Dim) -> Dim:
    """x - y · ⌊x / y⌋"""
    return x - y * floored(x, y)


def remainder(x: Dim, y: Dim) -> Dim:
    """x - y · (x / y, rounded towards zero)"""
    return x - y * divide(x, y)


def magnitude(x: Dim) -> Dim:
    """|x|"""
    return larger(x, -x)


def smaller(x: Dim, y: Dim, facts: Sequence[Dim] = ()) -> Dim:
    """min(x, y), knowing formulas that are not negative."""
    return _settled(size_proofs.smaller(x, y, facts))


def larger(x: Dim, y: Dim, facts: Sequence[Dim] = ()) -> Dim:
    """max(x, y), knowing formulas that are not negative."""
    return _settled(size_proofs.larger(x, y, facts))


def _settled(formula: Dim) -> Dim:
    """A formula; `Undecided` where an iteration's number is in what is no polynomial of it."""
    if any(varies(atom.inner) for atom in formula.atoms):
        raise Undecided
    return formula


def decide(kind: str, x: Dim, y: Dim, facts: Sequence[Dim] = ()) -> bool:
    """A comparison, knowing that symbols are at least 0, and so are some formulas.

    Raises:
        Undecided: it depends on the symbols.
    """
    if kind in ("eq", "ne"):
        return _equal(x, y, facts) == (kind == "eq")
    if kind in ("gt", "ge"):
        return not decide({"gt": "le", "ge": "lt"}[kind], x, y, facts)
    rest = y - x if kind == "le" else y - x - 1
    if is_natural(rest, facts):
        return True
    if is_natural(-rest - 1, facts):
        return False
    raise Undecided


def _equal(x: Dim, y: Dim, facts: Sequence[Dim]) -> bool:
    rest = x - y
    if rest.is_static:
        return int(rest) == 0
    if is_natural(rest - 1, facts) or is_natural(-rest - 1, facts):
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


def comparison(kind: str) -> Callable[..., bool]:
    """A comparison of two sizes, knowing formulas that are not negative."""
    return partial(decide, kind)
