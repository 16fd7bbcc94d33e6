"""Arithmetic with numbers, signs, bounds, remainders and powers."""

from __future__ import annotations

import math
from functools import partial, reduce

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS, NUMPY, dtype_of
from rnncc.nn.slopes import with_backward_by_result, without_slope_where

MOST_FACTORS = 64
"""The largest whole power that is a product of squares."""


def times(b: Builder, x: SSAValue, number: float) -> SSAValue:
    """x · number"""
    return b.mul(x, b.full_like(x, number))


def plus(b: Builder, x: SSAValue, number: float) -> SSAValue:
    """x + number"""
    return b.add(x, b.full_like(x, number))


def scaled(b: Builder, x: SSAValue, factor: float) -> SSAValue:
    """x · factor, x itself for 1"""
    return x if factor == 1 else times(b, x, factor)


def reciprocal(b: Builder, x: SSAValue) -> SSAValue:
    """1 / x"""
    return b.div(b.full_like(x, 1.0), x)


def negative(b: Builder, x: SSAValue) -> SSAValue:
    """-x, of integers 0 - x"""
    return b.neg(x) if dtype_of(x) in FLOATS else b.sub(b.full_like(x, 0), x)


def absolute(b: Builder, x: SSAValue) -> SSAValue:
    """|x| of any numbers."""
    return b.abs(x) if dtype_of(x) in FLOATS else b.maximum(x, negative(b, x))


def sign(b: Builder, x: SSAValue) -> SSAValue:
    """-1, 0 or 1 of any numbers, 0 of NaN; flat everywhere."""
    zero, dtype = b.full_like(x, 0), dtype_of(x)
    above, below = b.compare("gt", x, zero), b.compare("lt", x, zero)
    return b.sub(b.cast(above, dtype), b.cast(below, dtype))


def modulo(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """What is left of x by multiples of y, with the sign of y; `rnn.rem` has that of x."""
    rest = b.rem(x, y)
    zero = b.fill(0, (), dtype_of(y))
    other_sign = b.logical("xor", b.compare("lt", rest, zero), b.compare("lt", y, zero))
    wrong = b.logical("and", other_sign, b.compare("ne", rest, zero))
    return b.select(wrong, b.add(rest, y), rest)


def floor_divide(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """⌊x / y⌋, of any numbers, flat; x / y where y is 0.

    Of floats what is left, exactly computed, is taken away first, so that the quotient is next to
    an integer however large it is.
    """
    if dtype_of(x) not in FLOATS:
        # not (x - modulo(x, y)) / y, whose dividend may overflow
        below = b.compare("ne", modulo(b, x, y), b.rem(x, y))
        return b.sub(b.div(x, y), b.cast(below, dtype_of(x)))
    left, zero = b.rem(x, y), b.full_like(y, 0.0)
    quotient = b.round("even", b.div(b.sub(x, left), y))
    # What is left towards zero is on the other side than y: of an infinite y, too, all of x.
    below = [b.compare("lt", number, zero) for number in (left, y)]
    sides = b.logical("and", b.compare("ne", left, zero), b.logical("xor", *below))
    quotient = b.select(sides, b.sub(quotient, b.full_like(y, 1.0)), quotient)
    return b.select(b.compare("eq", y, zero), b.stop_gradient(b.div(x, y)), quotient)


def has_sign(b: Builder, x: SSAValue) -> SSAValue:
    """Whether a float is below 0, or -0: a zero's sign is that of what it divides."""
    zero = b.compare("eq", x, b.full_like(x, 0.0))
    return b.compare("lt", b.select(zero, reciprocal(b, x), x), b.full_like(x, 0.0))


def with_sign(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """|x| with the sign of y, of zeros too."""
    size, negative = b.abs(x), has_sign(b, b.stop_gradient(y))
    return b.select(negative, b.neg(size), size)


def hypotenuse(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """√(x² + y²) with the larger as its unit, so that no square overflows; 0 and flat at (0, 0).

    Infinite where one side is, whatever the other is: of NaN, too.
    """
    sizes = [b.abs(side) for side in (x, y)]
    unit = b.stop_gradient(b.maximum(*sizes))
    none, infinity = b.compare("eq", unit, b.full_like(unit, 0.0)), b.full_like(unit, math.inf)
    infinite = b.logical("or", *(b.compare("eq", size, infinity) for size in sizes))
    divisor = b.select(b.logical("or", none, infinite), b.full_like(unit, 1.0), unit)
    p, q = b.div(x, divisor), b.div(y, divisor)
    squares = b.select(none, b.full_like(divisor, 1.0), b.add(b.mul(p, p), b.mul(q, q)))
    length = b.select(none, b.full_like(divisor, 0.0), b.mul(b.sqrt(squares), divisor))
    return b.select(b.logical("and", infinite, b.compare("ne", unit, unit)), infinity, length)


def cube_root(b: Builder, x: SSAValue) -> SSAValue:
    """∛x, of negative numbers too; its slope is infinite at 0."""
    size = b.abs(x)
    ends = [b.compare("eq", size, b.full_like(x, end)) for end in (0.0, math.inf)]
    is_end = b.logical("or", *ends)
    size = b.select(is_end, b.full_like(x, 1.0), size)
    root = b.exp(times(b, b.log(size), 1 / 3))
    # One of Newton's steps doubles the digits that the logarithm has left.
    root = b.sub(root, times(b, b.sub(root, b.div(size, b.mul(root, root))), 1 / 3))
    y = b.select(is_end, x, with_sign(b, root, x))
    return with_backward_by_result(
        b, y, x, lambda b, dy, x, y: b.div(times(b, dy, 1 / 3), b.mul(y, y))
    )


def x_log_y(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x · ln y; 0 where x is 0, unless y is NaN. There the slope by x is ln y, if it is finite."""
    x, y = b.broadcast_together(x, y)
    zero = b.full_like(y, 0.0)
    endless = [b.compare("le", y, zero), b.compare("eq", y, b.full_like(y, math.inf))]
    none = b.logical("and", b.compare("eq", x, zero), b.logical("or", *endless))
    argument = b.select(none, b.full_like(y, 1.0), y)
    return b.mul(x, b.log(argument))


def clamp(b: Builder, x: SSAValue, low: float, high: float) -> SSAValue:
    """x, held within low and high"""
    return b.maximum(b.minimum(x, b.full_like(x, high)), b.full_like(x, low))


def power(b: Builder, x: SSAValue, exponent: SSAValue | float) -> SSAValue:
    """x to a power, of floats; a number as exponent is cheaper, whole ones and halves exact. Of
    integers a number from 0 to `MOST_FACTORS`.

    Zero to the power of 0 is 1; of a negative finite x only whole powers are numbers, of which odd
    ones keep its sign, that of -0 too. The slope by an exponent is y · ln x, NaN of an x below 0.
    """
    if isinstance(exponent, (int, float)):
        return _known_power(b, x, float(exponent))
    x, exponent = b.broadcast_together(x, exponent)
    is_below = b.compare("lt", x, b.full_like(x, 0.0))
    return _power(b, x, exponent, without_slope_where(b, exponent, is_below))


def _power(b: Builder, x: SSAValue, exponent: SSAValue, growth: SSAValue) -> SSAValue:
    """`power`; `growth` is the exponent, through which its gradient goes."""
    one, zero, infinity = (b.full_like(x, number) for number in (1.0, 0.0, math.inf))
    magnitude, rate = b.abs(x), b.abs(exponent)
    endless = [b.logical_not(b.compare("lt", number, infinity)) for number in (magnitude, rate)]
    is_none = b.compare("eq", exponent, zero)
    at_zero = b.logical("and", b.compare("eq", x, zero), b.compare("le", zero, exponent))
    size = b.exp(b.mul(growth, b.log(b.select(at_zero, one, magnitude))))
    half = b.mul(exponent, b.full_like(x, 0.5))
    whole = b.compare("eq", b.round("floor", exponent), exponent)
    odd = b.logical("and", whole, b.compare("ne", b.round("floor", half), half))
    below = b.select(b.logical("or", whole, endless[0]), size, b.full_like(x, math.nan))
    y = b.select(b.compare("lt", x, zero), below, size)
    y = b.select(b.logical("and", odd, has_sign(b, b.stop_gradient(x))), b.neg(y), y)
    y = b.select(at_zero, b.select(is_none, one, _power_of_zero(b, x, exponent, odd)), y)
    # 1 to any power, -1 to an infinite one and anything to the power of 0 are 1, which
    # e^(0 · ∞) is not.
    limits = [*zip((is_none, b.compare("eq", x, one)), endless, strict=True)]
    limits.append((b.compare("eq", magnitude, one), b.compare("eq", rate, infinity)))
    is_one = reduce(partial(b.logical, "or"), (b.logical("and", *pair) for pair in limits))
    return b.select(is_one, one, y)


def integer_power(b: Builder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """Integers to the power of integers, modulo what their type holds: a product of squares.

    Negative powers of 1 and -1 are 1 and -1, those of 0 the least number of the type, as machines
    make it of infinity, those of others 0.
    """
    x, exponent = b.broadcast_together(x, b.cast(exponent, dtype_of(x)))
    one, zero = b.full_like(x, 1), b.full_like(x, 0)
    odd = b.compare("ne", b.bits("and", exponent, one), zero)
    result, square = b.select(odd, x, one), x
    # beyond 63 factors nothing is left but powers of -1, 0 and 1, of which all even ones are equal
    left = b.minimum(exponent, b.select(odd, b.full_like(x, 63), b.full_like(x, 62)))
    for _ in range(5):
        square, left = b.mul(square, square), b.bits("right", left, one)
        factor = b.compare("ne", b.bits("and", left, one), zero)
        result = b.mul(result, b.select(factor, square, one))
    unit = b.compare("eq", absolute(b, x), one)
    least = b.full_like(x, float(np.iinfo(NUMPY[dtype_of(x)]).min))
    below = b.select(b.compare("eq", x, zero), least, b.select(unit, b.select(odd, x, one), zero))
    return b.select(b.compare("lt", exponent, zero), below, result)


def _power_of_zero(b: Builder, zero: SSAValue, exponent: SSAValue, odd: SSAValue) -> SSAValue:
    """0 to a power above 0, with the slope there: infinite below 1, 1 at 1, 0 beyond.

    -0 stays -0 in odd powers, and is 0 in all others.
    """
    one, nothing = b.full_like(zero, 1.0), b.full_like(zero, 0.0)
    is_root = b.logical("and", b.compare("lt", nothing, exponent), b.compare("lt", exponent, one))
    is_root = b.logical("and", is_root, b.compare("eq", zero, nothing))
    root = b.sqrt(b.select(is_root, b.add(zero, nothing), one))
    flat = b.select(odd, b.stop_gradient(zero), nothing)
    others = b.select(b.compare("eq", exponent, one), zero, flat)
    return b.select(is_root, root, others)


def _known_power(b: Builder, x: SSAValue, exponent: float) -> SSAValue:
    if not math.isfinite(exponent):
        return _power(b, x, rate := b.full_like(x, exponent), rate)
    if exponent < 0:
        return b.div(b.full_like(x, 1.0), _known_power(b, x, -exponent))
    if exponent == 0.5:
        return b.sqrt(x)
    if exponent != int(exponent) or exponent > MOST_FACTORS:
        return _power(b, x, rate := b.full_like(x, exponent), rate)
    result, square, bits = None, x, int(exponent)
    while bits:
        if bits & 1:
            result = square if result is None else b.mul(result, square)
        bits >>= 1
        square = b.mul(square, square) if bits else square
    return b.full_like(x, 1.0) if result is None else result
