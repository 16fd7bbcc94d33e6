"""Hyperbolic functions and their inverses, as accurate as `rnncc.nn.activations` says."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.nn.arithmetic import plus, times

HUGE = 80.0
"""Little below where e^x overflows."""
LARGE = 1e4
"""x² + 1 is x² from here on."""


def sinh(b: Build, x: SSAValue) -> SSAValue:
    """(e^x - e^-x) / 2, with e^|x| - 1 = m as ±(m + m / (m + 1)) / 2"""
    m = b.expm1(b.minimum(b.abs(x), b.full_like(x, HUGE)))
    y = times(b, b.add(m, b.div(m, plus(b, m, 1.0))), 0.5)
    return _with_sign(b, x, _or_half_exp(b, x, y))


def cosh(b: Build, x: SSAValue) -> SSAValue:
    """(e^x + e^-x) / 2"""
    e = b.exp(b.minimum(b.abs(x), b.full_like(x, HUGE)))
    return _or_half_exp(b, x, times(b, b.add(e, b.div(b.full_like(x, 1.0), e)), 0.5))


def asinh(b: Build, x: SSAValue) -> SSAValue:
    """±ln(1 + a + a² / (1 + √(a² + 1))) with a = |x|; of large ones ±(ln a + ln 2)"""
    size = b.abs(x)
    a = b.minimum(size, b.full_like(x, LARGE))
    square = b.mul(a, a)
    root = b.sqrt(plus(b, square, 1.0))
    small = b.log1p(b.add(a, b.div(square, plus(b, root, 1.0))))
    return _with_sign(b, x, _or_log_of_double(b, size, small))


def acosh(b: Build, x: SSAValue) -> SSAValue:
    """ln(1 + t + √t √(t + 2)) with t = x - 1; of large ones ln x + ln 2"""
    t = plus(b, b.minimum(x, b.full_like(x, LARGE)), -1.0)
    root = b.mul(b.sqrt(t), b.sqrt(plus(b, t, 2.0)))
    return _or_log_of_double(b, x, b.log1p(b.add(t, root)))


def atanh(b: Build, x: SSAValue) -> SSAValue:
    """±ln(1 + 2a / (1 - a)) / 2 with a = |x|"""
    a = b.abs(x)
    ratio = b.div(times(b, a, 2.0), b.sub(b.full_like(x, 1.0), a))
    return _with_sign(b, x, times(b, b.log1p(ratio), 0.5))


def _or_half_exp(b: Build, x: SSAValue, y: SSAValue) -> SSAValue:
    """y, or e^|x| / 2 = e^(|x| - 1) · e/2 where e^|x| might overflow."""
    size = b.abs(x)
    half = times(b, b.exp(plus(b, size, -1.0)), math.e / 2)
    return b.select(b.compare("gt", size, b.full_like(x, HUGE)), half, y)


def _or_log_of_double(b: Build, x: SSAValue, y: SSAValue) -> SSAValue:
    """y, or ln 2x where x is large."""
    far = b.compare("gt", x, b.full_like(x, LARGE))
    held = b.maximum(x, b.full_like(x, LARGE))
    return b.select(far, plus(b, b.log(held), math.log(2)), y)


def _with_sign(b: Build, x: SSAValue, y: SSAValue) -> SSAValue:
    """An odd function of x from its value of |x|; of 0 it is x itself, sign and slope."""
    zero = b.full_like(x, 0.0)
    signed = b.select(b.compare("lt", x, zero), b.neg(y), y)
    return b.select(b.compare("eq", x, zero), x, signed)
