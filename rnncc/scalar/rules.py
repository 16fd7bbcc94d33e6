"""What the operations on `Dual` numbers give: the value, and its derivative by each operand.

Importing this module teaches numba the operations. Where a function has a kink, the choice is that
of the `rnn` ops (docs/gradients.md).
"""

# numba's own code has few types, and those of intrinsics are not what a caller sees
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.extending import overload

from rnncc.scalar.dual import Dual, dual, is_number, plain, real, value_of

OPTIONS = {"error_model": "numpy"}
"""A division by zero gives an infinity, not an exception."""
Rule = Callable[..., tuple[float, ...]]


def _add(a: float, b: float) -> tuple[float, ...]:
    return a + b, real(1, a), real(1, a)


def _sub(a: float, b: float) -> tuple[float, ...]:
    return a - b, real(1, a), real(-1, a)


def _mul(a: float, b: float) -> tuple[float, ...]:
    return a * b, b, a


def _div(a: float, b: float) -> tuple[float, ...]:
    y = a / b
    return y, real(1, a) / b, -y / b


def _larger(a: float, b: float) -> tuple[float, ...]:
    return (b, real(0, a), real(1, a)) if b > a else (a, real(1, a), real(0, a))


def _smaller(a: float, b: float) -> tuple[float, ...]:
    return (b, real(0, a), real(1, a)) if b < a else (a, real(1, a), real(0, a))


def _neg(a: float) -> tuple[float, ...]:
    return -a, real(-1, a)


def _pos(a: float) -> tuple[float, ...]:
    return a, real(1, a)


def _size(a: float) -> tuple[float, ...]:
    sign = 1 if a > real(0, a) else -1 if a < real(0, a) else 0
    return abs(a), real(sign, a)


def _sqrt(a: float) -> tuple[float, ...]:
    y = math.sqrt(a)
    return y, real(0.5, a) / y


def _exp(a: float) -> tuple[float, ...]:
    y = math.exp(a)
    return y, y


def _expm1(a: float) -> tuple[float, ...]:
    y = math.expm1(a)
    return y, y + real(1, a)


def _log(a: float) -> tuple[float, ...]:
    return math.log(a), real(1, a) / a


def _log1p(a: float) -> tuple[float, ...]:
    return math.log1p(a), real(1, a) / (real(1, a) + a)


def _tanh(a: float) -> tuple[float, ...]:
    y = math.tanh(a)
    return y, real(1, a) - y * y


def _erf(a: float) -> tuple[float, ...]:
    return math.erf(a), real(2 / math.sqrt(math.pi), a) * math.exp(-a * a)


def _sin(a: float) -> tuple[float, ...]:
    return math.sin(a), math.cos(a)


def _cos(a: float) -> tuple[float, ...]:
    return math.cos(a), -math.sin(a)


BINARY: dict[Callable[..., Any], Rule] = {
    operator.add: _add,
    operator.sub: _sub,
    operator.mul: _mul,
    operator.truediv: _div,
    max: _larger,
    min: _smaller,
}
UNARY: dict[Callable[..., Any], Rule] = {
    operator.neg: _neg,
    operator.pos: _pos,
    abs: _size,
    math.fabs: _size,
    math.sqrt: _sqrt,
    math.exp: _exp,
    math.expm1: _expm1,
    math.log: _log,
    math.log1p: _log1p,
    math.tanh: _tanh,
    math.erf: _erf,
    math.sin: _sin,
    math.cos: _cos,
}
COMPARISONS = (
    *(operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.eq, operator.ne),
)


def _teach_unary(operation: Any, rule: Any) -> None:
    rule = numba.njit(**OPTIONS)(rule)

    def without(a: Any) -> Any:
        return plain(rule(a.value)[0])

    def with_slope(a: Any) -> Any:
        y, by_a = rule(a.value)
        return dual(y, by_a * a.slope)

    @overload(operation, jit_options=OPTIONS)
    def typed(a: Any) -> Any:
        if not isinstance(a, Dual):
            return None
        return with_slope if a.sloped else without


def _teach_binary(operation: Any, rule: Any) -> None:
    rule = numba.njit(**OPTIONS)(rule)

    def neither(a: Any, b: Any) -> Any:
        return plain(rule(value_of(a, b), value_of(b, a))[0])

    def left(a: Any, b: Any) -> Any:
        y, by_a, _ = rule(a.value, value_of(b, a))
        return dual(y, by_a * a.slope)

    def right(a: Any, b: Any) -> Any:
        y, _, by_b = rule(value_of(a, b), b.value)
        return dual(y, by_b * b.slope)

    def both(a: Any, b: Any) -> Any:
        y, by_a, by_b = rule(a.value, b.value)
        return dual(y, by_a * a.slope + by_b * b.slope)

    @overload(operation, jit_options=OPTIONS)
    def typed(a: Any, b: Any) -> Any:
        if not _is_pair(a, b):
            return None
        if _sloped(a):
            return both if _sloped(b) else left
        return right if _sloped(b) else neither


def _teach_comparison(operation: Any) -> None:
    def code(a: Any, b: Any) -> Any:
        return operation(value_of(a, b), value_of(b, a))

    @overload(operation)
    def typed(a: Any, b: Any) -> Any:
        return code if _is_pair(a, b) else None


def _is_pair(a: Any, b: Any) -> bool:
    """Whether these are the types of two Duals, or of a Dual and a number."""
    scalars = all(isinstance(type_, Dual) or is_number(type_) for type_ in (a, b))
    return scalars and not (is_number(a) and is_number(b))


def _sloped(type_: Any) -> bool:
    return isinstance(type_, Dual) and type_.sloped


@overload(operator.pow, jit_options=OPTIONS)
def _power(a: Any, b: Any) -> Any:
    """Whole exponents, by squaring."""
    if not isinstance(a, Dual) or not isinstance(b, types.Integer):
        return None

    def none(a: Any) -> Any:
        return plain(real(1, a.value))

    def flat(a: Any) -> Any:
        return dual(real(1, a.value), real(0, a.value))

    one = numba.njit(**OPTIONS)(flat if a.sloped else none)

    def code(a: Any, b: Any) -> Any:
        factor, bits = a, abs(b)
        if bits == 0:
            return one(a)
        while bits % 2 == 0:
            factor, bits = factor * factor, bits // 2
        # It starts as a factor, not as 1: slopes of 0 times an infinite factor would be NaN.
        result, bits = factor, bits // 2
        while bits > 0:
            factor = factor * factor
            if bits % 2 == 1:
                result = result * factor
            bits = bits // 2
        return 1 / result if b < 0 else result

    return code


for _operation, _rule in UNARY.items():
    _teach_unary(_operation, _rule)
for _operation, _rule in BINARY.items():
    _teach_binary(_operation, _rule)
for _operation in COMPARISONS:
    _teach_comparison(_operation)
