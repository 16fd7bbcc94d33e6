"""Operators that take parts of a tensor, or put elements around it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.counted.decided import (
    decided_already,
    decided_sizes,
    is_undecided,
    settled,
    where_equal,
)
from rnncc.frontends.onnx.counted.rows import (
    MOST_COUNTED,
    Partial,
    counted_along,
    crossed,
    parts_of,
)
from rnncc.frontends.onnx.counted.shapes import known_part
from rnncc.frontends.onnx.node import MAX_FOLDED, Node, OnnxOperator
from rnncc.frontends.onnx.ops.computed_bounds import (
    HUGE,
    Place,
    beyond_axis,
    counted_rows,
    ends_early,
    is_counted,
    is_settled,
    may_end,
    moving_rows,
    only_row,
    place_of,
    rows_from,
    sign_of,
    span_of,
)
from rnncc.frontends.onnx.ops.computed_sizes import computed_parts, is_computed, put_around
from rnncc.frontends.onnx.values import NEAR, Array, Value, are_held, as_objects
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import larger, smaller
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.axes import strided
from rnncc.nn.indexing import from_front

SMALLER_LAST = 18
"""The opset from which the last part of an axis may be smaller than the others."""


def _split_sizes(n: Node) -> tuple[int, list[Dim]]:
    dims = n.dims()
    axis = n.axis(n.integer("axis", 0), len(dims))
    total = dims[axis]
    if n.has(1):
        parts = n.sizes(1)
    elif n.given("split"):
        parts = [Dim.of(s) for s in n.integers("split")]
    else:
        count = n.integer("num_outputs") if n.given("num_outputs") else len(n.op.output)
        if count < 1 or count > len(n.op.output):
            raise n.error(f"splits into {count} parts, for {len(n.op.output)} outputs")
        part = total.over(count)
        if n.opset < SMALLER_LAST and not total.is_static:
            n.b.require(total - part * count)  # the parts are equal
            return axis, [part] * count
        parts = [part] * (count - 1) + [total - part * (count - 1)]
    whole = sum(parts, Dim.of(0))
    if whole != total or any(d.is_static and int(d) < 0 for d in parts):
        raise n.differ([total], [whole], f"splits {total} into {', '.join(map(str, parts))}")
    if len(parts) < len(n.op.output):
        raise n.error(f"has {len(n.op.output)} outputs for {len(parts)} parts")
    return axis, parts


def _split(n: Node) -> Sequence[SSAValue | Value]:
    """X cut along an axis, into equal parts or parts of given sizes.

    Refused: sizes that are computed at run time, in training.
    """
    if n.has(1) and is_computed(n, 1):
        return computed_parts(n, n.axis(n.integer("axis", 0), len(n.dims())))
    axis, parts = _split_sizes(n)
    x, start, pieces = n.x(), Dim.of(0), list[SSAValue]()
    for size in parts:
        pieces.append(n.b.slice(x, axis, start, size))
        start = start + size
    return pieces


def _fold_split(n: Node, arrays: list[Array]) -> list[Array] | None:
    axis, parts = _split_sizes(n)
    if not all(p.is_static for p in parts):
        return None
    return np.split(arrays[0], np.cumsum([int(p) for p in parts])[:-1], axis)


def bounds_of(n: Node) -> list[tuple[int, Place, Place, int]]:
    """Of each axis that is cut: axis, start, end, step."""
    starts: Sequence[Place]
    ends: Sequence[Place]
    if n.opset < 10:
        starts, ends = ([Dim.of(v) for v in n.integers(k)] for k in ("starts", "ends"))
        axes = n.integers("axes") if n.given("axes") else list(range(len(starts)))
        steps = [1] * len(starts)
    else:
        starts, ends = n.places(1), n.places(2)
        axes = n.known_integers(3) if n.has(3) else list(range(len(starts)))
        steps = n.known_integers(4) if n.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise n.error("has starts, ends, axes and steps of several lengths")
    axes, dims = n.axes(axes, len(n.dims())), n.dims()
    ends = [beyond_axis(n, end, dims[axis]) for axis, end in zip(axes, ends, strict=True)]
    return list(zip(axes, starts, ends, steps, strict=True))


def _cut(n: Node, size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim, int]:
    """Where a slice of an axis starts, how many elements it has, and its step.

    Of start and end only the sides count on which they leave nothing out.
    """
    if step == 0:
        raise n.error("has the step 0")
    if step < 0 and end.is_static and int(end) >= HUGE:  # the standard says none, ONNX Runtime all
        raise n.unsupported(f"goes backwards to {end}")
    none, last = Dim.of(0), size - 1
    # an axis of open size has at least one element, or bounds of the slice refuse the call
    facts = n.scope.model.known.facts if size.is_static else (last, *n.scope.model.known.facts)
    facts += tuple(sign_of(place, size) for place in (start, end) if not place.is_static)
    first, behind = place_of(n, start, size), place_of(n, end, size)
    if step > NEAR and behind == size:
        n.scope.model.bounds[step - size] = None
        return first, Dim.of(1), 1
    if step > 0:
        first, behind = larger(first, none, facts), smaller(behind, size, facts)
        count = larger(behind - first, none, facts).over(step)
        return smaller(first, size, facts), count, step
    first = smaller(larger(first, none, facts), last, facts)
    behind = larger(behind, Dim.of(-1), facts)
    return first, larger(first - behind, none, facts).over(-step), step


def _slice(n: Node) -> SSAValue | Value:
    """Elements of X from starts up to ends, in steps, along some axes.

    Refused: bounds that are computed at run time, unless they lie a known number of elements apart,
    or a step beyond the axis leaves one, or up to two axes are cut so forwards, in inference, where
    the run decides how many rows there are; an end of INT_MAX behind a negative step.
    """
    x, dims, counted = n.x(), n.dims(), list[tuple[int, Place, Place, int]]()
    for axis, start, end, step in bounds_of(n):
        size = dims[axis]
        if (decided := _decided_end(n, size, start, end, step)) is not None:
            length, number = decided
            x = n.b.slice(x, axis, 0, length)
            if not is_undecided(length):
                x = where_equal(n.b, x, n.b.reshape(number, (1,)), [length])
        elif is_settled(start) and is_settled(end):
            x = settled_part(n, x, axis, start, end, step)
        elif step > NEAR:
            x = n.b.gather(x, only_row(n, size, start, end, step), axis)
        elif (
            (span := span_of(n, start, end)) is not None
            and step == 1
            and (len(counted) == MOST_COUNTED or not may_end(n, size, span))
        ):
            x = n.b.gather(x, rows_from(n, size, start, span), axis)
        elif len(counted) < MOST_COUNTED and (
            is_counted(n, start, end, step) or ends_early(n, size, start, end, step)
        ):
            counted.append((axis, start, end, step))
        else:
            x = n.b.gather(x, moving_rows(n, size, start, end, step), axis)
    if not counted:
        return known_part(n, x)
    first, *others = counted
    rows = counted_rows(n, x, *first)
    return crossed(rows, counted_rows(n, n.scope.ssa(rows.whole()), *others[0])) if others else rows


def settled_part(n: Node, x: SSAValue, axis: int, start: Dim, end: Dim, step: int) -> SSAValue:
    """The elements along an axis from one bound up to another, which are known, in steps."""
    first, count, step = _cut(n, dims_of(x)[axis], start, end, step)
    return strided(n.b, x, axis, first if count != 0 else 0, count, step)


def moving_part(n: Node, x: Value, axis: int, start: Dim, length: int) -> Value:
    """So many rows from one on, which is there, in each iteration of a loop: the last may have
    fewer."""
    size, end = x.dims[axis], start + length
    n.scope.model.never_negative(size - start - 1)
    if is_settled(start):
        rows = smaller(size - start, Dim.of(length), (size - start - 1,))
        return Value.computed(n.b.slice(n.scope.ssa(x), axis, start, rows))
    if ends_early(n, size, start, end, 1):
        return counted_rows(n, n.scope.ssa(x), axis, start, end)
    return Value.computed(n.b.gather(n.scope.ssa(x), moving_rows(n, size, start, end, 1), axis))


def part_at(n: Node, x: Value, axis: int, place: SSAValue, length: int) -> Value:
    """So many rows, the part of a computed number of those that an axis is cut into, of which the
    last may have fewer; a number that is none of a part is an error of the run."""
    b, size = n.b, x.dims[axis]
    parts = size.over(length)
    first = b.mul(b.iota((parts,), 0, "i64"), b.fill(length, (parts,), "i64"))
    start = b.gather(first, b.reshape(from_front(b, place, parts), (1,)), 0)
    start = b.reshape(start, ())
    span, rows = Dim.of(length), n.scope.ssa(x)
    if size.divide(span) is not None or not may_end(n, size, span):
        return Value.computed(b.gather(rows, rows_from(n, size, start, span), axis))
    return counted_rows(n, rows, axis, start, b.add(start, n.full(length, start)))


def _decided_end(
    n: Node, size: Dim, start: Place, end: Place, step: int
) -> tuple[Dim, SSAValue] | None:
    """The size that a computed end is, and this end, of an axis that is as long, or longer by a
    known number of elements, such as the longest of some lengths of a mask that is made for
    these."""
    if start != 0 or step != 1 or not isinstance(end, SSAValue):
        return None
    length = decided_already(n, end)
    if length is None or not (size - length).is_static or int(size - length) < 0:
        return None
    return length, end


def _fold_slice(n: Node, arrays: list[Array]) -> Array | None:
    index: list[Any] = [slice(None)] * arrays[0].ndim
    for axis, first, last, steps in bounds_of(n):
        if not (is_settled(first) and is_settled(last)):
            return None
        start, count, step = _cut(n, n.dims()[axis], first, last, steps)
        if not (start.is_static and count.is_static):
            return None
        index[axis] = range(int(start), int(start) + int(count) * step, step)
    part = arrays[0]
    for axis, chosen in enumerate(index):
        if isinstance(chosen, range):
            part = np.take(part, np.array(chosen, np.int64), axis)
    return part


def _pad(n: Node) -> SSAValue | Value:
    """X with more elements around it: a constant, or by the modes edge, reflect and wrap.

    Refused: pads that are computed at run time, but those of the modes constant and edge along one
    axis or two, in inference, where they make sizes that must be those of something else, or where
    `--max-iterations` bounds how many rows there are then; negative pads with a mode other than
    constant.
    """
    if n.opset < 11:
        return _padded_around(n, [Dim.of(v) for v in n.integers("pads")], n.real("value", 0.0))
    return pad_by_inputs(n)


def _fold_pad(n: Node, arrays: list[Array]) -> Array | None:
    """Integers, sizes among them, with one number around them."""
    x = arrays[0]
    if n.opset < 11 or x.dtype.kind == "f" or n.text("mode", "constant") != "constant":
        return None
    amounts, axes = n.sizes(1), padded_axes(n)
    if len(amounts) != 2 * len(axes) or not all(d.is_static and int(d) >= 0 for d in amounts):
        return None
    around = [(0, 0)] * x.ndim
    for at, axis in enumerate(axes):
        around[axis] = int(amounts[at]), int(amounts[at + len(axes)])
    number = arrays[2].reshape(-1) if n.has(2) else np.zeros(1, np.int64)
    elements = math.prod(size + sum(more) for size, more in zip(x.shape, around, strict=True))
    if number.size != 1 or elements > MAX_FOLDED:
        return None
    x = as_objects(x) if number.dtype == object else x
    return np.pad(x, around, constant_values=number[0])


def padded_axes(n: Node) -> list[int]:
    """Those of the fourth input, else all."""
    rank = len(n.dims())
    return n.axes(n.known_integers(3), rank) if n.has(3) else list(range(rank))


def pad_by_inputs(n: Node) -> SSAValue | Value:
    """What pads by its inputs: amounts, maybe a number, maybe axes."""
    if is_computed(n, 1):
        if (decided := decided_sizes(n, 1)) is not None:
            return settled(n, 1, _padded_around(n, decided, _fill_value(n)))
        if (rows := pad_by_computed(n, n.value(0))) is not None:
            return rows
    return _padded_around(n, n.sizes(1), _fill_value(n))


def pad_by_computed(n: Node, rows: Value) -> Value | None:
    """The same by amounts that the run decides along some axes; None where these, and that of rows
    of which some count, are more than two, or nothing bounds how many rows there are then."""
    places, mode = n.places(1), n.text("mode", "constant")
    axes, number = padded_axes(n), None if mode == "edge" else _fill_value(n)
    if mode not in ("constant", "edge") or len(places) != 2 * len(axes):
        return None
    around = [place if isinstance(place, Dim) else None for place in places]
    computed = {at % len(axes) for at, amount in enumerate(around) if amount is None}
    counts = {part.axis: part.count for part in parts_of(rows) if part.count is not None}
    leaving = {axes[at] for at in computed}
    if len(leaving | set(counts)) > MOST_COUNTED or not set(counts) <= leaving:
        return None
    x = _padded_around(n, [d or Dim.of(0) for d in around], _fill_value(n), leaving)
    padded_rows = Value.computed(x)
    for at in sorted(computed):
        axis, (before, behind) = axes[at], (places[at], places[at + len(axes)])
        count = counts[axis] if axis in counts else n.b.size(padded_rows.dims[axis], "i64")
        put = put_around(n, Partial.counted(padded_rows, axis, count), before, behind, number)
        if put is None or put.count is None:
            return None
        padded_rows, counts[axis] = put.whole(), put.count
    return counted_along(padded_rows, counts)


def _padded_around(
    n: Node, amounts: Sequence[Dim], number: float | SSAValue, leaving: Collection[int] = ()
) -> SSAValue:
    """X with so many elements before all axes, or those of the fourth input, then behind them, but
    of those that are left as they are."""
    x, axes = n.x(), padded_axes(n)
    if len(amounts) != 2 * len(axes):
        raise n.error(f"has {len(amounts)} pads for {len(axes)} axes")
    mode = n.one_of("mode", ("constant", "edge", "reflect", "wrap"), "constant")
    for i, axis in enumerate(axes):
        if axis not in leaving:
            x = padded(n, x, axis, amounts[i], amounts[i + len(axes)], mode, number)
    return x


def _fill_value(n: Node) -> float | SSAValue:
    """What a Pad puts around X: one number, known or computed."""
    if not n.has(2):
        return 0
    if n.value(2).dtype != "text" and n.value(2).known is not None and are_held(n.numbers(2)):
        return n.scalar(2)
    if product(n.dims(2)) != 1:
        raise n.error(f"has a fill value of shape {shape_text(n.dims(2))}, expected one number")
    return n.b.reshape(n.x(2), ())


def padded(
    n: Node, x: SSAValue, axis: int, before: Dim, behind: Dim, mode: str, number: float | SSAValue
) -> SSAValue:
    """x with elements put before and behind it along an axis, or cut off where that is negative."""
    b, size, none = n.b, dims_of(x)[axis], Dim.of(0)
    plain = mode == "constant"  # by other modes no formula may be negative
    cut = [larger(-d, none) if plain or d.is_static else none for d in (before, behind)]
    before, behind = before + cut[0], behind + cut[1]
    whole = before + size + behind
    length = whole - cut[0] - cut[1]
    rest = length if plain else size - cut[0] - cut[1]
    if rest.is_static and int(rest) < 0:
        raise n.error(f"cuts {cut[0] + cut[1]} elements off an axis of {size}")
    if plain:  # more than there is may be cut off at one end, and put at the other
        x = x if whole == size else b.pad(x, axis, before, whole, number)
        return b.slice(x, axis, cut[0], length)
    x = b.slice(x, axis, cut[0], size - cut[0] - cut[1])
    if before == 0 and behind == 0:
        return x
    size = dims_of(x)[axis]
    parts = [_edge(n, x, axis, d, mode, at_end) for d, at_end in ((before, False), (behind, True))]
    kept = [parts[0], x, parts[1]]
    return b.concat([p for p in kept if p is not None], axis)


def _edge(n: Node, x: SSAValue, axis: int, count: Dim, mode: str, at_end: bool) -> SSAValue | None:
    """What stands before or behind x."""
    b, dims, size = n.b, dims_of(x), dims_of(x)[axis]
    if count == 0:
        return None
    if mode == "edge":
        row = b.slice(x, axis, size - 1 if at_end else 0, 1)
        return b.broadcast(row, (*dims[:axis], count, *dims[axis + 1 :]), range(len(dims)))
    try:
        if mode == "wrap":
            return b.slice(x, axis, 0 if at_end else size - count, count)
        return strided(b, x, axis, size - 2 if at_end else count, count, -1)
    except CompileError as error:
        what = f"pads {count} elements by the mode {mode!r} around {size}"
        raise n.unsupported(f"{what}, which is not supported") from error


OPERATORS: dict[str, OnnxOperator] = {
    "Split": OnnxOperator(_split, _fold_split),
    "Slice": OnnxOperator(_slice, _fold_slice),
    "Pad": OnnxOperator(_pad, _fold_pad),
}
