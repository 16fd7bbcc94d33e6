"""Activations and other functions of one number, each with one formula that all front ends use.

Values are within 4 ulp of the exact ones, of which those that are no normal floats are no
exception, unless a function says otherwise; no slope of a finite number is NaN where the exact one
is a number. Where a function has a kink its slope there is that of the left side.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.composites import plus, times

UNDERFLOW = -87.0
"""Little above where e^x is no normal float any more, and `rnn.exp` gives 0."""
HUGE = 80.0
"""Little below where e^x overflows."""
LARGE = 1e4
"""x² + 1 is x² from here on."""


def clamp(b: Build, x: SSAValue, low: float, high: float) -> SSAValue:
    """x, held within low and high"""
    return b.maximum(b.minimum(x, b.full_like(x, high)), b.full_like(x, low))


def leaky_relu(b: Build, x: SSAValue, slope: float) -> SSAValue:
    """x above 0, slope · x below"""
    return b.select(_positive(b, x), x, times(b, x, slope))


def hard_sigmoid(b: Build, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    """alpha · x + beta, held within 0 and 1"""
    return clamp(b, plus(b, times(b, x, alpha), beta), 0.0, 1.0)


def elu(
    b: Build, x: SSAValue, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> SSAValue:
    """scale · x above 0, scale · alpha · (e^(input_scale · x) - 1) below"""
    low = _scaled(b, b.minimum(x, b.full_like(x, 0.0)), input_scale)
    below = _scaled(b, b.expm1(low), scale * alpha)
    return b.select(_positive(b, x), _scaled(b, x, scale), below)


def softplus(b: Build, x: SSAValue) -> SSAValue:
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)

    -|x| is the smaller of x and -x: of equal ones the slope goes to x, so that it is 1/2 at 0.
    """
    return b.add(b.relu(x), b.log1p(_exp_below(b, b.minimum(x, b.neg(x)))))


def log_sigmoid(b: Build, x: SSAValue) -> SSAValue:
    """ln sigmoid x = -ln(1 + e^-x)"""
    return b.neg(softplus(b, b.neg(x)))


def silu(b: Build, x: SSAValue, beta: float = 1.0) -> SSAValue:
    """x · sigmoid(beta · x), within 4 ulp where the sigmoid is a normal float, else 0"""
    return b.mul(x, b.sigmoid(_scaled(b, x, beta)))


def mish(b: Build, x: SSAValue) -> SSAValue:
    """x · tanh(ln(1 + e^x)), 0 where e^x is no normal float

    With w = e^-|x| the hyperbolic tangent is n / (n + 2), n = w (w + 2), below 0, and
    m / (m + 2w²), m = 1 + 2w, above. Far above it is 1 and its slope 0, which x times a large
    number times 0 would not be.
    """
    held = b.minimum(x, b.full_like(x, 40.0))
    w = b.exp(b.minimum(held, b.neg(held)))
    n, m = b.mul(w, plus(b, w, 2.0)), plus(b, times(b, w, 2.0), 1.0)
    more = b.add(m, times(b, b.mul(w, w), 2.0))
    above = _positive(b, x)
    ratio = b.div(b.select(above, m, n), b.select(above, more, plus(b, n, 2.0)))
    return b.mul(x, ratio)


def soft_sign(b: Build, x: SSAValue) -> SSAValue:
    """x / (1 + |x|)"""
    return b.div(x, plus(b, b.abs(x), 1.0))


def gelu(b: Build, x: SSAValue, by_tanh: bool = False) -> SSAValue:
    """x/2 · (1 + erf(x/√2)); or with tanh(u), u = √(2/π) · (x + 0.044715 x³), in the place of erf

    The latter is x · sigmoid(2u), which loses nothing to cancellation, but up to |2u| ulp to the
    rounding of u. Of the former the error is relative to x rather than to the value.
    """
    if not by_tanh:
        return b.mul(times(b, x, 0.5), plus(b, b.erf(times(b, x, math.sqrt(0.5))), 1.0))
    held = clamp(b, x, -20.0, 20.0)
    cube = b.mul(b.mul(held, held), held)
    inner = times(b, b.add(held, times(b, cube, 0.044715)), 2 * math.sqrt(2 / math.pi))
    return b.mul(x, b.sigmoid(inner))


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


def _scaled(b: Build, x: SSAValue, factor: float) -> SSAValue:
    return x if factor == 1 else times(b, x, factor)


def _positive(b: Build, x: SSAValue) -> SSAValue:
    return b.compare("gt", x, b.full_like(x, 0.0))


def _exp_below(b: Build, x: SSAValue) -> SSAValue:
    """e^x where x is not above 0; as a square where the result is no normal float."""
    far = b.compare("lt", x, b.full_like(x, UNDERFLOW))
    e = b.exp(b.select(far, times(b, x, 0.5), x))
    return b.select(far, b.mul(e, e), e)


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
