"""Tile, Resize and Einsum of tensors whose number of rows the run decides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import one_that_fits, same_count
from rnncc.frontends.onnx.counted.rows import Partial, crossed
from rnncc.frontends.onnx.counted_ops.batches import Operands, only
from rnncc.frontends.onnx.counted_ops.edges import last_again, scaled
from rnncc.frontends.onnx.counted_ops.sums import with_others
from rnncc.frontends.onnx.formulas.offsets import are_same, parted
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.linear import letters_of
from rnncc.frontends.onnx.ops.resize import is_stretched, resized_axes, resized_rows
from rnncc.frontends.onnx.ops.shape import axes_input
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim, product

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


def resized(n: Node, inputs: Operands) -> Value | None:
    """Other axes, with as many rows as there were; or the rows, by a known scale or to a size."""
    x, name = only(inputs), n.op.op_type
    if x is None or x.count is None or n.text("coordinate_transformation_mode", "") == _CROPPED:
        return None
    if name == "Upsample" or n.opset < 11:
        scales = n.reals("scales") if n.opset < OLD_SCALES else n.numbers(1).tolist()
        return _by_scales(n, x, scales, x.axis, x.rank)
    axes = resized_axes(n, x.rank)
    if x.axis not in axes:
        y = n.built_as(name)
        rows = Partial.counted(y.whole(), x.axis, x.count)
        return crossed(y, rows) if isinstance(y, Partial) else rows
    at = axes.index(x.axis)
    if n.has(2) and n.dims(2) != (0,):
        return _by_scales(n, x, n.numbers(2).reshape(-1).tolist(), at, len(axes))
    places = n.places(3) if n.has(3) else []
    others = [place for index, place in enumerate(places) if index != at]
    if len(places) != len(axes) or not all(isinstance(place, Dim) for place in others):
        return None
    if not is_stretched(n):
        return None
    number = places[at]
    if isinstance(number, SSAValue) and are_same(number, x.count):
        places[at] = x.dims[x.axis]
        n.inputs[3] = Value.of(np.array(places, object))
        return Partial.counted(n.built_as(name), x.axis, x.count)
    count = _some_or_none(n, x.count, number)
    n.inputs[0] = last_again(n, x, count)
    return resized_rows(n, axes, places, at, count)


def _some_or_none(n: Node, count: SSAValue, number: Dim | SSAValue) -> SSAValue:
    """A count of rows that are made so many: where none are made some, the run fails."""
    b, none = n.b, n.full(0, count)
    makes_none = b.compare("eq", n.scope.number(number), none)
    fits = b.logical("or", b.compare("gt", count, none), makes_none)
    return one_that_fits(b, count, fits)


def _by_scales(n: Node, x: Partial, scales: Sequence[float], at: int, count: int) -> Partial | None:
    """By so many scales, of which one is that of the rows."""
    if len(scales) != count:
        return None
    if scales[at] != 1:
        return scaled(n, x, scales[at], n.op.op_type)
    return Partial.counted(n.built_as(n.op.op_type), x.axis, x.count)


_CROPPED = "tf_crop_and_resize"


def einsum(n: Node, inputs: Operands) -> Value | None:
    """Rows by themselves, if the result has their letter; else sums over those that count."""
    lettered = _lettered(n, inputs)
    if lettered is None:
        return None
    rows, axis = lettered
    first, *others = [value.count for _, value in rows if value.count is not None]
    count = reduce(partial(same_count, n.b), others, first)
    if axis is not None:
        return Partial.counted(n.built_as("Einsum"), axis, count)
    for at, value in rows:
        n.inputs[at] = with_others(n, Partial.counted(value.whole(), value.axis, count), 0)
    return n.built_as("Einsum")


def einsum_axis(n: Node, inputs: Operands) -> int | None:
    """Along which axis of the result the rows lie, if it has their letter."""
    lettered = _lettered(n, inputs)
    return None if lettered is None else lettered[1]


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


def squeezed(n: Node, inputs: Operands) -> Partial | None:
    """All axes of size 1 gone, where nothing says which: a single row is an error of the run."""
    x, axes = only(inputs), axes_input(n)
    if x is None or x.count is None or (axes is not None and (axes or not n.given("axes"))):
        return None
    others = [axis for axis in range(x.rank) if axis != x.axis]
    if not all(x.dims[axis].is_static for axis in others):
        return None
    count = one_that_fits(n.b, x.count, n.b.compare("ne", x.count, n.full(1, x.count)))
    kept = [axis for axis in range(x.rank) if axis == x.axis or x.dims[axis] != 1]
    tensor = n.b.reshape(n.scope.ssa(x.whole()), [x.dims[axis] for axis in kept])
    return Partial.counted(Value.computed(tensor), kept.index(x.axis), count)


def size_of(n: Node, x: Partial) -> Value:
    """How many elements count."""
    assert x.count is not None
    others = product(size for axis, size in enumerate(x.dims) if axis != x.axis)
    total = n.b.mul(x.count, n.b.size(others, "i64"))
    base, more = parted(total)
    if base is not None and more == 0:
        n.scope.model.counts[base] = product(x.dims)
    return Value.computed(total)
