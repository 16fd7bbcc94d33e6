"""Rewrites of arithmetic: neutral elements, known conditions, ops on uniform values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_dim, is_held
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops import casts, functions
from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.base import Context, Elementwise, RnnOp
from rnncc.ir.ops.shape import Broadcast, ReverseSegments
from rnncc.ir.ops.source import Constant, Fill, Iota, Size
from rnncc.ir.types import FLOATS, dims_of, dtype_of

Rule = Callable[[Any], SSAValue | None]
_OF_SIZES = (*FLOATS, "i32", "i64")
_WIDE, _SINGLE = Context({}, np.float64), Context({}, np.float32)


def fill_value(value: SSAValue) -> float | None:
    """The number that a fill repeats."""
    owner = value.owner
    return owner.value.value.data if type(owner) is Fill else None  # isinstance is slow on ABCs


def evaluate_fills(op: Elementwise) -> SSAValue | None:
    """f(fill, fill) → fill"""
    numbers = [fill_value(v) for v in op.operands]
    if None in numbers or "bf16" in map(dtype_of, (op.y, *op.operands)):  # NumPy has no such number
        return None
    # A fill of f32 holds a double, until something shows that elements are rounded.
    shows = dtype_of(op.y) != "f32" or isinstance(op, ew.Round)
    context = _SINGLE if shows else _WIDE
    with np.errstate(all="ignore"):
        arrays = [
            np.array(n, context.numpy_type(dtype_of(v)))
            for n, v in zip(numbers, op.operands, strict=True)
        ]
        result = op.evaluate(context, *arrays)
    if dtype_of(op.y) == "i64" and not is_held(int(result)):
        return None  # a fill holds a float64
    return Builder.before(op).fill(float(result), dims_of(op.y), dtype_of(op.y))


def below_broadcasts(op: Elementwise) -> SSAValue | None:
    """f(broadcast a, broadcast b) → broadcast f(a, b): the same with fewer elements"""
    owners = [owner for v in op.operands if type(owner := v.owner) is not Fill]
    first = owners[0] if owners else None
    if type(first) is not Broadcast:
        return None
    for owner in owners:
        if not isinstance(owner, Broadcast) or owner.axes != first.axes:
            return None
        if dims_of(owner.x) != dims_of(first.x):
            return None
    b = Builder.before(op)
    small: list[SSAValue] = []
    for v in op.operands:
        value = fill_value(v)  # which may be -0.0, not to be taken for none
        if value is not None:
            small.append(b.fill(value, dims_of(first.x), dtype_of(v)))
        elif isinstance(v.owner, Broadcast):
            small.append(v.owner.x)
    return b.like(first, [b.like(op, small)])


def add(op: ew.Add) -> SSAValue | None:
    """x + (-0.0) → x; x + 0 → x over integers. x + 0.0 would turn -0.0 into 0.0."""
    for x, other in ((op.a, op.b), (op.b, op.a)):
        number = fill_value(other)
        if number == 0 and (dtype_of(x) not in FLOATS or math.copysign(1, number) < 0):
            return x
    return None


def sub(op: ew.Sub) -> SSAValue | None:
    """x - 0.0 → x"""
    number = fill_value(op.b)
    # -0.0 - (-0.0) is 0.0.
    return op.a if number == 0 and math.copysign(1, number) > 0 else None


def mul(op: ew.Mul) -> SSAValue | None:
    """x · 1 → x"""
    # No rule for x · 0: of NaN and infinity it is NaN, of negative numbers -0.0.
    if fill_value(op.b) == 1:
        return op.a
    return op.b if fill_value(op.a) == 1 else None


def div(op: ew.Div | ew.Share) -> SSAValue | None:
    """x / 1 → x"""
    return op.a if fill_value(op.b) == 1 else None


def neg(op: ew.Neg) -> SSAValue | None:
    """-(-x) → x"""
    return op.x.owner.x if isinstance(op.x.owner, ew.Neg) else None


def invert(op: ew.Not) -> SSAValue | None:
    """not not x → x"""
    return op.x.owner.x if isinstance(op.x.owner, ew.Not) else None


def repeat(op: ew.Relu | ew.Abs) -> SSAValue | None:
    """f(f(x)) → f(x)"""
    return op.x if type(op.x.owner) is type(op) else None


def extreme(op: ew.Maximum | ew.Minimum) -> SSAValue | None:
    """max(x, x) → x"""
    return op.a if op.a is op.b else None


def logical(op: ew.Logical) -> SSAValue | None:
    """x and true, x or false, x xor false, x and x, x or x → x; and, or of the other constant"""
    neutral = {"and": 1, "or": 0, "xor": 0}[op.kind.data]
    for x, other in ((op.a, op.b), (op.b, op.a)):
        number = fill_value(other)
        if number is not None and number == neutral:
            return x
        if number is not None and op.kind.data != "xor":
            return other
    return op.a if op.a is op.b and op.kind.data != "xor" else None


def select(op: ew.Select) -> SSAValue | None:
    """select(true, a, b) → a; select(c, a, a) → a; select(not c, a, b) → select(c, b, a)"""
    known = fill_value(op.condition)
    if known is not None:
        return op.a if known else op.b
    if op.a is op.b:
        return op.a
    if isinstance(op.condition.owner, ew.Not):
        return Builder.before(op).like(op, [op.condition.owner.x, op.b, op.a])
    inner_a, inner_b = op.a.owner, op.b.owner
    if isinstance(inner_a, ew.Select) and inner_a.condition is op.condition:
        return Builder.before(op).like(op, [op.condition, inner_a.a, op.b])
    if isinstance(inner_b, ew.Select) and inner_b.condition is op.condition:
        return Builder.before(op).like(op, [op.condition, op.a, inner_b.b])
    return None


def cast(op: casts.Cast) -> SSAValue | None:
    """x as its own type → x; a size as a type that holds all sizes is that size"""
    if dtype_of(op.x) == dtype_of(op.y):
        return op.x
    # A float32 has rounded a large size, and narrow types hold no large one.
    if isinstance(op.x.owner, Size) and dtype_of(op.x) != "f32" and dtype_of(op.y) in _OF_SIZES:
        return Builder.before(op).size(get_dim(op.x.owner.dim), dtype_of(op.y))
    return None


def size(op: Size) -> SSAValue | None:
    """A size without symbols → fill, which holds a float64"""
    dim = get_dim(op.dim)
    if not dim.is_static or not is_held(int(dim)):
        return None
    return Builder.before(op).fill(int(dim), (), dtype_of(op.y))


def constant(op: Constant) -> SSAValue | None:
    """The same number everywhere → fill"""
    numbers = op.values.data
    if not numbers or any(n != numbers[0] for n in numbers):
        return None
    return Builder.before(op).fill(float(op.array().flat[0]), dims_of(op.y), dtype_of(op.y))


def iota(op: Iota) -> SSAValue | None:
    """Indices along an axis of size 1 → 0"""
    if dims_of(op.y)[op.axis.data] != Dim.of(1):
        return None
    return Builder.before(op).fill(0, dims_of(op.y), dtype_of(op.y))


def reverse_twice(op: ReverseSegments) -> SSAValue | None:
    """Reversing twice by the same lengths → x"""
    inner = op.x.owner
    if isinstance(inner, ReverseSegments) and inner.lengths is op.lengths:
        return inner.x
    return None


_OWN: dict[type[RnnOp], tuple[Rule, ...]] = {
    ew.Add: (add,),
    ew.Sub: (sub,),
    ew.Mul: (mul,),
    ew.Div: (div,),
    ew.Share: (div,),
    ew.Neg: (neg,),
    ew.Not: (invert,),
    ew.Relu: (repeat,),
    ew.Abs: (repeat,),
    ew.Maximum: (extreme,),
    ew.Minimum: (extreme,),
    ew.Logical: (logical,),
    ew.Select: (select,),
    casts.Cast: (cast,),
}
RULES: dict[type[RnnOp], tuple[Rule, ...]] = {
    **{
        op: (*_OWN.get(op, ()), evaluate_fills, below_broadcasts)
        for op in (*ew.OPS, *casts.OPS, *functions.OPS)
    },
    Size: (size,),
    Constant: (constant,),
    Iota: (iota,),
    ReverseSegments: (reverse_twice,),
}
