"""Comparisons, logic, choices and bounds of aten."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rnncc.frontends.torch.node_context import NodeContext, Operand, Table, Translation, Value
from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS, dims_of, dtype_of


def compare(kind: str) -> Translation:
    """a < b, a <= b, ..."""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        return at.b.compare(kind, *at.common(a, b))

    return translate


def logical(kind: str) -> Translation:
    """a and b, a or b, ...: what is not 0 is true"""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        return at.b.logical(kind, at.value(a, "i1"), at.value(b, "i1"))

    return translate


def logical_not(at: NodeContext, x: Value) -> Value:
    """not x"""
    return at.b.logical_not(at.value(x, "i1"))


def bitwise(kind: str) -> Translation:
    """a and b, a or b, ... of each bit, and of bools"""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        return (at.b.logical if at.dtype == "i1" else at.b.bits)(kind, at.value(a), at.value(b))

    return translate


def bitwise_not(at: NodeContext, x: Value) -> Value:
    """not x, of each bit, and of bools"""
    return bitwise("xor")(at, x, True if at.dtype == "i1" else -1)


def shift(direction: str) -> Translation:
    """a with its bits moved by b: all of them, where b is negative or as large as their number"""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        return at.b.bits(direction, at.value(a), at.value(b))

    return translate


def where(at: NodeContext, condition: Value, a: Operand, b: Operand) -> Value:
    """a where the condition holds, else b"""
    return at.b.select(at.value(condition, "i1"), at.value(a), at.value(b))


def masked_fill(at: NodeContext, x: Value, mask: Value, value: Operand) -> Value:
    """The value where the mask holds, else x"""
    return where(at, mask, value, x)


def extreme(function: Callable[[Builder, Value, Value], Value]) -> Translation:
    """max(a, b) or min(a, b); where they are equal, each has half of the gradient"""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        one, other = at.value(a), at.value(b)
        extremum = function(at.b, one, other)
        if at.dtype not in FLOATS:
            return extremum
        mean = at.b.add(at.scaled(one, 0.5), at.scaled(other, 0.5))
        return at.b.select(at.b.compare("eq", one, other), mean, extremum)

    return translate


def number_of(kind: str) -> Translation:
    """The larger or the smaller of two numbers, the other where one is none; a of equal ones"""

    def translate(at: NodeContext, a: Operand, b: Operand) -> Value:
        one, other = at.value(a), at.value(b)
        first = at.b.compare(kind, one, other)
        return at.b.select(at.b.logical("or", first, is_nan(at, other)), one, other)

    return translate


def clamp(
    at: NodeContext, x: Value, low: Operand | None = None, high: Operand | None = None
) -> Value:
    """x held within bounds, which are part of where its slope is 1; `high` where `low` is above"""
    x = at.value(x)
    for kind, bound in (("lt", low), ("gt", high)):
        if bound is not None:
            x = at.b.select(_is_beyond(at, kind, x, bound), at.value(bound), x)
    return x


def _is_beyond(at: NodeContext, kind: str, x: Value, bound: Operand) -> Value:
    """Whether x lies beyond a bound, or that is no number."""
    limit = at.value(bound)
    beyond = at.b.compare(kind, x, limit)
    is_number = not isinstance(bound, Value) and bound == bound
    if is_number or dtype_of(limit) not in FLOATS:
        return beyond
    return at.b.logical("or", beyond, is_nan(at, limit))


def clamp_max(at: NodeContext, x: Value, high: Operand) -> Value:
    """x, at most so much"""
    return clamp(at, x, None, high)


def is_nan(at: NodeContext, x: Value) -> Value:
    """Whether x is no number"""
    return at.b.compare("ne", x, x)


def beside_infinity(kind: str, sign: float | None = None) -> Translation:
    """x compared with an infinity of a sign, or |x| with the positive one"""

    def translate(at: NodeContext, x: Value) -> Value:
        value = at.value(x, dtype_of(x) if dtype_of(x) in FLOATS else "f32")
        value = at.b.abs(value) if sign is None else value
        return at.b.compare(kind, value, at.b.full_like(value, (sign or 1.0) * math.inf))

    return translate


def place_among(
    at: NodeContext, x: Operand, bounds: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    """How many sorted bounds are below x, or with `right` not above it; all of them for NaN"""
    b, value = at.b, at.value(x, dtype_of(bounds))
    wide, rank = (*dims_of(value), dims_of(bounds)[-1]), len(dims_of(value))
    mine = b.broadcast(value, wide, range(rank))
    theirs = b.broadcast(bounds, wide, [*range(len(dims_of(bounds)) - 1), rank])
    before = b.logical_not(b.compare("gt" if right else "ge", theirs, mine))
    return b.cast(b.reduce("sum", b.cast(before, "i32"), [rank]), at.dtype)


def place_in(at: NodeContext, bounds: Value, x: Operand, **options: Any) -> Value:
    """The same, of rows of bounds for rows of x"""
    if options.pop("sorter", None) is not None:
        at.refuse("searchsorted with a sorter is not supported", "bounds.gather(-1, sorter)")
    right = options.pop("right", False) or options.pop("side", None) == "right"
    return place_among(at, x, bounds, right=right, **options)


OPERATORS: Table = {
    "isnan": is_nan,
    "isinf": beside_infinity("eq"),
    "isfinite": beside_infinity("lt"),
    "isposinf": beside_infinity("eq", 1.0),
    "isneginf": beside_infinity("eq", -1.0),
    "bucketize.Tensor": place_among,
    "searchsorted.Tensor": place_in,
    **{kind: compare(kind) for kind in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{f"logical_{kind}": logical(kind) for kind in ("and", "or", "xor")},
    **{f"bitwise_{kind}": bitwise(kind) for kind in ("and", "or", "xor")},
    **{f"bitwise_{way}_shift": shift(way) for way in ("left", "right")},
    **{f"__{way[0]}shift__": shift(way) for way in ("left", "right")},
    "logical_not": logical_not,
    "bitwise_not": bitwise_not,
    **{f"where.{form}": where for form in ("self", "Scalar", "ScalarSelf", "ScalarOther")},
    "masked_fill": masked_fill,
    "maximum": extreme(Builder.maximum),
    "minimum": extreme(Builder.minimum),
    "fmax": number_of("ge"),
    "fmin": number_of("le"),
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp_max,
}
