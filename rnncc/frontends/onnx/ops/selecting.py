"""Operators that choose rows by conditions: where these are computed, the run decides how many."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.decided import one_number
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.values import Array, Value
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import smaller
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.axes import move_axis
from rnncc.nn.distinct import distinct
from rnncc.nn.indexing import first_places
from rnncc.nn.suppression import suppressed


def _compress(n: Node) -> SSAValue | Partial:
    """The rows of X where a condition holds.

    Refused: in training, a condition that is computed at run time.
    """
    b, x, dims = n.b, n.x(), n.dims()
    if n.given("axis"):
        axis = n.axis(n.integer("axis"), len(dims))
    else:
        x, axis = b.reshape(x, (product(dims),)), 0
    (size, conditions), known = (dims_of(x)[axis], product(n.dims(1))), n.value(1).numbers
    if size.is_static and conditions.is_static and int(conditions) > int(size):
        raise n.unsupported(f"has {conditions} conditions for {size} rows")
    if known is not None:
        return b.gather(x, n.literal(np.flatnonzero(known).astype(np.int64)), axis)
    _check_inference(n)
    b.require(size - conditions)
    places, count = first_places(b, b.reshape(n.x(1, ("i1",)), (conditions,)))
    return Partial.counted(Value.computed(b.gather(x, places, axis)), axis, count)


def _check_inference(n: Node) -> None:
    if n.scope.model.training:
        what = "gives a tensor whose number of rows the run decides"
        raise n.unsupported(what, "for inference that is supported")


def _fold_non_zero(n: Node, arrays: list[Array]) -> Array | None:
    if arrays[0].dtype == object:
        return None
    if not arrays[0].ndim:  # unlike NumPy's, its places have no numbers
        return np.zeros((0, int(arrays[0] != 0)), np.int64)
    return np.array(np.nonzero(arrays[0]), np.int64)


def _non_zero(n: Node) -> SSAValue | Partial:
    """The places of elements that are not 0, a column each. Of a tensor of one number everywhere,
    as opset 10 counts without Range, all are.

    Refused: computed elements in training, or without axes.
    """
    _check_inference(n)
    b, x, dims = n.b, n.x(0, (*NUMBERS, "i1")), n.dims()
    if not dims:
        raise n.unsupported("tells whether a number without axes is 0")
    zero = b.compare("eq", x, b.full_like(x, 0)) if dtype_of(x) != "i1" else b.logical_not(x)
    zero, count = b.reshape(zero, (product(dims),)), None
    if one_number(x):
        places = b.add(b.iota((product(dims),), 0, "i64"), b.cast(zero, "i64"))  # what x must be
    else:
        places, count = first_places(b, b.logical_not(zero))
    columns = list[SSAValue]()
    for size in reversed(dims[1:]):
        extent = b.size(size, "i64")
        above = b.div(places, extent)  # no place is below 0
        columns.insert(0, b.sub(places, b.mul(above, extent)))
        places = above
    rows = [b.reshape(column, (1, product(dims))) for column in (places, *columns)]
    indices = b.concat(rows, 0)
    return indices if count is None else Partial.counted(Value.computed(indices), 1, count)


def _unique(n: Node) -> list[Value]:
    """The distinct elements of X, or rows along an axis, in order or as they first come; the first
    place of each, the number of each element's, and how many there are of each.

    Refused: training.
    """
    _check_inference(n)
    b, x, dims = n.b, n.x(0, NUMBERS), n.dims()
    axis = n.axis(n.integer("axis"), len(dims)) if n.given("axis") else 0
    x = x if n.given("axis") else b.reshape(x, (product(dims),))
    rows = move_axis(b, x, axis, 0)
    size, *others = dims_of(rows)
    if size == 0:
        raise n.unsupported("looks for distinct elements among none")
    groups = distinct(b, b.reshape(rows, (size, product(others))), n.flag("sorted", 1))
    values = b.cast(b.gather(x, groups.first, axis), n.value(0).dtype)
    kept = [(values, axis), (groups.first, 0), (groups.sizes, 0)]
    chosen = [Partial.counted(Value.computed(v), at, groups.count) for v, at in kept]
    return [*chosen[:2], Value.computed(groups.rank), chosen[2]]


def _fold_unique(n: Node, arrays: list[Array]) -> list[Array] | None:
    x = arrays[0]
    if x.dtype == object:
        return None
    axis = n.axis(n.integer("axis"), x.ndim) if n.given("axis") else None
    values, first, rank, sizes = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    rank = rank.reshape(-1)
    if not n.flag("sorted", 1):
        order = np.argsort(first)
        values, first, sizes = np.take(values, order, axis or 0), first[order], sizes[order]
        rank = np.argsort(order)[rank]
    return [values, *(a.astype(np.int64) for a in (first, rank, sizes))]


def _suppressed(n: Node) -> SSAValue | Partial:
    """Which boxes are kept: rows of image, class and box, those of a class by their scores; a box
    that overlaps one of a higher score more than a threshold is not kept.

    Refused: training; a number of boxes that is computed at run time.
    """
    _check_inference(n)
    b, boxes, scores = n.b, n.x(0, FLOATS), n.x(1, FLOATS)
    dims = dims_of(scores)
    expected = (dims[0], dims[-1], Dim.of(4)) if len(dims) == 3 else ()
    if n.dims() != expected:
        shown = f"has boxes of shape {shape_text(n.dims())}, scores of shape {shape_text(dims)}"
        raise n.differ(n.dims(), expected, shown)
    limit = int(n.scalar(2)) if n.has(2) else 0
    if limit <= 0:
        return b.fill(0, (0, 3), "i64")
    most, least = smaller(dims[2], Dim.of(limit)), n.maybe(4, FLOATS)
    above = b.fill(1, dims, "i1")
    if least is not None:
        above = b.compare("gt", scores, b.broadcast(b.reshape(least, ()), dims, []))
    overlap = n.maybe(3, FLOATS)
    part = b.fill(0, ()) if overlap is None else b.reshape(overlap, ())
    corners = _corners(n, boxes)
    places, exist = suppressed(b, corners, scores, above, part, most)
    dims, total = dims_of(places), (product(dims_of(places)),)
    columns = [b.iota(dims, 0, "i64"), b.iota(dims, 1, "i64"), places]
    rows = b.concat([b.reshape(column, (*total, 1)) for column in columns], 1)
    kept, number = first_places(b, b.reshape(exist, total))
    return Partial.counted(Value.computed(b.gather(rows, kept, 0)), 0, number)


def _corners(n: Node, boxes: SSAValue) -> SSAValue:
    """Of each box the lower ends along two axes, then the upper ends."""
    b = n.b
    one, other = (b.slice(boxes, 2, start, 2) for start in (0, 2))
    if n.flag("center_point_box", 0):
        half = b.mul(other, b.full_like(other, 0.5))
        return b.concat([b.sub(one, half), b.add(one, half)], 2)
    return b.concat([b.minimum(one, other), b.maximum(one, other)], 2)


OPERATORS: dict[str, OnnxOperator] = {
    "Compress": OnnxOperator(_compress),
    "Unique": OnnxOperator(_unique, _fold_unique),
    "NonZero": OnnxOperator(_non_zero, _fold_non_zero),
    "NonMaxSuppression": OnnxOperator(_suppressed),
}
