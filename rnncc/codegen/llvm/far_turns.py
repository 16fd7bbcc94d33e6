"""Quarter turns in numbers that are too large for pi/2 in a few parts.

x · 2/pi is added up from products of x and parts of 2/pi, each of so few bits that the product is
exact in float64 (after Payne and Hanek, 1983). Four whole turns change nothing, so that of each
product only what multiples of 4 leave is added, which is exact too, however large x is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from rnncc.codegen.llvm.vector import VectorEmitter

# The first 256 bits of 2/pi behind the point.
TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
# pi/2 in two parts.
QUARTER = (1.5707963267948966, 6.123233995736766e-17)
# Adding and subtracting 1.5 · 2**52 · unit rounds to multiples of the unit.
ROUNDER = 1.5 * 2.0**52
# From here on float64s whose last bits count are multiples of 4.
MULTIPLES = 2.0**55


def parts_of(bits: int, count: int) -> list[float]:
    """2/pi as the sum of so many numbers of so many bits each, the largest first."""
    ends = range(256 - bits, 256 - bits * (count + 1), -bits)
    return [math.ldexp((TWO_OVER_PI >> end) % (1 << bits), end - 256) for end in ends]


def far_turns(
    e: VectorEmitter, b: ir.IRBuilder, pieces: Sequence[ir.Value], parts: Sequence[float]
) -> tuple[ir.Value, ir.Value]:
    """n's low bits, as integers of 64, and r with x = n pi/2 + r, n the nearest.

    Args:
        pieces: float64s whose sum is x, the largest first; with each part their product is exact.
        parts: the sum is 2/pi.
    """
    wide = pieces[0].type
    n = turns = lost = e.constant(wide, 0.0)
    for part in parts:
        for piece in pieces:
            product = _without_fours(e, b, b.fmul(piece, e.constant(wide, part)))
            turns, error = _exact_sum(b, turns, product)
            whole = _rounded(e, b, turns, 1.0)
            n, turns, lost = b.fadd(n, whole), b.fsub(turns, whole), b.fadd(lost, error)
    high, low = _exact_sum(b, turns, lost)
    first, second = (e.constant(wide, part) for part in QUARTER)
    r = b.fadd(b.fmul(high, first), b.fadd(b.fmul(high, second), b.fmul(low, first)))
    bits = b.bitcast(b.fadd(n, e.constant(wide, ROUNDER)), e.like(ir.IntType(64)))
    return bits, r


def _without_fours(e: VectorEmitter, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """What multiples of 4 leave of x, by way of larger multiples."""
    small = b.fcmp_ordered("<", x, e.constant(x.type, MULTIPLES))
    small = b.and_(small, b.fcmp_ordered(">", x, e.constant(x.type, -MULTIPLES)))
    x = b.select(small, x, e.constant(x.type, 0.0))
    for unit in (2.0**10, 4.0):
        x = b.fsub(x, _rounded(e, b, x, unit))
    return x


def _rounded(e: VectorEmitter, b: ir.IRBuilder, x: ir.Value, unit: float) -> ir.Value:
    rounder = e.constant(x.type, ROUNDER * unit)
    return b.fsub(b.fadd(x, rounder), rounder)


def _exact_sum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x + y rounded, and what the rounding lost (Knuth's)."""
    total = b.fadd(x, y)
    other = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, other)), b.fsub(y, other))
