"""Arithmetic of aten, and functions of one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rnncc.frontends.torch.site import Number, Operand, Site, Table, Value
from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS
from rnncc.nn import arithmetic
from rnncc.nn.angles import acos, acosh, asin, asinh, atan, atanh, cosh, sinh, tan
from rnncc.nn.arithmetic import absolute, negative, reciprocal, sign


def add(at: Site, a: Operand, b: Operand, *, alpha: Number = 1) -> Value:
    """a + alpha · b"""
    return at.b.add(at.value(a), at.scaled(b, alpha))


def sub(at: Site, a: Operand, b: Operand, *, alpha: Number = 1) -> Value:
    """a - alpha · b"""
    return at.b.sub(at.value(a), at.scaled(b, alpha))


def rsub(at: Site, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    """b - alpha · a"""
    return at.b.sub(at.value(b), at.scaled(a, alpha))


def mul(at: Site, a: Operand, b: Operand) -> Value:
    """a · b; of bools: a and b"""
    if at.dtype == "i1":
        return at.b.logical("and", at.value(a), at.value(b))
    return at.b.mul(at.value(a), at.value(b))


def div(at: Site, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Value:
    """a / b"""
    if rounding_mode is not None:
        at.refuse(f"a division with rounding_mode={rounding_mode!r} is not supported")
    return at.b.div(at.value(a), at.value(b))


def neg(at: Site, x: Value) -> Value:
    """-x; 0 - x of whole numbers"""
    return negative(at.b, at.value(x))


def abs_of(at: Site, x: Value) -> Value:
    """|x|"""
    return absolute(at.b, at.value(x))


def rsqrt(at: Site, x: Value) -> Value:
    """1 / √x"""
    return reciprocal(at.b, at.b.sqrt(at.value(x)))


def square(at: Site, x: Value) -> Value:
    """x²"""
    return at.b.mul(x, x)


def power(at: Site, x: Operand, exponent: Operand) -> Value:
    """x to a power, of floats"""
    if at.dtype not in FLOATS:
        at.refuse("powers of whole numbers are not supported")
    known = isinstance(exponent, (int, float))
    return arithmetic.power(at.b, at.value(x), exponent if known else at.value(exponent))


def rounded(kind: str) -> Callable[[Site, Value], Value]:
    """To a whole number; no gradient"""
    return lambda at, x: at.b.round(kind, x) if at.dtype in FLOATS else x


def unary(function: Callable[[Builder, Value], Value]) -> Callable[[Site, Value], Value]:
    """The translation of f(x), computed in floats."""
    return lambda at, x: function(at.b, at.value(x))


def to_copy(at: Site, x: Value, **_: Any) -> Value:
    """As another dtype"""
    return at.value(x)


ANGLES = (tan, atan, asin, acos, sinh, cosh, asinh, acosh, atanh)
OPERATORS: Table = {
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "mul": mul,
    "div": div,
    "neg": neg,
    "abs": abs_of,
    "reciprocal": unary(reciprocal),
    "rsqrt": rsqrt,
    "square": square,
    "pow": power,
    "sign": unary(sign),
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
    "tanh": unary(Builder.tanh),
    "sigmoid": unary(Builder.sigmoid),
    "_to_copy": to_copy,
}
