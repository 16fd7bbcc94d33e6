"""Products of sizes, of which formulas are sums: `T*N`, or `-3*T*N` with a coefficient."""

from __future__ import annotations

from rnncc.sizes import TIME

Monomial = tuple[str, ...]
"""Factors of one product, in reading order: symbols and atoms. `()` is the constant's."""
Term = tuple[Monomial, int]
"""Such a product and its coefficient."""


def in_reading_order(factors: Monomial) -> Monomial:
    """The same product, time first: T*N rather than N*T."""
    return tuple(sorted(factors, key=_order))


def _order(name: str) -> tuple[bool, str]:
    return name != TIME, name


def term_text(monomial: Monomial, factor: int) -> str:
    """A product as a formula has it: `-3*T*N`."""
    if not monomial:
        return str(factor)
    if factor in (1, -1):
        return ("-" if factor < 0 else "") + "*".join(monomial)
    return "*".join((str(factor), *monomial))


def divided(term: Term, lead: Term) -> Term | None:
    """A term divided by another, None where it does not divide."""
    rest = without(term[0], lead[0])
    return None if rest is None or term[1] % lead[1] else (rest, term[1] // lead[1])


def without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """A product of names divided by another, None where it does not divide."""
    rest = list(monomial)
    for name in part:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)
