"""How large sizes may be, so that formulas of them fit in 64 bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rnncc.ir.dims import Atom, Dim, product
from rnncc.ir.monomials import Monomial

LARGEST_SIZE, LARGEST_PRODUCT = 2**31 - 1, 2**40
"""Bounds on each symbol and on the product of all; the bytes of an element and the other
coefficients of a formula have what is left. Where the machine computes with 32 bits, the first is
one on the product too, as numbers of elements fit there."""
EPSILON = 1e-6
"""More than a root of LARGEST_PRODUCT is off."""


def power_bounds(formulas: Iterable[Dim]) -> tuple[Dim, ...]:
    """What is negative where a product with a power of a size, such as T*T*N, is too large.

    They are to be checked along with the bounds above, in any order: each fits in 64 bits where
    those before it are not negative, as a size that occurs more than once is bounded by itself
    first, then each longer product.
    """
    bounds = dict[Dim, None]()
    for factors in sorted({_factors(m) for dim in formulas for m, _ in dim.terms}):
        powers = Counter(factors)
        repeated = {name: power for name, power in powers.items() if power > 1}
        for name, power in repeated.items():
            bounds[int(LARGEST_PRODUCT ** (1 / power) + EPSILON) - Dim.of(name)] = None
        so_far = product(map(Dim.of, powers))
        for name, power in repeated.items():
            for _ in range(power - 1):
                so_far *= Dim.of(name)
                bounds[LARGEST_PRODUCT - so_far] = None
    return tuple(bounds)


def _factors(monomial: Monomial) -> Monomial:
    """The symbols of a product; a quotient or excess counts as what it is taken of."""
    names = list[str]()
    for factor in monomial:
        names += _inside(factor).elements() if isinstance(factor, Atom) else [factor]
    return tuple(sorted(names))


def _inside(atom: Atom) -> Counter[str]:
    """Each symbol as often as in the product that has it most often."""
    most = Counter[str]()
    for monomial, _ in atom.inner.terms:
        most |= Counter(_factors(monomial))
    return most
