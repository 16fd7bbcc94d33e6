"""Tensors of which the run decides how many rows count along two axes, such as the scores of
attention between computed frames: each axis is treated by itself, with all rows along the other one
taken to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.rows import Crossed, Partial
from rnncc.frontends.onnx.counted_ops.batches import Operands, layered
from rnncc.frontends.onnx.counted_ops.moves import sliced_along_both
from rnncc.frontends.onnx.counted_ops.rules import (
    BY_PLACES,
    ELEMENTWISE,
    RULES,
    build_partial,
    count_in,
    counted_too,
    reads_together,
    shape_of,
)
from rnncc.frontends.onnx.counted_ops.shapes import flattened_both, joined_axes, reshaped
from rnncc.frontends.onnx.counted_ops.sizes import of_one_size
from rnncc.frontends.onnx.counted_ops.sums import reduced
from rnncc.frontends.onnx.formulas.offsets import parted
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.ops.contributed import factor_order
from rnncc.frontends.onnx.ops.control import inline
from rnncc.frontends.onnx.ops.linear import letters_of
from rnncc.frontends.onnx.reading import onnx_package
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import NUMPY

Counted = Partial | Crossed
SUMMED = "summed"
"""The place of the axis that a product of matrices sums over."""
_PRODUCTS = ("MatMul", "MatMulInteger")
_FUSED_PRODUCTS = ("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
_BOTH = {"Slice": sliced_along_both, "Flatten": flattened_both}
LAYERS = ("LSTM", "GRU", "RNN")
_STATEFUL = (*LAYERS, "CumSum", "CumProd")
"""Operators whose rule for rows changes the inputs."""


def build_counted(n: Node, name: str, operator: OnnxOperator) -> list[Any]:
    """The outputs of a node that reads tensors of which the run decides how many rows count.

    Raises:
        Unsupported: it reads rows together, or they lie along more than two axes.
    """
    if name in _FUSED_PRODUCTS:
        return _product_in_steps(n)
    if name in ELEMENTWISE:
        n.inputs = of_one_size(n, n.inputs)
        if not any(isinstance(v, Partial | Crossed) for v in n.inputs):
            return n.results_of(operator)
    inputs = n.inputs
    views = _views(n, name, inputs)
    if name == "Loop" or (len(views) == 1 and not any(isinstance(v, Crossed) for v in inputs)):
        return build_partial(n, name, operator)
    crossed = next((v for v in inputs if isinstance(v, Crossed)), None)
    n.inputs = [v and v.whole() for v in inputs]
    results = None if crossed is None else _of_both(n, name, operator, crossed, inputs)
    return _built(n, name, operator, inputs, views) if results is None else results


def _product_in_steps(n: Node) -> list[Value]:
    """alpha A B by operators of the standard, which say what becomes of the rows."""
    onnx, factors = onnx_package(), {"A": n.value(0), "B": n.value(1)}
    make, nodes = onnx.helper.make_node, list[Any]()
    for which, value in factors.items():
        order = factor_order(n, which, value.rank)
        nodes.append(make("Transpose", [which], [f"{which} turned"], perm=order))
    alpha = np.asarray(n.real("alpha", 1.0), NUMPY[factors["A"].dtype])
    nodes.append(make("Constant", [], ["alpha"], value=onnx.numpy_helper.from_array(alpha)))
    nodes.append(make("MatMul", ["A turned", "B turned"], ["product"]))
    nodes.append(make("Mul", ["product", "alpha"], ["y"]))
    result = onnx.helper.make_empty_tensor_value_info("y")
    return inline(n, onnx.helper.make_graph(nodes, "product", [], [result]), factors)


def _of_both(
    n: Node, name: str, operator: OnnxOperator, x: Crossed, inputs: Operands
) -> list[Any] | None:
    """The outputs of a node that reads rows along both axes together; None where it does not."""
    if name == "Shape":
        return [shape_of(n, x, dict(zip(x.axes, x.counts, strict=True)))]
    if inputs[0] is x:
        over_both = reduced(n, name, operator, x.along())
        if over_both is not None:
            return over_both
    if name in LAYERS and inputs[0] is x:
        return layered(n, operator, x, inputs)
    if name in _BOTH:
        moved = _BOTH[name](n, x)
        return None if moved is None else [moved]
    return [_reshaped(n, x, inputs)] if name == "Reshape" else None


def _views(n: Node, name: str, inputs: Operands) -> list[list[Value | None]]:
    """The inputs, once for each axis that rows lie along, with such rows along this one alone."""
    crossed = any(isinstance(v, Crossed) for v in inputs)
    by_place = dict[object, dict[int, Partial]]()
    for at, value in enumerate(inputs):
        parts = value.along() if isinstance(value, Crossed) else [value]
        for part in parts:
            if isinstance(part, Partial):
                place = _place(n, name, inputs, at, part.axis, crossed)
                by_place.setdefault(place, {})[at] = part
    return [
        [parts.get(at, value and value.whole()) for at, value in enumerate(inputs)]
        for parts in by_place.values()
    ]


def _place(n: Node, name: str, inputs: Operands, at: int, axis: int, crossed: bool) -> object:
    """What the axes of several inputs have in common that belong together: in the result they are
    one, or they are summed over."""
    value = inputs[at]
    assert value is not None
    if name in ELEMENTWISE:
        return axis - value.rank
    if name in _PRODUCTS and at < 2:
        last = axis == value.rank - 1
        summed = last if at == 0 else axis == max(value.rank - 2, 0)
        return SUMMED if summed else axis - value.rank
    if name == "Einsum":
        return letters_of(n, [v.rank for v in inputs if v is not None])[0][at][axis]
    return axis if crossed else 0


def _built(
    n: Node, name: str, operator: OnnxOperator, inputs: Operands, views: list[list[Value | None]]
) -> list[Any]:
    """The outputs, along each axis as rules say; along one of them it may read rows together."""
    plain, counts, others = n.inputs, list[tuple[int, SSAValue]](), list[list[Value | None]]()
    for view in views:
        axis = RULES[name](n, view) if name in RULES and name not in _STATEFUL else None
        if isinstance(axis, int):
            counts.append((axis, count_in(n, view)))
        else:
            others.append(view)
    chosen_by_rows = name in BY_PLACES and inputs[1] is not plain[1]
    if len(others) > 1 or chosen_by_rows:
        raise reads_together(n, inputs)
    if others:
        [n.inputs] = others
        results = build_partial(n, name, operator)
        values = [n.scope.value(n, at, result) for at, result in enumerate(results)]
    else:
        n.inputs = plain
        values = n.results_of(operator)
    for axis, count in counts:
        values = [counted_too(n, inputs, value, axis, count) for value in values]
    return values


def _reshaped(n: Node, x: Crossed, inputs: Operands) -> Counted:
    """Other axes change, and those of the rows stay as they are, or become one."""
    sizes = _sizes(n, x)
    axes = None if sizes is None else [_moved_to(x, axis, sizes) for axis in x.axes]
    if sizes is None or axes is None or None in axes:
        joined = joined_axes(n, x)
        result = None if joined is None else reshaped(_holding(n, joined), [joined, *inputs[1:]])
        if result is None:
            raise reads_together(n, inputs)
        return result
    n.inputs[1] = Value.of(np.array(sizes, object))
    first, second = cast(Sequence[int], axes)
    return Crossed.counted(n.built_as("Reshape"), (first, second), x.counts)


def _holding(n: Node, x: Value) -> Node:
    """The node, with another tensor as its first input."""
    n.inputs[0] = x.whole()
    return n


def _sizes(n: Node, x: Crossed) -> list[Dim] | None:
    """The shape that is asked for, the bounds in the place of numbers of rows."""
    waiting, sizes = list(zip(x.counts, x.axes, strict=True)), list[Dim]()
    for at, place in enumerate(n.places(1)):
        base, more = (None, place) if isinstance(place, Dim) else parted(place)
        if base is None:
            kept = more == 0 and at < x.rank and not n.flag("allowzero", 0)
            sizes.append(x.dims[at] if kept else more)
            continue
        own = next((pair for pair in waiting if pair[0] is base), None)
        if own is None or more != 0:
            return None
        waiting.remove(own)
        sizes.append(x.dims[own[1]])
    rest = product(size for size in sizes if size != -1)
    left = product(x.dims).divide(rest) if rest != 0 else None
    return [size if left is None or size != -1 else left for size in sizes]


def _moved_to(x: Crossed, axis: int, sizes: Sequence[Dim]) -> int | None:
    """Where an axis is in another shape, if there is as much before it."""
    before = product(x.dims[:axis])
    places = (
        at
        for at, size in enumerate(sizes)
        if size == x.dims[axis] and product(sizes[:at]) == before
    )
    return next(places, None)
