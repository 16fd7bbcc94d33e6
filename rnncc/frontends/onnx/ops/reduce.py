"""Reductions over some axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.shapes import multiplied_sizes
from rnncc.frontends.onnx.formulas.sizes import Undecided, add, larger, multiply, smaller
from rnncc.frontends.onnx.node import COMPUTED, FLOATS, NUMBERS, FoldOne, Node, OnnxOperator
from rnncc.frontends.onnx.values import EXACT, Array
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dtype_of
from rnncc.nn.arithmetic import absolute, clamp
from rnncc.nn.axes import kept_dims
from rnncc.nn.quantisation import LIMITS
from rnncc.nn.reduction import (
    largest,
    log_sum_exp,
    mean,
    multiplied,
    root_of_powers,
    smallest,
    total,
)

Reduction = Callable[[Builder, SSAValue, list[int]], SSAValue]


def reduced_axes(n: Node) -> list[int]:
    """The axes in the attribute, from opset 13 or 18 on in an input; all where none are given."""
    rank = len(n.dims())
    axes = n.integers("axes") if n.given("axes") else n.known_integers(1) if n.has(1) else []
    if not axes:
        return [] if n.flag("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({n.axis(axis, rank) for axis in axes})


def _reduction(function: Reduction, formula: str, dtypes: tuple[str, ...] = NUMBERS) -> Any:
    def build(n: Node) -> SSAValue:
        x, axes = n.x(0, dtypes), reduced_axes(n)
        y = multiplied_sizes(n) if function is multiplied and axes else None
        y = function(n.b, x, axes) if y is None else y
        limits = LIMITS.get(n.value(0).dtype)
        if limits is not None and function in (largest, smallest):
            y = clamp(n.b, y, *limits)  # of no elements it is a limit of the type computed in
        return n.b.reshape(y, kept_dims(x, axes)) if n.flag("keepdims", 1) else y

    types = "floats" if dtypes == FLOATS else "floats, int32, int64"
    build.__doc__ = (
        f"{formula} over some axes.\n\nRefused: axes that are computed at run time; elements other "
        f"than {types}."
    )
    return build


def _fold(numpy: Callable[..., Any]) -> FoldOne:
    def fold(n: Node, arrays: list[Array]) -> Array | None:
        axes = tuple(reduced_axes(n))
        if arrays[0].dtype == object:
            function = None if n.value(0).dtype in EXACT else OF_SIZES.get(numpy)
            return None if function is None else _of_sizes(n, function, arrays[0], axes)
        if not arrays[0].size and numpy in (np.max, np.min):
            return None  # NumPy knows no extremum of nothing
        reduced = numpy(arrays[0], axis=axes, keepdims=n.flag("keepdims", 1))
        return np.asarray(reduced, arrays[0].dtype)

    return fold


def _of_sizes(
    n: Node, function: Callable[[Dim, Dim], Dim], sizes: Array, axes: tuple[int, ...]
) -> Array | None:
    """A reduction of sizes; None where it depends on what a symbol is."""
    kept = [axis for axis in range(sizes.ndim) if axis not in axes]
    rows = np.transpose(sizes, [*kept, *axes]).reshape(-1, prod(sizes.shape[a] for a in axes))
    dims = [1 if a in axes else size for a, size in enumerate(sizes.shape)]
    if not rows.shape[1]:
        return None
    reduced: Array = np.empty(len(rows), object)
    try:
        reduced[:] = [reduce(function, row) for row in rows]
    except Undecided:
        return None
    return reduced.reshape(dims if n.flag("keepdims", 1) else [sizes.shape[axis] for axis in kept])


def _by_floats(function: Reduction) -> Reduction:
    """A reduction whose results are no integers: of integers these are rounded towards zero."""

    def reduced(b: Builder, x: SSAValue, axes: list[int]) -> SSAValue:
        if dtype_of(x) in FLOATS:
            return function(b, x, axes)
        return b.cast(function(b, b.cast(x, "f64"), axes), dtype_of(x))

    return reduced


def _log_of_sum(b: Builder, x: SSAValue, axes: list[int]) -> SSAValue:
    return b.log(total(b, x, axes))


def _squares(b: Builder, x: SSAValue, axes: list[int]) -> SSAValue:
    return total(b, b.mul(x, x), axes)


OF_SIZES: dict[Any, Callable[[Dim, Dim], Dim]] = {
    **{np.sum: add, np.prod: multiply, np.max: larger, np.min: smaller}
}
"""A reduction of numbers by NumPy -> the function of two that it is of sizes."""
OPERATORS: dict[str, OnnxOperator] = {
    "ReduceSum": OnnxOperator(_reduction(total, "The sum"), _fold(np.sum)),
    "ReduceMean": OnnxOperator(
        _reduction(mean, "The mean, of integers towards zero,"), _fold(np.mean)
    ),
    "ReduceMax": OnnxOperator(_reduction(largest, "The largest", COMPUTED), _fold(np.max)),
    "ReduceMin": OnnxOperator(_reduction(smallest, "The smallest", COMPUTED), _fold(np.min)),
    "ReduceProd": OnnxOperator(_reduction(multiplied, "The product"), _fold(np.prod)),
    "ReduceL1": OnnxOperator(
        _reduction(lambda b, x, axes: total(b, absolute(b, x), axes), "The sum of |X|")
    ),
    "ReduceL2": OnnxOperator(
        _reduction(_by_floats(root_of_powers), "√ of the sum of X², of integers towards zero,")
    ),
    "ReduceSumSquare": OnnxOperator(_reduction(_squares, "The sum of X²")),
    "ReduceLogSum": OnnxOperator(
        _reduction(
            _by_floats(_log_of_sum),
            "ln of the sum, of integers towards zero, NaN as 0,",
        )
    ),
    "ReduceLogSumExp": OnnxOperator(_reduction(log_sum_exp, "ln of the sum of e^X", FLOATS)),
}
