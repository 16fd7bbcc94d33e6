"""Tensors that aten makes from numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnncc.frontends.torch.node_context import (
    NodeContext,
    Number,
    Operand,
    Table,
    Translation,
    Value,
)
from rnncc.frontends.torch.types import LARGEST_CONSTANT
from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY
from rnncc.nn.factors import identity


def filled(number: Number) -> Translation:
    """One number everywhere"""

    def translate(at: NodeContext, *_: Any, **__: Any) -> Value:
        return at.b.fill(float(number), at.dims, at.dtype)

    return translate


def full(at: NodeContext, size: Any, value: Operand, **_: Any) -> Value:
    """A given number everywhere"""
    return at.widened(at.value(value))


def new_full(at: NodeContext, like: Value, size: Any, value: Operand, **_: Any) -> Value:
    """The same, of the dtype of another tensor"""
    return full(at, size, value)


def copy(at: NodeContext, x: Value, new: Value, *_: Any) -> Value:
    """New values in x's shape"""
    return at.widened(at.value(new))


def scalar_tensor(at: NodeContext, value: Operand, **_: Any) -> Value:
    """A number as a tensor of rank 0"""
    return at.value(value)


def arange(at: NodeContext, *bounds: Any, **_: Any) -> Value:
    """start, start + step, ...; a known number of them where they are not integers"""
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    if not all(isinstance(n, (int, Dim)) for n in (start, step)):
        return _known_range(at, start, step)
    count = at.value(at.b.iota(at.dims, 0, "i64"))
    return at.b.add(at.b.mul(count, at.value(step)), at.value(start))


def _known_range(at: NodeContext, start: Number, step: Number) -> Value:
    """PyTorch computes them in double precision."""
    (size,) = at.dims
    if not size.is_static or isinstance(start, Dim):
        at.refuse("an open range of floats that are not integers is not supported")
    _check_written(at, int(size))
    numbers = float(start) + float(step) * np.arange(int(size))
    return at.b.constant(numbers.astype(NUMPY[at.dtype]))


def eye(at: NodeContext, *_: Any, **__: Any) -> Value:
    """1 along the diagonal, 0 elsewhere"""
    return identity(at.b, at.dims, at.dtype)


def _check_written(at: NodeContext, count: int) -> None:
    if count > LARGEST_CONSTANT:
        at.refuse(f"a table of {count} numbers is not supported", f"{LARGEST_CONSTANT} are")


def triangle_places(upper: bool) -> Translation:
    """The rows and columns of the elements of a triangle"""

    def translate(at: NodeContext, row: int, column: int, offset: int = 0, **_: Any) -> Value:
        _check_written(at, row * column)
        places = np.triu_indices if upper else np.tril_indices
        return at.b.constant(np.stack(places(row, offset, column)).astype(NUMPY[at.dtype]))

    return translate


OPERATORS: Table = {
    **dict.fromkeys("zeros zeros_like new_zeros empty empty_like new_empty".split(), filled(0)),
    **dict.fromkeys("ones ones_like new_ones".split(), filled(1)),
    **dict.fromkeys("full full_like fill".split(), full),
    "new_full": new_full,
    "copy": copy,
    "scalar_tensor": scalar_tensor,
    "arange": arange,
    "eye": eye,
    "tril_indices": triangle_places(upper=False),
    "triu_indices": triangle_places(upper=True),
}
