"""Arithmetic of aten, and functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rnncc.frontends.torch.node_context import NodeContext, Number, Operand, Table, Value
from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.nn import arithmetic, special
from rnncc.nn.angles import acos, acosh, asin, asinh, atan, atan2, atanh, cosh, sinh, tan
from rnncc.nn.arithmetic import absolute, negative, reciprocal, sign
from rnncc.nn.bessel import bessel_i


def add(at: NodeContext, a: Operand, b: Operand, *, alpha: Number = 1) -> Value:
    """a + alpha · b; of bools: a or b"""
    if at.dtype == "i1" and alpha == 1:
        return at.b.logical("or", at.value(a), at.value(b))
    return at.b.add(at.value(a), at.scaled(b, alpha))


def sub(at: NodeContext, a: Operand, b: Operand, *, alpha: Number = 1) -> Value:
    """a - alpha · b"""
    if alpha == 1:
        return at.b.sub(at.value(a), at.value(b))
    return at.b.add(at.value(a), at.scaled(b, -alpha))  # PyTorch's number, which integers hold


def rsub(at: NodeContext, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    """b - alpha · a"""
    return sub(at, b, a, alpha=alpha)


def mul(at: NodeContext, a: Operand, b: Operand) -> Value:
    """a · b; of bools: a and b"""
    if at.dtype == "i1":
        return at.b.logical("and", at.value(a), at.value(b))
    return at.b.mul(at.value(a), at.value(b))


def div(at: NodeContext, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Value:
    """a / b, rounded down or towards zero where that is asked for"""
    x, y = at.value(a), at.value(b)
    if rounding_mode == "floor":
        return arithmetic.floor_divide(at.b, x, y)
    quotient = at.b.div(x, y)
    return rounded("trunc")(at, quotient) if rounding_mode == "trunc" else quotient


def remainder(at: NodeContext, a: Operand, b: Operand) -> Value:
    """What is left of a by multiples of b, with the sign of b"""
    return arithmetic.modulo(at.b, at.value(a), at.value(b))


def fmod(at: NodeContext, a: Operand, b: Operand) -> Value:
    """What is left of a by multiples of b, with the sign of a"""
    return at.b.rem(at.value(a), at.value(b))


def atan2_of(at: NodeContext, y: Operand, x: Operand) -> Value:
    """The angle of (x, y)"""
    return atan2(at.b, at.value(y), at.value(x))


def hypot(at: NodeContext, x: Value, y: Value) -> Value:
    """√(x² + y²), without overflow on the way; 0 and flat at (0, 0)"""
    return arithmetic.hypotenuse(at.b, at.value(x), at.value(y))


def copysign(at: NodeContext, x: Operand, y: Operand) -> Value:
    """|x| with the sign of y, zeros and their signs too"""
    return arithmetic.with_sign(at.b, at.value(x), at.value(y))


def signbit(at: NodeContext, x: Value) -> Value:
    """Whether a number is below 0, or -0"""
    if dtype_of(x) in FLOATS:
        return arithmetic.has_sign(at.b, x)
    return at.b.compare("lt", x, at.b.full_like(x, 0))


def xlogy(at: NodeContext, x: Operand, y: Operand) -> Value:
    """x · ln y, 0 where x is 0 unless y is NaN"""
    return arithmetic.x_log_y(at.b, at.value(x), at.value(y))


def log_to(base: float) -> Callable[[NodeContext, Value], Value]:
    """The logarithm to a base"""
    return lambda at, x: arithmetic.times(at.b, at.b.log(at.value(x)), 1 / math.log(base))


def rounded_to(at: NodeContext, x: Value, *, decimals: int) -> Value:
    """To so many decimals; no gradient"""
    b, scale = at.b, 10.0 ** abs(decimals)
    if at.dtype not in FLOATS:
        at.refuse("rounding integers to decimals is not supported")
    if decimals < 0:
        return arithmetic.times(b, b.round("even", arithmetic.times(b, x, 1 / scale)), scale)
    whole = b.round("even", arithmetic.times(b, x, scale))
    return b.div(whole, b.full_like(whole, scale))


def neg(at: NodeContext, x: Value) -> Value:
    """-x; 0 - x of integers"""
    return negative(at.b, at.value(x))


def abs_of(at: NodeContext, x: Value) -> Value:
    """|x|"""
    return absolute(at.b, at.value(x))


def rsqrt(at: NodeContext, x: Value) -> Value:
    """1 / √x"""
    return reciprocal(at.b, at.b.sqrt(at.value(x)))


def sign_of(at: NodeContext, x: Value) -> Value:
    """-1, 0 or 1; of floats with a gradient, of zeros"""
    b, y = at.b, sign(at.b, x)
    if at.dtype not in FLOATS:
        return y
    return b.round("even", b.select(b.compare("eq", x, at.value(0)), b.abs(x), y))


def square(at: NodeContext, x: Value) -> Value:
    """x²"""
    return at.b.mul(x, x)


def power(at: NodeContext, x: Operand, exponent: Operand) -> Value:
    """x to a power; of integers to one that is known, or of 2, 4, 8, ..."""
    known = isinstance(exponent, (int, float))
    if at.dtype not in FLOATS and not (known and exponent in range(arithmetic.MOST_FACTORS + 1)):
        if not known and isinstance(x, int) and x > 1 and x.bit_count() == 1:
            return _power_of_two(at.b, x, at.value(exponent))
        at.refuse("powers of integers need a known exponent, from 0 to 64, or a base of 2, 4, ...")
    return arithmetic.power(at.b, at.value(x), exponent if known else at.value(exponent))


def _power_of_two(b: Builder, base: int, exponent: Value) -> Value:
    """Of integers; 0 where that is none, or one of too many bits, as in PyTorch."""
    y = b.full_like(exponent, 1)
    for _ in range(base.bit_length() - 1):
        y = b.bits("left", y, exponent)
    return y


def rounded(kind: str) -> Callable[[NodeContext, Value], Value]:
    """To an integer; no gradient"""
    return lambda at, x: at.b.round(kind, x) if at.dtype in FLOATS else x


def polygamma(at: NodeContext, n: int, x: Value) -> Value:
    """The derivative of order n of the digamma function"""
    if not 0 <= n <= MOST_DERIVATIVES:
        at.refuse(f"orders beyond {MOST_DERIVATIVES} are not supported")
    return special.polygamma(at.b, at.value(x), n)


def unary(function: Callable[[Builder, Value], Value]) -> Callable[[NodeContext, Value], Value]:
    """The translation of f(x), computed in floats."""
    return lambda at, x: function(at.b, at.value(x))


def to_copy(at: NodeContext, x: Value, **_: Any) -> Value:
    """As another dtype"""
    return at.value(x)


MOST_DERIVATIVES = 20
"""Of the digamma function."""
ANGLES = (tan, atan, asin, acos, sinh, cosh, asinh, acosh, atanh)
OPERATORS: Table = {
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "mul": mul,
    "div": div,
    "remainder": remainder,
    "fmod": fmod,
    "atan2": atan2_of,
    "hypot": hypot,
    "copysign": copysign,
    "xlogy": xlogy,
    "round.decimals": rounded_to,
    "log2": log_to(2),
    "log10": log_to(10),
    "exp2": unary(lambda b, x: b.exp(arithmetic.times(b, x, math.log(2)))),
    "neg": neg,
    "_neg_view": neg,
    "abs": abs_of,
    "reciprocal": unary(reciprocal),
    "rsqrt": rsqrt,
    "square": square,
    "pow": power,
    "sign": sign_of,
    **{name: rounded(name) for name in ("floor", "ceil", "trunc")},
    "round.default": rounded("even"),
    "sin": unary(Builder.sin),
    "cos": unary(Builder.cos),
    **{f.__name__: unary(f) for f in ANGLES},
    "exp": unary(Builder.exp),
    "expm1": unary(Builder.expm1),
    "log": unary(Builder.log),
    "log1p": unary(Builder.log1p),
    "sqrt": unary(Builder.sqrt),
    "erf": unary(Builder.erf),
    "sinc": unary(special.sinc),
    "erfc": unary(special.erfc),
    "erfinv": unary(special.erfinv),
    "special_erfcx": unary(special.scaled_erfc),
    "special_log_ndtr": unary(special.log_normal_cdf),
    "lgamma": unary(special.log_gamma),
    "digamma": unary(special.digamma),
    "polygamma": polygamma,
    "special_ndtri": unary(special.normal_quantile),
    "i0": unary(lambda b, x: bessel_i(b, x, 0)),
    "special_i0e": unary(lambda b, x: bessel_i(b, x, 0, scaled=True)),
    "special_i1": unary(lambda b, x: bessel_i(b, x, 1)),
    "special_i1e": unary(lambda b, x: bessel_i(b, x, 1, scaled=True)),
    "signbit": signbit,
    "tanh": unary(Builder.tanh),
    "sigmoid": unary(Builder.sigmoid),
    "_to_copy": to_copy,
}
