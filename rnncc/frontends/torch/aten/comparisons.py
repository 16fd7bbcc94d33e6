"""Comparisons, logic, choices and bounds of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Operand, Site, Table, Translation, Value
from rnncc.ir.types import dtype_of


def compare(kind: str) -> Translation:
    """A ? b"""

    def translate(at: Site, a: Operand, b: Operand) -> Value:
        return at.b.compare(kind, *at.common(a, b))

    return translate


def logical(kind: str) -> Translation:
    """A ? b, of what is not 0"""

    def translate(at: Site, a: Operand, b: Operand) -> Value:
        return at.b.logical(kind, at.value(a, "i1"), at.value(b, "i1"))

    return translate


def bitwise(kind: str) -> Translation:
    """The same of bools; whole numbers are refused"""

    def translate(at: Site, a: Operand, b: Operand) -> Value:
        if at.dtype != "i1":
            at.refuse("bits of whole numbers are not supported")
        return logical(kind)(at, a, b)

    return translate


def logical_not(at: Site, x: Value) -> Value:
    """Not x"""
    return at.b.logical_not(at.value(x, "i1"))


def bitwise_not(at: Site, x: Value) -> Value:
    """Not x, of a bool"""
    if dtype_of(x) != "i1":
        at.refuse("bits of whole numbers are not supported")
    return at.b.logical_not(x)


def where(at: Site, condition: Value, a: Operand, b: Operand) -> Value:
    """A where the condition holds, else b"""
    return at.b.select(at.value(condition, "i1"), at.value(a), at.value(b))


def masked_fill(at: Site, x: Value, mask: Value, value: Operand) -> Value:
    """The value where the mask holds, else x"""
    return at.b.select(at.value(mask, "i1"), at.value(value), x)


def maximum(at: Site, a: Operand, b: Operand) -> Value:
    """max(a, b); where they are equal, each has half of the gradient"""
    return _extreme(at, "max", at.value(a), at.value(b))


def minimum(at: Site, a: Operand, b: Operand) -> Value:
    """min(a, b); where they are equal, each has half of the gradient"""
    return _extreme(at, "min", at.value(a), at.value(b))


def clamp(at: Site, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    """X held within bounds, which are part of where its slope is 1"""
    x = at.value(x)
    if high is not None:
        x = at.b.select(at.b.compare("gt", x, at.value(high)), at.value(high), x)
    if low is not None:
        x = at.b.select(at.b.compare("lt", x, at.value(low)), at.value(low), x)
    return x


def clamp_max(at: Site, x: Value, high: Operand) -> Value:
    """X, at most so much"""
    return clamp(at, x, None, high)


def _extreme(at: Site, kind: str, a: Value, b: Value) -> Value:
    made = at.b.maximum(a, b) if kind == "max" else at.b.minimum(a, b)
    if at.dtype != "f32":
        return made
    half = at.value(0.5)
    mean = at.b.add(at.b.mul(a, half), at.b.mul(b, half))
    return at.b.select(at.b.compare("eq", a, b), mean, made)


_KINDS = ("lt", "le", "gt", "ge", "eq", "ne")
OPERATORS: Table = {
    **{kind: compare(kind) for kind in _KINDS},
    **{f"logical_{kind}": logical(kind) for kind in ("and", "or", "xor")},
    **{f"bitwise_{kind}": bitwise(kind) for kind in ("and", "or", "xor")},
    "logical_not": logical_not,
    "bitwise_not": bitwise_not,
    "where": where,
    "masked_fill": masked_fill,
    "maximum": maximum,
    "minimum": minimum,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp_max,
}
