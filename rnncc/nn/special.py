"""Special functions: sinc, and those of gamma and of the error function.

Those of gamma, and the inverses of the error function and of the normal distribution, are computed
in double precision, where sums that cancel keep float32's digits; targets without float64 refuse
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dtype_of
from rnncc.nn.arithmetic import plus, reciprocal, times, with_sign
from rnncc.nn.slopes import with_backward_by_result

Function = Callable[[Builder, SSAValue], SSAValue]
_SHIFT = 8
"""Where Stirling's series is used: with seven terms it has all digits of a double there."""
_SINE_TERMS = 8
"""Of its series at 1/2, for all digits of a double."""
_QUANTILE_STEPS = 6
"""From a start with the right order of magnitude, for all digits of a double."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""B₂, B₄, ..."""
# Cody 1969, "Rational Chebyshev approximations for the error function", tables II and III.
_MIDDLE = (
    (
        *(
            2.15311535474403846e-8,
            5.64188496988670089e-1,
            8.88314979438837594,
            6.61191906371416295e1,
        ),
        *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3),
        *(2.05107837782607147e3, 1.23033935479799725e3),
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2),
        *(1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3),
        *(3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
_FAR = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1),
        *(6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)
# Starting points for Newton's steps, good to three digits: in the middle by a rational function of
# y², in the tails by one of √(ln 2 - ln(1 - |y|)).
_INNER = (
    (-0.140543331, 0.914624893, -1.645349621, 0.886226899),
    (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0),
)
_OUTER = (
    (1.641345311, 3.429567803, -1.624906493, -1.970840454),
    (1.637067800, 3.543889200, 1.0),
)


def _in_doubles(function: Function) -> Function:
    @wraps(function)
    def rounded(b: Builder, x: SSAValue) -> SSAValue:
        return b.cast(function(b, b.cast(x, "f64")), dtype_of(x))

    return rounded


def polynomial(b: Builder, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """Horner's scheme, the highest power first."""
    total = b.full_like(x, coefficients[0])
    for number in coefficients[1:]:
        total = plus(b, b.mul(total, x), number)
    return total


def _ratio(b: Builder, x: SSAValue, of: tuple[Sequence[float], Sequence[float]]) -> SSAValue:
    return b.div(polynomial(b, x, of[0]), polynomial(b, x, of[1]))


@_in_doubles
def log_gamma(b: Builder, x: SSAValue) -> SSAValue:
    """ln |Γ(x)|, infinite at 0, -1, ... and at both infinities.

    Stirling's series at x + 8, from which the logarithm of x (x + 1) ... (x + 7) is taken; below
    1/2 ln(π / |sin πx|) - ln Γ(1 - x).
    """
    low, y = _above_a_half(b, x)
    near, z = _shifted(b, y)
    series = b.add(
        b.sub(b.mul(plus(b, z, -0.5), b.log(z)), z),
        plus(b, _series(b, z, lambda k: 2 * k * (2 * k - 1), 0), 0.5 * math.log(2 * math.pi)),
    )
    product = y
    for k in range(1, _SHIFT):
        product = b.mul(product, plus(b, y, k))
    product = b.select(near, product, b.full_like(y, 1.0))
    endless = b.compare("eq", y, b.full_like(y, math.inf))
    series = b.select(endless, y, b.sub(series, b.log(product)))
    mirrored = b.sub(b.sub(b.full_like(x, math.log(math.pi)), _log_of_sine(b, low, x)), series)
    return b.select(low, b.select(endless, y, mirrored), series)


def _log_of_sine(b: Builder, low: SSAValue, x: SSAValue) -> SSAValue:
    """ln |sin πx|. Its slope at 0 is infinite, with the sign of the zero, and NaN at -1, -2, ...,
    where it differs from both sides."""
    sine = b.sin(_turn(b, low, x))
    size = b.select(b.compare("lt", sine, b.full_like(x, 0.0)), times(b, sine, -1), sine)
    one, half = b.full_like(x, 1.0), b.full_like(x, 0.5)
    near = b.compare("gt", x, b.full_like(x, -0.5))
    return b.mul(b.log(b.select(near, size, b.mul(sine, sine))), b.select(near, one, half))


@_in_doubles
def digamma(b: Builder, x: SSAValue) -> SSAValue:
    """Γ'(x) / Γ(x): the derivative of `log_gamma`, by the same shift and reflection."""
    low, y = _above_a_half(b, x)
    near, z = _shifted(b, y)
    series = b.sub(
        b.sub(b.log(z), times(b, reciprocal(b, z), 0.5)), _series(b, z, lambda k: 2 * k, 1)
    )
    for k in range(_SHIFT):
        term = reciprocal(b, plus(b, y, k))
        series = b.sub(series, b.select(near, term, b.full_like(y, 0.0)))
    angle = _turn(b, low, x)
    sine = b.sin(angle)
    cotangent = times(b, b.div(b.cos(angle), sine), math.pi)
    at_pole = b.select(  # from both sides at 0 alone, by its sign
        b.compare("eq", sine, b.full_like(x, 0.0)), b.full_like(x, math.nan), cotangent
    )
    beyond = b.compare("lt", x, b.full_like(x, -0.5))
    return b.select(low, b.sub(series, b.select(beyond, at_pole, cotangent)), series)


def polygamma(b: Builder, x: SSAValue, order: int) -> SSAValue:
    """The derivative of that order, 1 or more, of `digamma`: by the same shift and reflection.

    Series of higher orders need larger numbers for the same digits.
    """
    if order == 0:
        return digamma(b, x)
    return _in_doubles(lambda b, x: _polygamma(b, x, order))(b, x)


def _polygamma(b: Builder, x: SSAValue, order: int) -> SSAValue:
    low, y = _above_a_half(b, x)
    shift = _SHIFT + 2 * order
    near, z = _shifted(b, y, shift)
    inverse = reciprocal(b, z)
    scale = math.factorial(order)
    terms = [
        number * math.factorial(2 * k + order - 1) / math.factorial(2 * k)
        for k, number in enumerate(_BERNOULLI, start=1)
    ]
    rest = polynomial(b, b.mul(inverse, inverse), [*terms[::-1], scale / order])
    total = b.mul(_power(b, inverse, order), b.add(rest, times(b, inverse, scale / 2)))
    for k in range(shift):
        term = times(b, _power(b, reciprocal(b, plus(b, y, k)), order + 1), scale)
        total = b.add(total, b.select(near, term, b.full_like(y, 0.0)))
    value = times(b, total, (-1) ** (order + 1))
    angle = _turn(b, low, x)
    cotangent = b.div(b.cos(angle), b.sin(angle))
    mirrored = b.sub(
        times(b, value, (-1) ** order), polynomial(b, cotangent, _slope_of_cotangent(order))
    )
    return b.select(low, mirrored, value)


def _power(b: Builder, x: SSAValue, exponent: int) -> SSAValue:
    product = x
    for _ in range(exponent - 1):
        product = b.mul(product, x)
    return product


def _slope_of_cotangent(order: int) -> list[float]:
    """That derivative of π cot πx as a polynomial in c = cot πx, for c' = -π (1 + c²)."""
    polynomial = [math.pi, 0.0]
    for _ in range(order):
        degree = len(polynomial) - 1
        slope = [-math.pi * c * (degree - i) for i, c in enumerate(polynomial[:-1])]
        polynomial = [p + q for p, q in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return polynomial


def _above_a_half(b: Builder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Where x is below 1/2, and x or 1 - x."""
    low = b.compare("lt", x, b.full_like(x, 0.5))
    return low, b.select(low, b.sub(b.full_like(x, 1.0), x), x)


def _shifted(b: Builder, y: SSAValue, shift: int = _SHIFT) -> tuple[SSAValue, SSAValue]:
    """Where the series is not good yet, and where it is to be taken."""
    near = b.compare("lt", y, b.full_like(y, shift))
    return near, b.select(near, plus(b, y, shift), y)


def _series(b: Builder, z: SSAValue, divisor: Callable[[int], int], power: int) -> SSAValue:
    """Σ B₂ₖ / (divisor(k) z²ᵏ⁻¹), over z for power 1."""
    terms = [number / divisor(k) for k, number in enumerate(_BERNOULLI, start=1)]
    inverse = reciprocal(b, z)
    square = b.mul(inverse, inverse)
    return b.mul(polynomial(b, square, terms[::-1]), square if power else inverse)


def _turn(b: Builder, low: SSAValue, x: SSAValue) -> SSAValue:
    """πx without half turns, which change the sines' signs alone; a quarter where x is not low."""
    x = b.select(low, x, b.full_like(x, 0.5))
    whole = b.round("even", x)
    is_near = b.compare("eq", whole, b.full_like(x, 0.0))
    return times(b, b.select(is_near, x, b.sub(x, whole)), math.pi)  # -0.0 stays what it is


def sinc(b: Builder, x: SSAValue) -> SSAValue:
    """sin(πx) / (πx); near 0 by a series, since its slope is a difference of large numbers."""
    angle = times(b, x, math.pi)
    near = b.compare("lt", b.abs(angle), b.full_like(x, 0.5))
    small = b.select(near, angle, b.full_like(x, 0.0))
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(_SINE_TERMS)]
    series = polynomial(b, b.mul(small, small), terms[::-1])
    angle = b.select(near, b.full_like(x, 1.0), angle)
    return b.select(near, series, b.div(b.sin(angle), angle))


def erfc(b: Builder, x: SSAValue) -> SSAValue:
    """1 - erf(x), to its last digits also where it is small."""
    size = b.abs(x)
    small = b.compare("lt", size, b.full_like(x, 0.5))
    tail = b.mul(_bell(b, size), _scaled_tail(b, size))
    negative = b.compare("lt", x, b.full_like(x, 0.0))
    tail = b.select(negative, b.sub(b.full_like(x, 2.0), tail), tail)
    return b.select(small, b.sub(b.full_like(x, 1.0), b.erf(x)), tail)


def log_normal_cdf(b: Builder, x: SSAValue) -> SSAValue:
    """ln Φ(x), the logarithm of the normal distribution's cumulative one.

    Below 1 it is ln(erfcx(-t) / 2) - t² with t = x/√2, above ln(1 - erfc(t) / 2); each is computed
    where it is finite alone, so that no slope is NaN.
    """
    below = b.compare("lt", x, b.full_like(x, 1.0))
    t = times(b, x, math.sqrt(0.5))
    low = b.select(below, t, b.full_like(x, 0.0))
    high = b.select(below, b.full_like(x, 1.0), t)
    tail = b.log(times(b, scaled_erfc(b, b.neg(low)), 0.5))
    near_one = b.log1p(times(b, erfc(b, high), -0.5))
    return b.select(below, b.sub(tail, b.mul(low, low)), near_one)


def scaled_erfc(b: Builder, x: SSAValue) -> SSAValue:
    """exp(x²) erfc(x), which goes to 0 as 1 / x does."""
    tail = b.compare("ge", x, b.full_like(x, 0.5))
    low = b.select(tail, b.full_like(x, 0.0), x)
    direct = b.mul(b.exp(b.mul(low, low)), erfc(b, low))
    return b.select(tail, _scaled_tail(b, b.select(tail, x, b.full_like(x, 1.0))), direct)


def _bell(b: Builder, x: SSAValue) -> SSAValue:
    """exp(-x²) of x ≥ 0: sixteenths of x have exact squares, so that no digit of x² is lost."""
    x = b.minimum(x, b.full_like(x, 32.0))  # where it is 0
    head = b.stop_gradient(times(b, b.round("trunc", times(b, x, 16.0)), 1 / 16))
    rest = b.mul(b.sub(x, head), b.add(x, head))
    return b.mul(b.exp(b.neg(b.mul(head, head))), b.exp(b.neg(rest)))


def _scaled_tail(b: Builder, x: SSAValue) -> SSAValue:
    """exp(x²) erfc(x) of x ≥ 1/2."""
    one = b.full_like(x, 1.0)
    far = b.compare("gt", x, b.full_like(x, 4.0))
    middle = _ratio(b, b.select(far, one, x), _MIDDLE)
    inverse = reciprocal(b, b.select(far, x, one))
    square = b.mul(inverse, inverse)
    rest = b.mul(square, _ratio(b, square, _FAR))
    outer = b.mul(inverse, b.sub(b.full_like(x, 1 / math.sqrt(math.pi)), rest))
    return b.select(far, outer, middle)


@_in_doubles
def erfinv(b: Builder, y: SSAValue) -> SSAValue:
    """The x whose error function is y: infinite at -1 and 1, NaN beyond.

    Three of Newton's steps. Its derivative is 1 / erf'(x).
    """
    size = b.abs(y)
    inside = b.compare("lt", size, b.full_like(y, 1.0))
    safe = b.select(inside, y, b.full_like(y, 0.0))
    x = _start(b, safe)
    for _ in range(3):
        slope = times(b, b.exp(b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))
        x = b.sub(x, b.div(b.sub(b.erf(x), safe), slope))
    edge = b.compare("eq", size, b.full_like(y, 1.0))
    outside = b.select(edge, with_sign(b, b.full_like(y, math.inf), y), b.full_like(y, math.nan))

    def backward(b: Builder, dy: SSAValue, y: SSAValue, x: SSAValue) -> SSAValue:
        return b.mul(dy, times(b, b.exp(b.mul(x, x)), math.sqrt(math.pi) / 2))

    return with_backward_by_result(b, b.select(inside, x, outside), y, backward)


def _start(b: Builder, y: SSAValue) -> SSAValue:
    size = b.abs(y)
    outer = b.compare("gt", size, b.full_like(y, 0.7))
    zero = b.full_like(y, 0.0)
    inner = b.select(outer, zero, y)
    middle = b.mul(inner, _ratio(b, b.mul(inner, inner), _INNER))
    rest = b.select(outer, b.sub(b.full_like(y, 1.0), size), b.full_like(y, 1.0))
    root = b.sqrt(b.sub(b.full_like(y, math.log(2)), b.log(rest)))
    return b.select(outer, with_sign(b, _ratio(b, root, _OUTER), y), middle)


@_in_doubles
def normal_quantile(b: Builder, p: SSAValue) -> SSAValue:
    """The x below which the normal distribution has p: infinite at 0 and 1, NaN beyond.

    Newton's steps on ln Φ(x) = ln p, of p or 1 - p, whichever is smaller. Its derivative is one
    over the distribution's density.
    """
    one, zero = b.full_like(p, 1.0), b.full_like(p, 0.0)
    inside = b.logical("and", b.compare("gt", p, zero), b.compare("lt", p, one))
    safe = b.select(inside, p, b.full_like(p, 0.5))
    upper = b.compare("gt", safe, b.full_like(p, 0.5))
    target = b.log(b.select(upper, b.sub(one, safe), safe))
    x = b.neg(b.sqrt(plus(b, times(b, target, -2.0), -2 * math.log(2))))
    for _ in range(_QUANTILE_STEPS):
        known = log_normal_cdf(b, x)
        density = plus(b, times(b, b.mul(x, x), -0.5), -0.5 * math.log(2 * math.pi))
        x = b.sub(x, b.div(b.sub(known, target), b.exp(b.sub(density, known))))
    x = b.select(upper, b.neg(x), x)
    ends = b.select(b.compare("eq", p, zero), b.full_like(p, -math.inf), b.full_like(p, math.nan))
    ends = b.select(b.compare("eq", p, one), b.full_like(p, math.inf), ends)

    def backward(b: Builder, dy: SSAValue, p: SSAValue, x: SSAValue) -> SSAValue:
        density = b.exp(times(b, b.mul(x, x), -0.5))
        return b.mul(dy, times(b, reciprocal(b, density), math.sqrt(2 * math.pi)))

    return with_backward_by_result(b, b.select(inside, x, ends), p, backward)
