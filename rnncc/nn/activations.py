"""Activations and other functions of one number, each with one formula that all front ends use.

Values are within 4 ulp of the exact ones, of which those that are no normal floats are no
exception, unless a function says otherwise; no slope of a finite number is NaN where the exact one
is a number. Where a function has a kink its slope there is that of the left side.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.nn.arithmetic import clamp, plus, scaled, times
from rnncc.nn.ranges import range_of
from rnncc.nn.slopes import with_backward


def leaky_relu(b: Builder, x: SSAValue, slope: float) -> SSAValue:
    """x above 0, slope · x below"""
    return b.select(_positive(b, x), x, times(b, x, slope))


def prelu(b: Builder, x: SSAValue, slope: SSAValue) -> SSAValue:
    """x from 0 up, slope · x below, of any numbers"""
    below = b.compare("lt", x, b.full_like(x, 0))
    return b.select(below, b.mul(x, slope), x)


def thresholded_relu(b: Builder, x: SSAValue, alpha: float) -> SSAValue:
    """x above alpha, else 0"""
    return b.select(b.compare("gt", x, b.full_like(x, alpha)), x, b.full_like(x, 0.0))


def shrink(b: Builder, x: SSAValue, limit: float, bias: float) -> SSAValue:
    """x + bias below -limit, x - bias above limit, else 0"""
    zero = b.full_like(x, 0.0)
    above = b.select(b.compare("gt", x, b.full_like(x, limit)), plus(b, x, -bias), zero)
    return b.select(b.compare("lt", x, b.full_like(x, -limit)), plus(b, x, bias), above)


def relu6(b: Builder, x: SSAValue) -> SSAValue:
    """x, held within 0 and 6"""
    return b.minimum(b.relu(x), b.full_like(x, 6.0))


def hard_tanh(b: Builder, x: SSAValue) -> SSAValue:
    """x, held within -1 and 1"""
    return clamp(b, x, -1.0, 1.0)


def hard_sigmoid(b: Builder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    """alpha · x + beta, held within 0 and 1"""
    return clamp(b, plus(b, times(b, x, alpha), beta), 0.0, 1.0)


def rational_tanh(b: Builder, x: SSAValue) -> SSAValue:
    """1.7159 f(2x/3), f(u) = sign u · (1 - 1 / (1 + |u| + u² + 1.41645 u⁴))

    Computed as u · (1 + |u| + 1.41645 |u|³) / (1 + |u| + u² + 1.41645 u⁴), smooth at 0.
    """
    u = times(b, x, 2 / 3)
    size = b.abs(u)
    rest = b.add(size, times(b, b.mul(size, b.mul(u, u)), 1.41645))
    factor = plus(b, rest, 1.0)
    whole = plus(b, b.mul(size, factor), 1.0)
    return times(b, b.div(b.mul(u, factor), whole), 1.7159)


def rectified_tanh(b: Builder, x: SSAValue) -> SSAValue:
    """max(0, tanh x)"""
    return b.relu(b.tanh(x))


def cube(b: Builder, x: SSAValue) -> SSAValue:
    """x³"""
    return b.mul(x, b.mul(x, x))


def hard_swish(b: Builder, x: SSAValue) -> SSAValue:
    """x · (x / 6 + 1/2, held within 0 and 1) (Howard et al., 2019)"""
    return b.mul(x, hard_sigmoid(b, x, 1 / 6, 0.5))


def elu(
    b: Builder, x: SSAValue, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> SSAValue:
    """scale · x above 0, scale · alpha · (e^(input_scale · x) - 1) below"""
    low = scaled(b, b.minimum(x, b.full_like(x, 0.0)), input_scale)
    below = scaled(b, b.expm1(low), scale * alpha)
    return b.select(b.compare("le", x, b.full_like(x, 0.0)), below, scaled(b, x, scale))


def selu(b: Builder, x: SSAValue) -> SSAValue:
    """1.0507 x above 0, 1.0507 · 1.6733 · (e^x - 1) below (Klambauer et al., 2017)"""
    return elu(b, x, alpha=1.6732632423543772, scale=1.0507009873554805)


def softplus(b: Builder, x: SSAValue) -> SSAValue:
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)

    -|x| is the smaller of x and -x: of equal ones the slope goes to x, so that it is 1/2 at 0.
    """
    return b.add(b.relu(x), b.log1p(_exp_below(b, b.minimum(x, b.neg(x)))))


def log_sigmoid(b: Builder, x: SSAValue) -> SSAValue:
    """ln sigmoid x = -ln(1 + e^-x)"""
    return b.neg(softplus(b, b.neg(x)))


def silu(b: Builder, x: SSAValue, beta: float = 1.0) -> SSAValue:
    """x · sigmoid(beta · x), within 4 ulp where the sigmoid is a normal float, else 0"""
    return b.mul(x, b.sigmoid(scaled(b, x, beta)))


def mish(b: Builder, x: SSAValue) -> SSAValue:
    """x · tanh(ln(1 + e^x)), 0 where e^x is no normal float

    With w = e^-|x| the hyperbolic tangent is n / (n + 2), n = w (w + 2), below 0, and
    m / (m + 2w²), m = 1 + 2w, above. Far above it is 1 and its slope 0, which x times a large
    number times 0 would not be.
    """
    bounded = b.minimum(x, b.full_like(x, range_of(x).flat))
    w = b.exp(b.minimum(bounded, b.neg(bounded)))
    n, m = b.mul(w, plus(b, w, 2.0)), plus(b, times(b, w, 2.0), 1.0)
    more = b.add(m, times(b, b.mul(w, w), 2.0))
    above = _positive(b, x)
    ratio = b.div(b.select(above, m, n), b.select(above, more, plus(b, n, 2.0)))
    return b.mul(x, ratio)


def soft_sign(b: Builder, x: SSAValue) -> SSAValue:
    """x / (1 + |x|)"""
    return b.div(x, plus(b, b.abs(x), 1.0))


def gelu(b: Builder, x: SSAValue, by_tanh: bool = False) -> SSAValue:
    """x/2 · (1 + erf(x/√2)); or with tanh(u), u = √(2/π) · (x + 0.044715 x³), in the place of erf

    The latter is x · sigmoid(2u), which loses nothing to cancellation, but up to |2u| ulp to the
    rounding of u. Of the former the error is relative to x rather than to the value.
    """
    if not by_tanh:
        return b.mul(times(b, x, 0.5), plus(b, b.erf(times(b, x, math.sqrt(0.5))), 1.0))
    most = range_of(x).gelu
    clamped = clamp(b, x, -most, most)
    cube = b.mul(b.mul(clamped, clamped), clamped)
    inner = times(b, b.add(clamped, times(b, cube, 0.044715)), 2 * math.sqrt(2 / math.pi))
    return b.mul(x, b.sigmoid(inner))


def logit(b: Builder, x: SSAValue, eps: float | None = None) -> SSAValue:
    """ln(x / (1 - x)), of x held within `eps` and 1 - `eps`; its slope is 0 beyond them, and
    infinite at 0 and 1 without."""
    held = x if eps is None else clamp(b, x, eps, 1 - eps)
    y = b.log(b.div(held, b.sub(b.full_like(x, 1.0), held)))

    def backward(b: Builder, dy: SSAValue, x: SSAValue) -> SSAValue:
        dx = b.div(dy, b.mul(x, b.sub(b.full_like(x, 1.0), x)))
        low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
        above, below = (
            b.compare("ge", x, b.full_like(x, low)),
            b.compare("le", x, b.full_like(x, high)),
        )
        within = b.logical("and", above, below)
        if eps is not None:
            return b.select(within, dx, b.full_like(x, 0.0))
        # A factor keeps it linear in dy, as second derivatives need it.
        return b.mul(dx, b.select(within, b.full_like(x, 1.0), b.full_like(x, math.nan)))

    return with_backward(b, y, x, backward)


def _positive(b: Builder, x: SSAValue) -> SSAValue:
    return b.compare("gt", x, b.full_like(x, 0.0))


def _exp_below(b: Builder, x: SSAValue) -> SSAValue:
    """e^x where x is not above 0; as a square where the result is no normal float."""
    far = b.compare("lt", x, b.full_like(x, range_of(x).underflow))
    e = b.exp(b.select(far, times(b, x, 0.5), x))
    return b.select(far, b.mul(e, e), e)
