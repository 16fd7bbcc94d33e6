"""Arithmetic of uint64 numbers, of which an int64 holds the bits.

What is the same for both, sums, differences and products, needs no functions of its own.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder

TOP = 2.0**63
"""What the sign bit of an int64 counts in an uint64."""


def less(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Whether x < y."""
    return b.compare("lt", ordered(b, x), ordered(b, y))


def ordered(b: Builder, x: SSAValue) -> SSAValue:
    """x less 2⁶³, which is ordered as signed numbers are."""
    return b.add(x, b.full_like(x, -TOP))


def minimum(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The smaller one."""
    return b.select(less(b, x, y), *b.broadcast_together(x, y))


def maximum(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The larger one."""
    return b.select(less(b, y, x), *b.broadcast_together(x, y))


def shift_right(b: Builder, x: SSAValue, places: SSAValue) -> SSAValue:
    """x with its bits moved down and zeros behind them, nothing left of 64 places or more."""
    x, places = b.broadcast_together(x, places)
    one, none = b.full_like(x, 1), b.compare("eq", places, b.full_like(x, 0))
    return b.select(none, x, b.bits("right", _half(b, x), b.sub(places, one)))


def divide(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """⌊x / y⌋; 0 where y is 0.

    Half of x is a signed number; twice its quotient by a y that is one too is the result or one
    less. A y beyond that goes into x at most once.
    """
    x, y = b.broadcast_together(x, y)
    zero, one = b.full_like(x, 0), b.full_like(x, 1)
    twice = b.mul(b.div(_half(b, x), y), b.full_like(x, 2))
    more = b.logical_not(less(b, b.sub(x, b.mul(twice, y)), y))
    once = b.select(less(b, x, y), zero, one)
    quotient = b.select(b.compare("lt", y, zero), once, b.add(twice, b.cast(more, "i64")))
    return b.select(b.compare("eq", y, zero), zero, quotient)


def _half(b: Builder, x: SSAValue) -> SSAValue:
    """⌊x / 2⌋, which has no sign bit."""
    most = b.bits("xor", b.full_like(x, -TOP), b.full_like(x, -1))
    return b.bits("and", b.bits("right", x, b.full_like(x, 1)), most)


def remainder(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x - ⌊x / y⌋ · y; x where y is 0."""
    return b.sub(x, b.mul(divide(b, x, y), y))


def to_float(b: Builder, x: SSAValue, dtype: str) -> SSAValue:
    """x as a float, rounded once: above 2⁶³ from its half, whose last bit stands for all below."""
    odd = b.bits("and", x, b.full_like(x, 1))
    half = b.cast(b.bits("or", _half(b, x), odd), dtype)
    large = b.compare("lt", x, b.full_like(x, 0))
    return b.select(large, b.add(half, half), b.cast(x, dtype))


def of_float(b: Builder, x: SSAValue) -> SSAValue:
    """A float as uint64, towards zero; negative ones modulo 2⁶⁴, as int64."""
    top = b.full_like(x, TOP)
    large = b.compare("ge", x, top)
    low = b.cast(b.select(large, b.sub(x, top), x), "i64")
    return b.select(large, b.add(low, b.full_like(low, -TOP)), low)
