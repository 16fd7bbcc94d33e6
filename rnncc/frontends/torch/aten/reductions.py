"""Reductions of aten, and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rnncc.frontends.torch.node_context import (
    NodeContext,
    Number,
    Table,
    Translation,
    Value,
    as_list,
    rank_of,
)
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of
from rnncc.nn import normalisation
from rnncc.nn.reduction import (
    centre,
    cumulate,
    flat_root,
    largest,
    log_add_exp,
    log_sum_exp,
    multiplied,
    root_of_powers,
    smallest,
)

Axes = int | Sequence[int] | None


def total(at: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False, **_: object) -> Value:
    """The sum along axes, all of them where none are named"""
    return reduce(at, "sum", at.value(x), dim)


def mean(at: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False, **_: object) -> Value:
    """The sum over the count"""
    x = at.value(x)
    return at.b.div(reduce(at, "sum", x, dim), count(at, x, _axes(at, x, dim)))


def extreme(kind: str) -> Translation:
    """The largest or smallest along axes; equal ones share the gradient"""

    def translate(at: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
        return reduce(at, kind, x, dim)

    return translate


def of_axes(function: Callable[[Builder, Value, Sequence[int]], Value]) -> Translation:
    """The product, or ln Σ eˣ, along axes, all of them where none are named"""

    def translate(
        at: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False, **_: object
    ) -> Value:
        x = at.value(x)
        return at.b.reshape(function(at.b, x, _axes(at, x, dim)), at.dims)

    return translate


def variance_and_mean(
    at: NodeContext,
    x: Value,
    dim: Axes = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    """The mean square of what is left without the mean, over the count less the correction"""
    axes, b = _axes(at, x, dim), at.b
    average, rest = centre(b, x, axes)
    less = 1 if correction is None else correction
    spread = b.div(b.reduce("sum", b.mul(rest, rest), axes), count(at, x, axes, less))
    return b.reshape(spread, at.dims), b.reshape(average, at.dims)


def variance(at: NodeContext, x: Value, dim: Axes = None, **options: Any) -> Value:
    """The first of the two"""
    return variance_and_mean(at, x, dim, **options)[0]


def deviation_and_mean(
    at: NodeContext, x: Value, dim: Axes = None, **options: Any
) -> tuple[Value, Value]:
    """The root of the variance, flat where numbers are equal, and the mean"""
    spread, average = variance_and_mean(at, x, dim, **options)
    return flat_root(at.b, spread), average


def deviation(at: NodeContext, x: Value, dim: Axes = None, **options: Any) -> Value:
    """The first of the two"""
    return deviation_and_mean(at, x, dim, **options)[0]


def of_bools(function: Callable[[Builder, Value, Sequence[int]], Value]) -> Translation:
    """Whether some are not 0, or all, along axes, all of them where none are named"""

    def translate(at: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
        flags = function(at.b, at.value(x, "i1"), _axes(at, x, dim))
        return at.b.reshape(at.b.cast(flags, at.dtype), at.dims)

    return translate


def running(function: Callable[[Builder, Value, Value], Value], start: float) -> Translation:
    """What a function makes of what is there so far along an axis"""

    def translate(at: NodeContext, x: Value, dim: int, **_: object) -> Value:
        x = at.value(x)
        if rank_of(x) == 0:
            return x
        return cumulate(at.b, x, at.axis(dim, rank_of(x)), function, start)

    return translate


def distances(at: NodeContext, x: Value, y: Value, p: Number, mode: object = None) -> Value:
    """Between each row of x and each of y: √ Σ d², Σ |d|, or a norm of d; flat at 0"""
    b = at.b
    apart = b.sub(
        b.reshape(x, (*dims_of(x)[:-1], 1, dims_of(x)[-1])),
        b.reshape(y, (*dims_of(y)[:-2], 1, *dims_of(y)[-2:])),
    )
    axis = rank_of(apart) - 1
    if p == math.inf:
        return _largest(at, b.abs(apart), axis)
    if p not in (1, 2):
        return norm(at, apart, p, [axis])
    return b.reduce("sum", b.abs(apart), [axis]) if p == 1 else root_of_powers(b, apart, [axis])


def _largest(at: NodeContext, x: Value, axis: int) -> Value:
    """max x; each of several equal ones gets the whole gradient, where `reduce` shares it out"""
    b = at.b
    largest = b.reduce("max", x, [axis])
    fixed = b.stop_gradient(largest)
    rows = b.reshape(fixed, (*dims_of(fixed)[:axis], 1, *dims_of(fixed)[axis:]))
    equal = b.reduce("sum", b.cast(b.compare("eq", x, rows), at.dtype), [axis])
    zero, one = b.full_like(largest, 0.0), b.full_like(largest, 1.0)
    others = b.mul(b.sub(largest, fixed), b.sub(equal, one))  # 0, but for its gradient
    is_finite = b.compare("lt", fixed, b.full_like(fixed, math.inf))
    return b.add(largest, b.select(is_finite, others, zero))


def norm(
    at: NodeContext,
    x: Value,
    ord: Number = 2,
    dim: Axes = None,
    keepdim: bool = False,
    **_: object,
) -> Value:
    """(sum |x|ᵖ)^(1/p) from order 1 on, max |x|, min |x|, or how many are not 0; flat at 0"""
    x = at.value(x)
    if ord == 0:
        nonzero = at.b.compare("ne", x, at.b.full_like(x, 0.0))
        return reduce(at, "sum", at.b.cast(nonzero, at.dtype), dim)
    if ord == 1:
        return reduce(at, "sum", at.b.abs(x), dim)
    if abs(ord) == math.inf:
        return reduce(at, "max" if ord > 0 else "min", at.b.abs(x), dim)
    if ord < 1:
        at.refuse(f"the norm of order {ord} is not supported", "0, 1 or more, or infinite")
    return at.b.reshape(root_of_powers(at.b, x, _axes(at, x, dim), ord), at.dims)


def distance(at: NodeContext, x: Value, y: Value, p: Number = 2) -> Value:
    """The norm of x - y"""
    apart = at.b.sub(*at.b.broadcast_together(x, y))
    return norm(at, apart, p)


def along(function: Callable[[Builder, Value, int], Value]) -> Translation:
    """exp(x - max x) / sum exp(x - max x) or its logarithm, along an axis, which rank 0 has too"""

    def translate(at: NodeContext, x: Value, dim: int, dtype: object = None) -> Value:
        x = at.value(x)
        if rank_of(x) == 0:
            return at.b.reshape(function(at.b, at.b.reshape(x, (1,)), 0), ())
        return function(at.b, x, at.axis(dim, rank_of(x)))

    return translate


def reduce(at: NodeContext, kind: str, x: Value, dim: Axes) -> Value:
    """A reduction in the shape of the result."""
    axes = _axes(at, x, dim)
    return at.b.reshape(at.b.reduce(kind, x, axes) if axes else x, at.dims)


def count(at: NodeContext, x: Value, axes: Sequence[int], less: Number = 0) -> Value:
    """How many elements each sum along axes has, less so many but not below 0, as a float."""
    size = product(dims_of(x)[axis] for axis in axes)
    if size.is_static:
        return at.value(max(int(size) - less, 0))
    known = at.value(size)
    return at.b.maximum(at.b.sub(known, at.value(less)), at.value(0)) if less else known


def _axes(at: NodeContext, x: Value, dim: Axes) -> list[int]:
    rank = rank_of(x)
    if rank == 0:  # which has an axis 0 for PyTorch
        return []
    return sorted(at.axis(axis, rank) for axis in as_list(dim)) or list(range(rank))


OPERATORS: Table = {
    "sum": total,
    "mean": mean,
    "amax": extreme("max"),
    "amin": extreme("min"),
    "max.default": extreme("max"),
    "min.default": extreme("min"),
    "prod": of_axes(multiplied),
    "logsumexp": of_axes(log_sum_exp),
    "linalg_vector_norm": norm,
    "dist": distance,
    "cumsum": running(Builder.add, 0.0),
    "cumprod": running(Builder.mul, 1.0),
    "logcumsumexp": running(log_add_exp, -math.inf),
    "std.correction": deviation,
    "std_mean.correction": deviation_and_mean,
    **{f"any.{form}": of_bools(largest) for form in ("default", "dim", "dims")},
    **{f"all.{form}": of_bools(smallest) for form in ("default", "dim", "dims")},
    "_cdist_forward": distances,
    "var.correction": variance,
    "var_mean.correction": variance_and_mean,
    **dict.fromkeys(("_softmax", "softmax.int"), along(normalisation.softmax)),
    "_safe_softmax": along(normalisation.safe_softmax),
    **dict.fromkeys(("_log_softmax", "log_softmax.int"), along(normalisation.log_softmax)),
}
