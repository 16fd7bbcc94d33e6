"""Tensors that aten makes from numbers."""

from __future__ import annotations

from typing import Any

from rnncc.frontends.torch.site import Number, Operand, Site, Table, Translation, Value
from rnncc.ir.dims import Dim


def filled(number: Number) -> Translation:
    """One number everywhere"""

    def translate(at: Site, *_: Any, **__: Any) -> Value:
        return at.b.fill(float(number), at.dims, at.dtype)

    return translate


def full(at: Site, size: Any, value: Operand, **_: Any) -> Value:
    """A given number everywhere"""
    return at.widened(at.value(value))


def new_full(at: Site, like: Value, size: Any, value: Operand, **_: Any) -> Value:
    """The same, of the dtype of another tensor"""
    return full(at, size, value)


def copy(at: Site, x: Value, new: Value, *_: Any) -> Value:
    """New values in x's shape"""
    return at.widened(at.value(new))


def scalar_tensor(at: Site, value: Operand, **_: Any) -> Value:
    """A number as a tensor of rank 0"""
    return at.value(value)


def arange(at: Site, *bounds: Any, **_: Any) -> Value:
    """start, start + step, ... as whole numbers"""
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    if not all(isinstance(n, (int, Dim)) for n in (start, step)):
        at.refuse("a range of numbers that are not whole is not supported")
    count = at.value(at.b.iota(at.dims, 0, "i64"))
    return at.b.add(at.b.mul(count, at.value(step)), at.value(start))


OPERATORS: Table = {
    **dict.fromkeys("zeros zeros_like new_zeros empty empty_like new_empty".split(), filled(0)),
    **dict.fromkeys("ones ones_like new_ones".split(), filled(1)),
    **dict.fromkeys("full full_like fill".split(), full),
    "new_full": new_full,
    "copy": copy,
    "scalar_tensor": scalar_tensor,
    "arange": arange,
}
