"""Tangent, arc functions, hyperbolic ones and their inverses, as accurate as `activations` says."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.nn.arithmetic import clamp, has_sign, plus, reciprocal, times, with_sign
from rnncc.nn.ranges import range_of
from rnncc.nn.slopes import with_backward


def tan(b: Builder, x: SSAValue) -> SSAValue:
    """sin x / cos x"""
    return b.div(b.sin(x), b.cos(x))


def atan(b: Builder, x: SSAValue) -> SSAValue:
    """The angle whose tangent is x.

    Of |x| above 1 it is π/2 - atan(1 / |x|), of r above tan(π/8) π/4 + atan((r - 1) / (r + 1)).
    """
    size = b.abs(x)
    above = b.compare("gt", size, b.full_like(x, 1.0))
    r = b.select(above, reciprocal(b, b.select(above, size, b.full_like(x, 1.0))), size)
    middle = b.compare("gt", r, b.full_like(x, math.tan(math.pi / 8)))
    s = b.select(middle, b.div(plus(b, r, -1.0), plus(b, r, 1.0)), r)
    square = b.mul(s, s)
    terms = range_of(x).atan
    total = b.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = plus(b, b.mul(total, square), term)
    y = b.mul(total, s)
    y = b.select(middle, plus(b, y, math.pi / 4), y)
    y = b.select(above, b.sub(b.full_like(x, math.pi / 2), y), y)
    return _with_sign(b, x, y)


def atan2(b: Builder, y: SSAValue, x: SSAValue) -> SSAValue:
    """The angle of the point (x, y), from -π to π; as C's `atan2` of zeros and infinities.

    The smaller coordinate over the larger has the angle from the nearer axis.
    """
    most = range_of(x).largest
    # Two infinities become equal numbers, whose quotient is 1 and not NaN.
    y, x = (clamp(b, operand, -most, most) for operand in b.broadcast_together(y, x))
    steep = b.compare("gt", b.abs(y), b.abs(x))
    above, below = b.select(steep, x, y), b.select(steep, y, x)
    none = b.compare("eq", below, b.full_like(below, 0.0))
    # At (0, 0) it is flat, as in PyTorch.
    above = b.select(none, b.stop_gradient(above), above)
    angle = atan(b, b.div(above, b.select(none, b.full_like(below, 1.0), below)))
    quarter_turn = with_sign(b, b.full_like(y, math.pi / 2), y)
    half_turn = with_sign(b, b.full_like(y, math.pi), y)
    behind = b.select(has_sign(b, b.stop_gradient(x)), b.add(half_turn, angle), angle)
    return b.select(steep, b.sub(quarter_turn, angle), behind)


def asin(b: Builder, x: SSAValue) -> SSAValue:
    """The angle whose sine is x: 2 · atan(x / (1 + √(1 - x²)))"""
    y = times(b, atan(b, b.div(x, plus(b, _opposite(b, x), 1.0))), 2.0)
    return with_backward(b, y, x, lambda b, dy, x: b.div(dy, _opposite(b, x)))


def acos(b: Builder, x: SSAValue) -> SSAValue:
    """The angle whose cosine is x: 2 · atan(√(1 - x) / √(1 + x))"""
    ratio = b.div(b.sqrt(b.sub(b.full_like(x, 1.0), x)), b.sqrt(plus(b, x, 1.0)))
    y = times(b, atan(b, ratio), 2.0)
    return with_backward(b, y, x, lambda b, dy, x: b.neg(b.div(dy, _opposite(b, x))))


def _opposite(b: Builder, x: SSAValue) -> SSAValue:
    """√(1 - x²)"""
    return b.sqrt(_one_less_square(b, x))


def _one_less_square(b: Builder, x: SSAValue) -> SSAValue:
    """1 - x², exact next to 1"""
    return b.mul(b.sub(b.full_like(x, 1.0), x), plus(b, x, 1.0))


def sinh(b: Builder, x: SSAValue) -> SSAValue:
    """(e^x - e^-x) / 2, with e^|x| - 1 = m as ±(m + m / (m + 1)) / 2"""
    m = b.expm1(b.minimum(b.abs(x), b.full_like(x, range_of(x).huge)))
    y = times(b, b.add(m, b.div(m, plus(b, m, 1.0))), 0.5)
    return _with_sign(b, x, _or_half_exp(b, x, y))


def cosh(b: Builder, x: SSAValue) -> SSAValue:
    """(e^x + e^-x) / 2, with e^|x| - 1 = m : 1 + m²/(m + 1)/2, with its slope near 0"""
    m = b.expm1(b.minimum(b.abs(x), b.full_like(x, range_of(x).huge)))
    above_one = times(b, b.mul(m, b.div(m, plus(b, m, 1.0))), 0.5)
    return _or_half_exp(b, x, plus(b, above_one, 1.0))


def asinh(b: Builder, x: SSAValue) -> SSAValue:
    """±ln(1 + a + a² / (1 + √(a² + 1))) with a = |x|; of large ones ±(ln a + ln 2)"""
    size = b.abs(x)
    a = b.minimum(size, b.full_like(x, range_of(x).large))
    square = b.mul(a, a)
    root = b.sqrt(plus(b, square, 1.0))
    small = b.log1p(b.add(a, b.div(square, plus(b, root, 1.0))))
    return _with_sign(b, x, _or_log_of_double(b, size, small))


def acosh(b: Builder, x: SSAValue) -> SSAValue:
    """ln(1 + t + √t √(t + 2)) with t = x - 1; of large ones ln x + ln 2"""
    t = plus(b, b.minimum(x, b.full_like(x, range_of(x).large)), -1.0)
    root = b.mul(b.sqrt(t), b.sqrt(plus(b, t, 2.0)))
    return _or_log_of_double(b, x, b.log1p(b.add(t, root)))


def atanh(b: Builder, x: SSAValue) -> SSAValue:
    """±ln(1 + 2a / (1 - a)) / 2 with a = |x|"""
    a = b.abs(x)
    ratio = b.div(times(b, a, 2.0), b.sub(b.full_like(x, 1.0), a))
    y = _with_sign(b, x, times(b, b.log1p(ratio), 0.5))
    return with_backward(b, y, x, lambda b, dy, x: b.div(dy, _one_less_square(b, x)))


def _or_half_exp(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """y, or e^|x| / 2 = e^(|x| - 1) · e/2 where e^|x| might overflow."""
    size = b.abs(x)
    half = times(b, b.exp(plus(b, size, -1.0)), math.e / 2)
    return b.select(b.compare("gt", size, b.full_like(x, range_of(x).huge)), half, y)


def _or_log_of_double(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """y, or ln 2x where x is large."""
    far = b.compare("gt", x, b.full_like(x, range_of(x).large))
    bounded = b.maximum(x, b.full_like(x, range_of(x).large))
    return b.select(far, plus(b, b.log(bounded), math.log(2)), y)


def _with_sign(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """An odd function of x from its value of |x|; of 0 it is x itself, sign and slope."""
    zero = b.full_like(x, 0.0)
    signed = b.select(b.compare("lt", x, zero), b.neg(y), y)
    return b.select(b.compare("eq", x, zero), x, signed)
