"""Proofs that a size is never negative, whatever its symbols are, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from rnncc.errors import SizeError
from rnncc.ir.dims import Dim, Excess, Quotient
from rnncc.ir.monomials import Term, without

MOST_CASES = 8
"""Atoms of one proof: each `max` doubles its cases."""


def is_natural(dim: Dim, facts: Sequence[Dim] = ()) -> bool:
    """Whether a formula is known to be 0 or more for all symbols that are 0 or more.

    Args:
        facts: formulas that are 0 or more.
    """
    if dim.is_static and not facts:
        return int(dim) >= 0
    try:
        return _proved(dim, facts, MOST_CASES)
    except SizeError:  # a formula of the proof became too large
        return False


def at_most(a: Dim, b: Dim) -> bool:
    """Whether a ≤ b for sure, no symbol being negative."""
    return is_natural(b - a)


def larger(a: Dim, b: Dim, facts: Sequence[Dim] = ()) -> Dim:
    """max(a, b): one of the two where it is known which."""
    if is_natural(a - b, facts):
        return a
    return b if is_natural(b - a, facts) else b + (a - b).excess()


def smaller(a: Dim, b: Dim, facts: Sequence[Dim] = ()) -> Dim:
    """min(a, b)"""
    return a + b - larger(a, b, facts)


def _proved(dim: Dim, facts: Sequence[Dim], cases: int) -> bool:
    dim = _primitive(dim)
    if _has_no_minus(dim) or any(_has_no_minus(less) for f in facts for less in _less(dim, f)):
        return True
    if cases == 0 or not dim.atoms:
        return False
    atom = max(dim.atoms, key=lambda atom: (atom.depth, atom))
    if isinstance(atom, Excess):
        candidates = ((atom.inner, atom.inner), (Dim.of(0), -atom.inner))
        return all(
            _proved(dim.substitute({atom: value}), (*facts, fact), cases - 1)
            for value, fact in candidates
        )
    assert isinstance(atom, Quotient)
    return _proved(_bounded(dim, atom), facts, cases - 1)


def _primitive(dim: Dim) -> Dim:
    """What is 0 or more if and only if `dim` is: k·a + b ≥ 0 where a ≥ -b/k, as a is an integer."""
    common = gcd(*(factor for monomial, factor in dim.terms if monomial))
    return Dim((monomial, factor // common) for monomial, factor in dim.terms) if common else dim


def _bounded(dim: Dim, atom: Quotient) -> Dim:
    """What is 0 or more only if `dim` is: of the atom its bounds a/k ≤ ⌈a/k⌉ ≤ (a + k - 1)/k.

    All is multiplied by k; as sizes are integers, more than -k is enough for that.
    """
    least, most = atom.inner, atom.inner + (atom.divisor - 1)
    parts = [_times(term, atom, least, most) for term in dim.terms]
    return sum(parts, Dim.of(atom.divisor - 1))


def _times(term: Term, atom: Quotient, least: Dim, most: Dim) -> Dim:
    """A term by the atom's divisor, with a bound in the place of one of its factors."""
    monomial, factor = term
    if atom not in monomial:
        return Dim([(monomial, factor * atom.divisor)])
    others = list(monomial)
    others.remove(atom)
    return Dim([(tuple(others), factor)]) * (least if factor > 0 else most)


def _less(dim: Dim, fact: Dim) -> Iterator[Dim]:
    """A formula less a multiple of a fact, by a number and by sizes, so large that one of its minus
    signs goes."""
    below = [(monomial, factor) for monomial, factor in fact.terms if factor < 0]
    for monomial, factor in dim.terms:
        for taken, by in below if factor < 0 else ():
            times = without(monomial, taken)
            if times is not None and not any(isinstance(name, Quotient) for name in times):
                yield dim - fact * Dim([(times, -(factor // -by))])


def _has_no_minus(dim: Dim) -> bool:
    return all(factor >= 0 for _, factor in dim.terms)
