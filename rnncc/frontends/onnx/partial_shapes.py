"""Reshape of tensors whose number of rows the run decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted import counted_shape, same_count
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.partial import Partial
from rnncc.frontends.onnx.partial_batches import Operands, only
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of

Rows = tuple[SSAValue, SSAValue]
"""All rows, and how many of them count."""


def reshaped(n: Node, inputs: Operands) -> Partial | None:
    """Other axes change, before the rows or behind them; or rows are cut into parts of equal
    shapes, or some put together into one.
    """
    x = only(inputs)
    if x is None or x.made is None or x.count is None:
        return None
    found = _sizes(n, x, x.count)
    if found is None:
        return None
    sizes, count = found
    for axis in range(len(sizes)):
        if _is_kept(n, x, sizes, axis):
            n.inputs[1] = Value.of(np.array(sizes, object))
            return Partial.counted(n.built_as("Reshape"), axis, count)
    if x.axis or not sizes or sizes[0] != -1 or any(size == 0 for size in sizes[1:]):
        return None
    return _cut(n, (x.made, count), sizes[1:])


def _sizes(n: Node, x: Partial, count: SSAValue) -> tuple[list[Dim], SSAValue] | None:
    """The shape, where the number of rows is 0 or -1, and this number."""
    if n.value(1).known is not None:
        return n.sizes(1), count
    shape = counted_shape(n, 1)
    if shape is None or shape.dims[shape.axis] != x.dims[x.axis]:
        return None
    sizes = list(shape.dims)
    sizes[shape.axis] = Dim.of(0 if shape.axis == x.axis and not n.flag("allowzero", 0) else -1)
    return (sizes, same_count(n.b, count, shape.count)) if sizes.count(Dim.of(-1)) < 2 else None


def _is_kept(n: Node, x: Partial, sizes: Sequence[Dim], axis: int) -> bool:
    """Whether an axis is that of the rows, and those before and behind it are as many."""
    size, before, behind = sizes[axis], sizes[:axis], sizes[axis + 1 :]
    if size != -1 and (size != 0 or axis != x.axis or n.flag("allowzero", 0)):
        return False
    first = _are_same(x, before, x.dims[: x.axis], 0)
    return first and _are_same(x, behind, x.dims[x.axis + 1 :], axis + 1)


def _are_same(x: Partial, sizes: Sequence[Dim], dims: Sequence[Dim], first: int) -> bool:
    """Whether axes, from one on, have as many elements as others; one may be -1 for the rest."""
    own = (x.dims[at] if at < x.rank else Dim.of(0) for at in range(first, first + len(sizes)))
    known = [kept if size == 0 else size for size, kept in zip(sizes, own, strict=True)]
    rest = product(size for size in known if size != -1)
    whole = product(dims)
    return whole == rest if -1 not in known else whole.divide(rest) is not None


def _cut(n: Node, rows: Rows, sizes: Sequence[Dim]) -> Partial | None:
    """Rows of other sizes, that are parts of the old ones or consist of them."""
    (made, count), new = rows, product(sizes)
    old = product(dims_of(made)[1:])
    if (parts := old.divide(new)) is not None:
        count = n.b.mul(count, n.b.size(parts, "i64"))
    elif (parts := new.divide(old)) is not None and parts.is_static:
        made, count = _together(n, rows, int(parts))
    size = product(dims_of(made)).divide(new)
    if parts is None or size is None:
        return None
    return Partial.counted(Value.computed(n.b.reshape(made, (size, *sizes))), 0, count)


def _together(n: Node, rows: Rows, parts: int) -> Rows:
    """As many rows as are whole groups of so many, and how many groups count: if rows are left
    over, the run fails.
    """
    b, (made, count) = n.b, rows
    size, groups = b.size(Dim.of(parts), "i64"), (dims_of(made)[0] - (parts - 1)).over(parts)
    whole = same_count(b, count, b.mul(b.div(count, size), size))
    return b.slice(made, 0, 0, groups * parts), b.div(whole, size)
