"""Operators that read together the rows of tensors whose number of rows the run decides: those that
do not count become what changes nothing, such as 0 in a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import one_that_fits, same_count
from rnncc.frontends.onnx.counted.rows import Partial, filled
from rnncc.frontends.onnx.counted_ops.sizes import shortened
from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.computed_sizes import computed_number, is_computed
from rnncc.frontends.onnx.ops.reduce import reduced_axes
from rnncc.frontends.onnx.values import Value, are_held, sizes_value
from rnncc.ir.dims import product
from rnncc.ir.ops.linear import empty_value
from rnncc.ir.size_proofs import smaller
from rnncc.ir.types import NARROW_FLOATS, NUMPY, dims_of, dtype_of
from rnncc.nn.axes import by_channel
from rnncc.nn.normalisation import normalise
from rnncc.nn.quantisation import LIMITS
from rnncc.nn.reduction import reduce_keepdims

_SUMS = ("Sum", "Mean", "L1", "L2", "SumSquare", "LogSum")
_NORMS = {"Softmax": -math.inf, "LogSoftmax": -math.inf, "Hardmax": -math.inf, "LpNormalization": 0}
"""What changes nothing in them."""
_GLOBAL = ("GlobalAveragePool", "GlobalMaxPool")
CHANNELS = 1
"""The axis of channels."""
_STORED_FLOATS = (*FLOATS, *NARROW_FLOATS)
_ORDERED = (*_STORED_FLOATS, *LIMITS, "i32", "i64")
"""Types besides bools of which there is a least and a largest element."""


def build_together(n: Node, name: str, operator: OnnxOperator, x: Partial) -> list[Any] | None:
    """The outputs of a node that reads all rows of its first input; None where it does not."""
    if name in _WAYS:
        return _WAYS[name](n, operator, x)
    if name == "NonZero":
        n.inputs[0] = with_others(n, x, 0)
        return [operator.build(n)]
    if name in _NORMS:
        return _normed(n, operator, x, name)
    if name == "InstanceNormalization" and x.axis >= CHANNELS + 1:
        return [_channels_normed(n, x)]
    if name in _GLOBAL and x.axis >= CHANNELS + 1 and x.dtype in _STORED_FLOATS:
        return [_globally_pooled(n, operator, x)]
    return reduced(n, name, operator, [x])


def reduced(
    n: Node, name: str, operator: OnnxOperator, along: Sequence[Partial]
) -> list[Any] | None:
    """A reduction of a tensor over its rows that count, along one axis or two; None of any other
    operator."""
    kind, x = name.removeprefix("Reduce"), along[0]
    if kind == name or not {rows.axis for rows in along} <= {*(axes := reduced_axes(n))}:
        return None
    other = neutral(kind, x.dtype)
    if other is None or (kind == "Mean" and x.dtype not in _STORED_FLOATS):
        return None
    n.inputs[0] = x.whole()
    for rows in along:
        counted = Partial.counted(n.value(0), rows.axis, rows.count)
        n.inputs[0] = with_others(n, counted, other)
    return [_mean(n, along, axes) if kind == "Mean" else operator.build(n)]


def contracted(n: Node, inputs: Sequence[Value | None]) -> Value | None:
    """The product of matrices summed over such rows, which both of them have."""
    x, y = inputs
    if not isinstance(x, Partial) or not isinstance(y, Partial) or min(x.rank, y.rank) < 2:
        return None
    if x.axis != x.rank - 1 or y.axis != y.rank - 2 or x.count is None or y.count is None:
        return None
    count = same_count(n.b, x.count, y.count)
    least = smaller(x.dims[x.axis], y.dims[y.axis])
    for at, v in enumerate((x, y)):
        rows = shortened(n, v, least) if v.dims[v.axis] != least else v
        n.inputs[at] = with_others(n, Partial.counted(rows.whole(), v.axis, count), 0)
    return n.built_as("MatMul")


def with_others(n: Node, x: Partial, other: float) -> Value:
    """All rows of the bound, another number in the place of those that do not count."""
    assert x.made is not None and x.count is not None
    number = np.asarray(other)
    rest = other if are_held(number) else n.literal(number)
    return Value(x.dtype, x.dims, made=filled(n.b, x.made, x.count, x.axis, rest))


def _normed(n: Node, operator: OnnxOperator, x: Partial, name: str) -> list[Any] | None:
    """Along the rows: those that do not count have no part."""
    old = n.opset < 13 and name != "LpNormalization"  # along all axes from one on
    axis = n.axis(n.integer("axis", 1 if old else -1), x.rank)
    if axis != x.axis or (old and axis != x.rank - 1) or x.dtype not in _STORED_FLOATS:
        return None
    n.inputs[0] = with_others(n, x, _NORMS[name])
    return [Partial.counted(n.scope.value(n, 0, operator.build(n)), x.axis, x.count)]


def _channels_normed(n: Node, x: Partial) -> Partial:
    """(X - mean) / √(variance + epsilon) · scale + B of the rows that count, for each channel."""
    b = n.b

    def mean(value: SSAValue) -> SSAValue:
        return _mean_of_channels(n, x, value)

    value = n.x(0, FLOATS)
    y, *_ = normalise(b, value, mean, n.real("epsilon", 1e-5))
    scale, bias = (by_channel(b, n.x(at, FLOATS), value) for at in (1, 2))
    return Partial.counted(n.scope.value(n, 0, b.add(b.mul(y, scale), bias)), x.axis, x.count)


def _mean_of_channels(n: Node, x: Partial, value: SSAValue) -> SSAValue:
    """The means over the axes of space of a value with x's shape and rows."""
    b, axes = n.b, range(CHANNELS + 1, x.rank)
    assert x.count is not None
    others = product(x.dims[axis] for axis in axes if axis != x.axis)
    total = reduce_keepdims(b, "sum", filled(b, value, x.count, x.axis, 0), axes)
    size = b.cast(b.mul(x.count, b.size(others, "i64")), dtype_of(total))
    return b.div(total, b.broadcast(size, dims_of(total), []))


def _globally_pooled(n: Node, operator: OnnxOperator, x: Partial) -> Any:
    """The mean or the largest element of each channel."""
    if n.op.op_type == "GlobalAveragePool":
        return _mean_of_channels(n, x, n.x(0, FLOATS))
    n.inputs[0] = with_others(n, x, -math.inf)
    return operator.build(n)


def _place(n: Node, operator: OnnxOperator, x: Partial) -> list[Any] | None:
    """The first of the largest rows, of which those that do not count are none."""
    if n.axis(n.integer("axis", 0), x.rank) != x.axis or n.flag("select_last_index", 0):
        return None
    other = neutral(n.op.op_type.removeprefix("Arg"), x.dtype)
    if other is None:
        return None
    n.inputs[0] = with_others(n, x, other)
    return [operator.build(n)]


def _ranked(n: Node, operator: OnnxOperator, x: Partial) -> list[Any] | None:
    """The first k in order: rows that do not count are last, behind all that they are equal to."""
    b, least = n.b, neutral("Max", x.dtype)
    if n.axis(n.integer("axis", -1), x.rank) != x.axis or n.opset < 10 or least is None:
        return None
    assert x.count is not None
    computed = is_computed(n, 1)
    number, k = computed_number(n, 1, x.dims[x.axis]) if computed else (None, n.size(1))
    number = b.size(k, "i64") if number is None else number
    count = one_that_fits(b, x.count, b.compare("le", number, x.count))
    # NaN is larger than all numbers
    last = math.nan if x.dtype in _STORED_FLOATS else empty_value("min", np.dtype(NUMPY[x.dtype]))
    rows = Partial.counted(x.whole(), x.axis, count)
    n.inputs[0] = with_others(n, rows, least if n.flag("largest", 1) else last)
    n.inputs[1] = sizes_value([k])
    built: Any = operator.build(n)
    if not computed:
        return [*built]
    return [Partial.counted(n.scope.value(n, at, y), x.axis, number) for at, y in enumerate(built)]


def neutral(kind: str, dtype: str) -> float | None:
    """What changes nothing in a reduction; None of one that is not supported."""
    if kind in _SUMS:
        return 0
    if kind == "Prod":
        return 1
    if kind == "LogSumExp":
        return -math.inf
    if kind not in ("Max", "Min"):
        return None
    if dtype == "i1":
        return kind == "Min"
    if dtype in NARROW_FLOATS:
        return -math.inf if kind == "Max" else math.inf
    return empty_value(kind.lower(), np.dtype(NUMPY[dtype])) if dtype in _ORDERED else None


def _mean(n: Node, along: Sequence[Partial], axes: Sequence[int]) -> SSAValue:
    """The sum over how many elements there are."""
    b, y = n.b, n.scope.model.operators["ReduceSum"].build(n)
    assert isinstance(y, SSAValue)
    counts = [rows.count for rows in along if rows.count is not None]
    counted, dims = {rows.axis for rows in along}, along[0].dims
    others = product(dims[axis] for axis in axes if axis not in counted)
    return b.div(y, b.cast(reduce(b.mul, counts, b.size(others, "i64")), dtype_of(y)))


def _quantised(n: Node, operator: OnnxOperator, x: Partial) -> list[Any]:
    """0 is in the range of all rows in any case."""
    n.inputs[0] = with_others(n, x, 0)
    built: Any = operator.build(n)
    numbers = n.scope.value(n, 0, built[0])
    return [Partial.counted(numbers, x.axis, x.count), *built[1:]]


_WAYS: dict[str, Callable[[Node, OnnxOperator, Partial], list[Any] | None]] = {
    "ArgMax": _place,
    "ArgMin": _place,
    "TopK": _ranked,
    "DynamicQuantizeLinear": _quantised,
}
