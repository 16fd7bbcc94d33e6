"""Modified Bessel functions of the first kind, of orders 0 and 1, in double precision.

Near 0 by their power series, all of whose terms have one sign; further out by the asymptotic one,
whose error is e^-2x of its sum. Both have coefficients by formula.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dtype_of
from rnncc.nn.arithmetic import reciprocal, times, with_sign
from rnncc.nn.special import polynomial

_FAR = 20.0
"""Where the asymptotic series has all digits of a double."""
_NEAR_TERMS, _FAR_TERMS = 48, 24


def bessel_i(b: Builder, x: SSAValue, order: int, scaled: bool = False) -> SSAValue:
    """I₀(x) or I₁(x), times e^-|x| where that is asked for."""
    return b.cast(_in_doubles(b, b.cast(x, "f64"), order, scaled), dtype_of(x))


def _in_doubles(b: Builder, x: SSAValue, order: int, scaled: bool) -> SSAValue:
    size = b.abs(x)
    far = b.compare("gt", size, b.full_like(x, _FAR))
    near = b.select(far, b.full_like(x, 0.0), x)
    half = times(b, near, 0.5)
    inner = polynomial(b, b.mul(half, half), _power_series(order)[::-1])
    inner = b.mul(inner, half) if order else inner
    if scaled:
        inner = b.mul(inner, b.exp(b.neg(b.abs(near))))
    outer_size = b.select(far, size, b.full_like(x, _FAR))
    inverse = reciprocal(b, outer_size)
    outer = b.mul(
        polynomial(b, inverse, _asymptotic_series(order)[::-1]),
        b.sqrt(times(b, inverse, 0.5 / math.pi)),
    )
    if not scaled:  # e^x in two halves: it overflows before the product does
        root = b.exp(times(b, outer_size, 0.5))
        outer = b.mul(b.mul(outer, root), root)
    return b.select(far, with_sign(b, outer, x) if order else outer, inner)


def _power_series(order: int) -> list[float]:
    """1 / (k! (k + order)!), to be taken of (x/2)²."""
    terms = range(_NEAR_TERMS)
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in terms]


def _asymptotic_series(order: int) -> list[float]:
    """Π (4 order² - (2j - 1)²) / (-8 j) over j to k, to be taken of 1 / x."""
    terms = [1.0]
    for j in range(1, _FAR_TERMS):
        terms.append(terms[-1] * (4 * order**2 - (2 * j - 1) ** 2) / (-8 * j))
    return terms
