"""Operators that pass on tensors whose number of rows the run decides, as each row of their result
is computed of one row; what reads rows together is in `sums.py`, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import same_count
from rnncc.frontends.onnx.counted.rows import READERS, Partial, crossed
from rnncc.frontends.onnx.counted_ops.batches import BATCHES, Axes, Operands, fill_places, only
from rnncc.frontends.onnx.counted_ops.copies import einsum_axis, size_of
from rnncc.frontends.onnx.counted_ops.moves import build_moved
from rnncc.frontends.onnx.counted_ops.sums import build_together
from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.formulas.offsets import parted
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.ops import activations, arithmetic, elementwise, logic
from rnncc.frontends.onnx.ops.reduce import reduced_axes
from rnncc.frontends.onnx.ops.shape import axes_input
from rnncc.frontends.onnx.values import Value

Rule = Callable[[Node, Operands], Axes]
"""From a node, whose inputs have all rows of the bound, and the inputs as they are."""


def build_partial(n: Node, name: str, operator: OnnxOperator) -> list[Any]:
    """The outputs of a node that reads such tensors.

    Raises:
        Unsupported: it reads rows together.
    """
    inputs = n.inputs
    if name == "Loop":  # which carries them
        carried: Any = operator.build(n)
        return carried
    n.inputs = [v and v.whole() for v in inputs]
    if name == "Shape":
        x = _counted(inputs)[0]
        assert x.count is not None
        return [shape_of(n, x, {x.axis: x.count})]
    if name == "Size":
        return [size_of(n, _counted(inputs)[0])]
    x = only(inputs)
    together = None if x is None else build_together(n, name, operator, x)
    if together is not None:
        return together
    if (moved := build_moved(n, name, inputs)) is not None:
        return [_as_stored(n, at, value) for at, value in enumerate(moved)]
    axes = RULES[name](n, inputs) if name in RULES else None
    if axes is None:
        raise reads_together(n, inputs)
    if name in BY_PLACES:
        fill_places(n, inputs)
    values = n.results_of(operator)
    each = [axes] * len(values) if isinstance(axes, int) else axes
    pairs = zip(values, each, strict=False)
    count = count_in(n, inputs)
    return [v if axis < 0 else counted_too(n, inputs, v, axis, count) for v, axis in pairs]


def counted_too(n: Node, inputs: Operands, value: Value, axis: int, count: SSAValue) -> Value:
    """A result, of which along an axis so many rows count, and maybe others along another one.

    Raises:
        Unsupported: along a third one.
    """
    rows = Partial.counted(value.whole(), axis, count)
    if isinstance(value, Partial) and value.axis != axis:
        return crossed(value, rows)
    if not value.is_tensor:
        raise reads_together(n, inputs)
    return rows


def _as_stored(n: Node, at: int, moved: Value) -> Value:
    """An output, with elements of the type that the standard says: of tensors only."""
    if moved.made is None or not (moved.is_tensor or isinstance(moved, Partial)):
        return moved
    stored = n.scope.value(n, at, moved.made)
    return replace(moved, dtype=stored.dtype, dims=stored.dims, made=stored.made)


def reads_together(n: Node, inputs: Operands) -> NeedsValue:
    """The error of a node that reads rows together."""
    needed = n.scope.model.inputs_behind(*map(Value.computed, _counts(inputs)))
    what = "reads a tensor whose number of rows the run decides"
    return NeedsValue(n.location, what, READERS, needed)


def _counted(inputs: Operands) -> list[Partial]:
    return [value for value in inputs if isinstance(value, Partial)]


def _counts(inputs: Operands) -> list[SSAValue]:
    return list(dict.fromkeys(v.count for v in _counted(inputs) if v.count is not None))


def count_in(n: Node, inputs: Operands) -> SSAValue:
    """How many rows of all inputs count."""
    return reduce(partial(same_count, n.b), _counts(inputs))


def shape_of(n: Node, x: Value, counts: Mapping[int, SSAValue]) -> SSAValue | Value:
    """The sizes, of which some may be numbers of rows that count, by their axes."""
    first = _from_end(n.integer("start", 0), x.rank)
    end = _from_end(n.integer("end", x.rank), x.rank)
    if not any(first <= axis < end for axis in counts):
        return Value.of(np.array(x.dims[first:end], object))
    sizes = [n.b.size(d, "i64") for d in x.dims]
    for axis, count in counts.items():
        sizes[axis] = count
        base, more = parted(count)
        if base is not None:
            n.scope.model.counts[base] = x.dims[axis] - more
    return n.b.concat([n.b.reshape(size, (1,)) for size in sizes[first:end]], 0)


def _from_end(axis: int, rank: int) -> int:
    return min(max(axis + rank if axis < 0 else axis, 0), rank)


# Along which axis the rows of the result lie; None where a row is not computed by itself


def _elementwise(n: Node, inputs: Operands) -> int | None:
    rank = max(v.rank for v in inputs if v is not None)
    axes = {rank - v.rank + v.axis for v in _counted(inputs)}
    if len(axes) > 1:
        return None
    axis = axes.pop()
    for value in inputs:
        if value is None or isinstance(value, Partial):
            continue
        own = axis - rank + value.rank
        if own >= 0 and value.dims[own] != 1:
            return None
    return axis


def _by_itself(n: Node, inputs: Operands) -> int | None:
    """Each element of the first input."""
    x = only(inputs)
    return None if x is None else x.axis


def _transpose(n: Node, inputs: Operands) -> int | None:
    [x] = _counted(inputs)
    order = n.integers("perm") or [*reversed(range(x.rank))]
    return order.index(x.axis) if sorted(order) == [*range(x.rank)] else None


def _left(x: Partial, removed: Sequence[int]) -> int | None:
    """Where the axis of the rows is when others are gone; None where it is one of these."""
    return None if x.axis in removed else x.axis - sum(axis < x.axis for axis in removed)


def _squeeze(n: Node, inputs: Operands) -> int | None:
    x, axes = only(inputs), axes_input(n)
    return None if x is None or not axes else _left(x, n.axes(axes, x.rank))


def _unsqueeze(n: Node, inputs: Operands) -> int | None:
    x, axes = only(inputs), axes_input(n)
    if x is None or axes is None:
        return None
    rank = x.rank + len(axes)
    added = n.axes(axes, rank)
    return [axis for axis in range(rank) if axis not in added][x.axis]


def _gather(n: Node, inputs: Operands) -> int | None:
    rank = n.value(0).rank
    axis, index = n.axis(n.integer("axis", 0), rank), n.value(1)
    if (x := only(inputs)) is not None:
        if x.axis == axis:
            return None
        return x.axis if x.axis < axis else x.axis - 1 + index.rank
    places = only(inputs, 1)
    return None if places is None else axis + places.axis


def _one_hot(n: Node, inputs: Operands) -> int | None:
    x = only(inputs)
    if x is None:
        return None
    return x.axis + (n.axis(n.integer("axis", -1), x.rank + 1) <= x.axis)


def _gather_nd(n: Node, inputs: Operands) -> int | None:
    places = only(inputs, 1)
    if places is None or n.integer("batch_dims", 0) or places.axis == places.rank - 1:
        return None
    return places.axis


def _concat(n: Node, inputs: Operands) -> int | None:
    parts = _counted(inputs)
    same = len({part.axis for part in parts}) == 1 and len(parts) == len(inputs)
    axis = n.axis(n.integer("axis"), parts[0].rank)
    return parts[0].axis if same and axis != parts[0].axis else None


def _product(n: Node, inputs: Operands) -> int | None:
    """Rows of the left operand, columns of the right one, or matrices; of integers, by one zero
    point for all.
    """
    rank, least = max(v.rank for v in n.inputs[:2] if v), min(v.rank for v in n.inputs[:2] if v)
    if least < 2 or (n.has(2) and any(d != 1 for d in n.value(2).dims)):
        return None
    axes = {
        (rank - v.rank + v.axis, at) for at, v in enumerate(inputs[:2]) if isinstance(v, Partial)
    }
    if any(axis == rank - 1 - at for axis, at in axes):
        return None  # what is summed over
    places = {axis for axis, _ in axes}
    if len(places) != 1:
        return None
    return _elementwise(n, inputs[:2]) if min(places) < rank - 2 else places.pop()


def _gemm(n: Node, inputs: Operands) -> int | None:
    x = only(inputs)
    if x is None or x.axis or n.flag("transA", 0):
        return None
    added = n.inputs[2] if n.has(2) else None
    return 0 if added is None or added.rank < 2 or added.dims[0] == 1 else None


def _along(n: Node, inputs: Operands) -> int | None:
    """Along another axis, whose size stays; before opset 13 along all from one on."""
    x, old = only(inputs), n.opset < 13
    if x is None:
        return None
    axis = n.axis(n.integer("axis", 1 if old else -1), x.rank)
    return None if axis == x.axis or (old and axis < x.axis) else x.axis


def _quantised(n: Node, inputs: Operands) -> int | None:
    """By one scale, or by one for each row of another axis."""
    x, scale = only(inputs), n.value(1)
    if x is None or n.integer("block_size", 0):
        return None
    whole = all(d == 1 for d in scale.dims)
    return x.axis if whole or n.axis(n.integer("axis", 1), x.rank) != x.axis else None


def _of_numbers(n: Node, inputs: Operands) -> int | None:
    """One quantised tensor, or two, each followed by its scale and zero point."""
    return _elementwise(n, [inputs[0], *inputs[3:4]])


def _product_of_numbers(n: Node, inputs: Operands) -> int | None:
    """Rows of a quantised left operand, by one scale for all, times a matrix."""
    x, right = only(inputs), n.value(3)
    if x is None or x.axis == x.rank - 1 or right.rank != 2:
        return None
    return x.axis if all(d == 1 for d in n.value(1).dims) else None


def _gemm_of_numbers(n: Node, inputs: Operands) -> int | None:
    """The same with a row of biases, which are numbers of no scale of their own."""
    x = only(inputs)
    if x is None or x.axis or n.flag("transA", 0):
        return None
    bias = n.inputs[6] if n.has(6) else None
    plain = all(d == 1 for d in n.value(1).dims) and (bias is None or bias.rank < 2)
    return 0 if plain else None


def _without(axes_of: Callable[[Node], list[int]]) -> Rule:
    """Along other axes, which go or become 1."""

    def rule(n: Node, inputs: Operands) -> int | None:
        x, axes = only(inputs), axes_of(n)
        if x is None or not axes:  # over none: each element by itself
            return None if x is None else x.axis
        removed = n.axes(axes, x.rank)
        return _left(x, removed) if x.axis in removed or not n.flag("keepdims", 1) else x.axis

    return rule


BY_PLACES = ("Gather", "GatherElements", "GatherND")
_DOMAINS = ("", "com.microsoft.")
_OF_ELEMENTS = [f"com.microsoft.{op}" for op in ("Gelu", "BiasGelu", "FastGelu", "QuickGelu")]
ELEMENTWISE = {
    *elementwise.OPERATORS,
    *activations.OPERATORS,
    *arithmetic.OPERATORS,
    *logic.OPERATORS,
    *_OF_ELEMENTS,
} - {"CastLike"}  # which has nothing to do with the sizes of its second input
_QUANTISING = [f"{domain}{op}Linear" for domain in _DOMAINS for op in ("Quantize", "Dequantize")]
_OF_NUMBERS = ("Add", "Mul", "Sigmoid", "LeakyRelu")
_ENCODERS = ("LabelEncoder", "CategoryMapper", "OneHotEncoder")
_REDUCED = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare", "LogSum")

RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **{f"Reduce{name}": _without(reduced_axes) for name in _REDUCED},
    **dict.fromkeys(("ArgMax", "ArgMin"), _without(lambda n: [n.integer("axis", 0)])),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _along),
    **dict.fromkeys(_QUANTISING, _quantised),
    **{f"com.microsoft.QLinear{name}": _of_numbers for name in _OF_NUMBERS},
    "QLinearMatMul": _product_of_numbers,
    "com.microsoft.QGemm": _gemm_of_numbers,
    **dict.fromkeys(("CastLike", "Dropout"), _by_itself),
    **{f"ai.onnx.ml.{name}": _by_itself for name in _ENCODERS},
    **dict.fromkeys(("RandomNormalLike", "RandomUniformLike", "Bernoulli"), _by_itself),
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "OneHot": _one_hot,
    "GatherND": _gather_nd,
    "Concat": _concat,
    "Einsum": einsum_axis,
    **dict.fromkeys(("MatMul", "MatMulInteger"), _product),
    **dict.fromkeys(("Gemm", "com.microsoft.FusedGemm"), _gemm),
    **BATCHES,
}
