"""Reductions over some axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, NUMBERS, FoldOne, Node, Operator
from rnncc.frontends.onnx.ops.elementwise import absolute
from rnncc.frontends.onnx.values import Array
from rnncc.ir.build import Build
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.axes import kept_dims
from rnncc.nn.reduction import count

Reduction = Callable[[Build, SSAValue, list[int]], SSAValue]


def reduced_axes(n: Node) -> list[int]:
    """The axes in the attribute, from opset 13 or 18 on in an input; all where none are given."""
    rank = len(n.dims())
    axes = n.integers("axes") if n.given("axes") else n.whole(1) if n.has(1) else []
    if not axes:
        return [] if n.integer("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({n.axis(axis, rank) for axis in axes})


def _reduction(function: Reduction, formula: str, dtypes: tuple[str, ...] = NUMBERS) -> Any:
    def build(n: Node) -> SSAValue:
        x, axes = n.x(0, dtypes), reduced_axes(n)
        y = function(n.b, x, axes)
        return n.b.reshape(y, kept_dims(x, axes)) if n.integer("keepdims", 1) else y

    types = "float32" if dtypes == FLOATS else "float32, int32, int64"
    build.__doc__ = (
        f"{formula} over some axes.\n\nRefused: axes that are computed at run time; elements other "
        f"than {types}."
    )
    return build


def total(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
    """The sum; x itself over no axes."""
    return b.reduce("sum", x, axes) if axes else x


def mean(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
    """The mean of floats."""
    return b.div(total(b, x, axes), count(b, x, axes))


def _extremum(kind: str) -> Reduction:
    def function(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
        if not axes:
            return x
        if dtype_of(x) != "i1":
            return b.reduce(kind, x, axes)
        counted = b.cast(x if kind == "max" else b.logical_not(x), "i32")
        found = b.cast(b.reduce("sum", counted, axes), "i1")
        return found if kind == "max" else b.logical_not(found)

    return function


def _product(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
    """A loop over the elements."""
    dims = dims_of(x)
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    rows = b.transpose(x, [*axes, *kept])
    rest = [dims[axis] for axis in kept]
    rows = b.reshape(rows, (product(dims[axis] for axis in axes), *rest))

    def step(inner: Build, consts: Any, carry: Any, row: Any) -> Any:
        return [inner.mul(carry[0], row[0])], []

    finals, _ = b.scan([], [b.fill(1, rest, dtype_of(x))], [rows], step)
    return finals[0]


def _log_sum_exp(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
    """max + ln Σ e^(x - max)"""
    if not axes:
        return x
    most = b.reduce("max", x, axes)
    infinite = b.compare("eq", b.abs(most), b.fill(np.inf, ()))
    held = b.stop_gradient(b.select(infinite, b.full_like(most, 0.0), most))  # it cancels out
    centred = b.sub(x, b.reshape(held, kept_dims(x, axes)))
    sums = b.log(b.reduce("sum", b.exp(centred), axes))
    return b.add(sums, held)


def _fold(numpy: Callable[..., Any]) -> FoldOne:
    def fold(n: Node, arrays: list[Array]) -> Array | None:
        axes = tuple(reduced_axes(n))
        if arrays[0].dtype == object and numpy not in (np.sum, np.prod):
            return None
        if not arrays[0].size and numpy in (np.max, np.min):
            return None  # NumPy knows no extremum of nothing
        found = numpy(arrays[0], axis=axes, keepdims=bool(n.integer("keepdims", 1)))
        return np.asarray(found, arrays[0].dtype)

    return fold


def _squares(b: Build, x: SSAValue, axes: list[int]) -> SSAValue:
    return total(b, b.mul(x, x), axes)


EXTREMA = (*NUMBERS, "i1")
OPERATORS: dict[str, Operator] = {
    "ReduceSum": Operator(_reduction(total, "The sum"), _fold(np.sum)),
    "ReduceMean": Operator(_reduction(mean, "The mean", FLOATS), _fold(np.mean)),
    "ReduceMax": Operator(_reduction(_extremum("max"), "The largest", EXTREMA), _fold(np.max)),
    "ReduceMin": Operator(_reduction(_extremum("min"), "The smallest", EXTREMA), _fold(np.min)),
    "ReduceProd": Operator(_reduction(_product, "The product"), _fold(np.prod)),
    "ReduceL1": Operator(
        _reduction(lambda b, x, axes: total(b, absolute(b, x), axes), "The sum of |X|")
    ),
    "ReduceL2": Operator(
        _reduction(lambda b, x, axes: b.sqrt(_squares(b, x, axes)), "√ of the sum of X²", FLOATS)
    ),
    "ReduceSumSquare": Operator(_reduction(_squares, "The sum of X²")),
    "ReduceLogSum": Operator(
        _reduction(lambda b, x, axes: b.log(total(b, x, axes)), "ln of the sum", FLOATS)
    ),
    "ReduceLogSumExp": Operator(_reduction(_log_sum_exp, "ln of the sum of e^X", FLOATS)),
}
