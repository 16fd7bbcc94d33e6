"""Tile, Resize and Einsum of tensors whose number of rows the run decides."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from rnncc.frontends.onnx.counted import counted_shape, same_count
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.offsets import parted
from rnncc.frontends.onnx.ops.linear import letters_of
from rnncc.frontends.onnx.partial import Partial
from rnncc.frontends.onnx.partial_batches import Operands, only
from rnncc.frontends.onnx.partial_sums import with_others
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import product

OLD_SCALES = 9
"""The opset from which on Upsample has its scales as an input."""


def tiled(n: Node, inputs: Operands) -> Partial | None:
    """The rows that count, one time behind the other."""
    x = only(inputs)
    if x is None or x.count is None or x.made is None or n.value(1).made is not None:
        return None
    repeats = n.sizes(1)
    if len(repeats) != x.rank:
        return None
    times, axis = repeats[x.axis], x.axis
    copies = n.scope.ssa(n.built_as("Tile"))
    if times == 1:
        return Partial.counted(Value.computed(copies), axis, x.count)
    b, size = n.b, x.dims[axis] * times
    at = b.iota((size,), 0, "i64")
    rows = b.broadcast(b.maximum(x.count, b.fill(1, (), "i64")), (size,), [])
    copies = b.gather(copies, b.sub(at, b.mul(b.div(at, rows), rows)), axis)
    return Partial.counted(Value.computed(copies), axis, b.mul(x.count, b.size(times, "i64")))


def resized(n: Node, inputs: Operands) -> Partial | None:
    """Other axes: as many rows as there were."""
    x, name = only(inputs), n.op.op_type
    if x is None or x.count is None or n.text("coordinate_transformation_mode", "") == _CROPPED:
        return None
    if name == "Upsample" or n.opset < 11:
        scales = n.reals("scales") if n.opset < OLD_SCALES else n.numbers(1).tolist()
        same = len(scales) == x.rank and scales[x.axis] == 1
        return Partial.counted(n.built_as(name), x.axis, x.count) if same else None
    axes = n.axes(n.integers("axes"), x.rank) if n.given("axes") else [*range(x.rank)]
    count = x.count
    if x.axis in axes:
        at = axes.index(x.axis)
        if n.has(2) and n.dims(2) != (0,):
            scales = n.numbers(2).reshape(-1).tolist()
            if len(scales) != len(axes) or scales[at] != 1:
                return None
        else:
            shape = counted_shape(n, 3) if n.has(3) else None
            if shape is None or shape.axis != at or shape.dims[at] != x.dims[x.axis]:
                return None
            if n.opset >= 18 and n.text("keep_aspect_ratio_policy", "stretch") != "stretch":
                return None
            n.inputs[3] = Value.of(np.array(shape.dims, object))
            count = same_count(n.b, count, shape.count)
    return Partial.counted(n.built_as(name), x.axis, count)


_CROPPED = "tf_crop_and_resize"


def einsum(n: Node, inputs: Operands) -> Value | None:
    """Rows by themselves, if the result has their letter; else sums over those that count."""
    found = _lettered(n, inputs)
    if found is None:
        return None
    rows, axis = found
    first, *others = [value.count for _, value in rows if value.count is not None]
    count = reduce(partial(same_count, n.b), others, first)
    if axis is not None:
        return Partial.counted(n.built_as("Einsum"), axis, count)
    for at, value in rows:
        n.inputs[at] = with_others(n, Partial.counted(value.whole(), value.axis, count), 0)
    return n.built_as("Einsum")


def einsum_axis(n: Node, inputs: Operands) -> int | None:
    """Along which axis of the result the rows lie, if it has their letter."""
    found = _lettered(n, inputs)
    return None if found is None else found[1]


def _lettered(n: Node, inputs: Operands) -> tuple[list[tuple[int, Partial]], int | None] | None:
    """The operands with such rows, and the axis of the result that has their letter; None where
    they have several letters, or one has it along other rows, too."""
    values = [value for value in inputs if value is not None]
    terms, result = letters_of(n, [value.rank for value in values])
    rows = [(at, value) for at, value in enumerate(values) if isinstance(value, Partial)]
    letter = terms[rows[0][0]][rows[0][1].axis]
    own = {at for at, value in rows if terms[at][value.axis] == letter}
    # each operand that has the letter has it once, and so many rows
    if any(term.count(letter) != (at in own) for at, term in enumerate(terms)):
        return None
    if len(own) != len(rows) or len(values) != len(inputs):
        return None
    return rows, result.index(letter) if letter in result else None


def size_of(n: Node, x: Partial) -> Value:
    """How many elements count."""
    assert x.count is not None
    others = product(size for axis, size in enumerate(x.dims) if axis != x.axis)
    total = n.b.mul(x.count, n.b.size(others, "i64"))
    base, more = parted(total)
    if base is not None and more == 0:
        n.scope.model.counts[base] = product(x.dims)
    return Value.computed(total)
