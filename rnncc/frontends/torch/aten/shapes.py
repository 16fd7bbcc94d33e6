"""What aten only rearranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rnncc.frontends.torch.node_context import (
    NodeContext,
    Number,
    Table,
    Translation,
    Value,
    rank_of,
)
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of
from rnncc.nn.axes import move_axis, strided

Size = int | Dim


def same(at: NodeContext, x: Value, *_: Any, **__: Any) -> Value:
    """x itself"""
    return x


def reshape(at: NodeContext, x: Value, *_: Any, **__: Any) -> Value:
    """The elements in another shape"""
    return at.b.reshape(x, at.dims)


def squeeze(at: NodeContext, x: Value, axes: int | Sequence[int] | None = None) -> Value:
    """Without axes of size 1; those whose size is left open stay, and must not be of size 1"""
    rank = rank_of(x)
    named = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    for axis in named if rank else ():
        if not (size := dims_of(x)[at.axis(axis, rank)]).is_static:
            at.b.require(size - 2)
    return at.b.reshape(x, at.dims)


def expand(at: NodeContext, x: Value, *_: Any, **__: Any) -> Value:
    """Repeated along axes of size 1 and new ones in front"""
    return at.widened(x)


def permute(at: NodeContext, x: Value, dims: Sequence[int]) -> Value:
    """Axes in another order"""
    return at.b.transpose(x, [at.axis(axis, rank_of(x)) for axis in dims])


def transpose(at: NodeContext, x: Value, first: int, second: int) -> Value:
    """Two axes swapped"""
    perm = list(range(rank_of(x)))
    if perm:
        one, other = at.axis(first, len(perm)), at.axis(second, len(perm))
        perm[one], perm[other] = perm[other], perm[one]
    return at.b.transpose(x, perm)


def t(at: NodeContext, x: Value) -> Value:
    """A matrix transposed; a vector as it is"""
    return at.b.transpose(x, [1, 0]) if rank_of(x) == 2 else x


def select(at: NodeContext, x: Value, dim: int, index: Size) -> Value:
    """One place of an axis, which goes"""
    axis = at.axis(dim, rank_of(x))
    return at.b.reshape(at.b.slice(x, axis, _within(x, axis, index), 1), at.dims)


def slice_of(
    at: NodeContext,
    x: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Value:
    """Part of an axis, or places at even distances"""
    axis = at.axis(dim, rank_of(x))
    if not isinstance(step, int):
        at.refuse(f"a slice with step {step} is not supported")
    return strided(at.b, x, axis, _within(x, axis, start or 0), at.dims[axis], step)


def select_scatter(at: NodeContext, x: Value, new: Value, dim: int, index: Size) -> Value:
    """x with one place of an axis replaced"""
    axis = at.axis(dim, rank_of(x))
    dims = (*at.dims[:axis], Dim.of(1), *at.dims[axis + 1 :])
    return _replaced(at, x, at.b.reshape(at.value(new), dims), axis, _within(x, axis, index))


def slice_scatter(
    at: NodeContext,
    x: Value,
    new: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Value:
    """x with part of an axis replaced"""
    axis = at.axis(dim, rank_of(x))
    place = _within(x, axis, start or 0)
    if step != 1:
        return _replaced_apart(at, x, at.value(new), axis, place, step)
    return _replaced(at, x, at.value(new), axis, place)


def split(
    at: NodeContext, x: Value, size: Size | Sequence[Size], dim: int = 0
) -> tuple[Value, ...]:
    """Parts of an axis, of one size or of several"""
    axis, start, parts = at.axis(dim, rank_of(x)), Dim.of(0), list[Value]()
    for part in at.node.meta["val"]:
        extent = at.shape(part)[axis]
        parts.append(at.b.slice(x, axis, start, extent))
        start = start + extent
    return tuple(parts)


def unbind(at: NodeContext, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """Every place of an axis"""
    axis, count = at.axis(dim, rank_of(x)), len(at.node.meta["val"])
    return tuple(at.b.reshape(at.b.slice(x, axis, i, 1), at.dims) for i in range(count))


def cat(at: NodeContext, tensors: Sequence[Value], dim: int = 0) -> Value:
    """One after another"""
    parts = [at.value(x) for x in tensors if dims_of(x) != (0,) or len(at.dims) == 1]
    return at.b.concat(parts, at.axis(dim, len(at.dims)))


def stack(at: NodeContext, tensors: Sequence[Value], dim: int = 0) -> Value:
    """One after another along a new axis"""
    axis = at.axis(dim, len(at.dims))
    wide = (*at.dims[:axis], Dim.of(1), *at.dims[axis + 1 :])
    return at.b.concat([at.b.reshape(at.value(x), wide) for x in tensors], axis)


def repeat(at: NodeContext, x: Value, repeats: Sequence[Size]) -> Value:
    """The whole repeated along axes, new ones in front"""
    new = len(repeats) - rank_of(x)
    sizes = (*[Dim.of(1)] * new, *dims_of(x))
    wide = [d for pair in zip(map(Dim.of, repeats), sizes, strict=True) for d in pair]
    spread = at.b.broadcast(x, wide, [2 * (new + axis) + 1 for axis in range(rank_of(x))])
    return at.b.reshape(spread, at.dims)


def pad(at: NodeContext, x: Value, pads: Sequence[Size], value: Number = 0) -> Value:
    """A number around it, or less of it where pads are below 0; pads begin with the last axis"""
    for number, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        axis = rank_of(x) - 1 - number
        size = dims_of(x)[axis]
        (front, cut_front), (behind, cut_behind) = _pad_or_cut(before), _pad_or_cut(after)
        length = size - cut_front - cut_behind
        if length != size:
            x = at.b.slice(x, axis, cut_front, length)
        x = at.b.pad(x, axis, front, length + front + behind, float(at.held(value)))
    return x


def _pad_or_cut(size: Size) -> tuple[Dim, Dim]:
    """How much stands at one end of an axis, and how much of the axis goes there."""
    least = Dim.of(0)
    below = Dim.of(size).is_static and int(size) < 0
    return (least, Dim.of(-size)) if below else (Dim.of(size), least)


def broadcast_tensors(at: NodeContext, tensors: Sequence[Value]) -> tuple[Value, ...]:
    """Each as large as all together"""
    return tuple(at.b.broadcast_together(*tensors))


MODES = ("reflection", "replication")
"""How a pad may copy what it stands beside."""


def edges(kind: str) -> Translation:
    """Elements around it: its own mirrored at the edge, the last one again, or from the start"""

    def translate(at: NodeContext, x: Value, pads: Sequence[Size]) -> Value:
        for number, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
            x = _with_edges(at, x, rank_of(x) - 1 - number, before, after, kind)
        return x

    return translate


def pad_by_mode(
    at: NodeContext,
    x: Value,
    pads: Sequence[Size],
    mode: str = "constant",
    value: Number | None = None,
) -> Value:
    """A number around it, or its own elements"""
    if mode == "constant":
        return pad(at, x, pads, value or 0)
    kinds = {"reflect": "reflection", "replicate": "replication", "circular": "circular"}
    return edges(kinds[mode])(at, x, pads)


def _with_edges(
    at: NodeContext, x: Value, axis: int, before: Size, after: Size, kind: str
) -> Value:
    b, size = at.b, dims_of(x)[axis]
    front, behind = Dim.of(before), Dim.of(after)
    if any(d.is_static and int(d) < 0 for d in (front, behind)):
        at.refuse("a pad below 0 is not supported", "slice")
    if kind == "replication":
        first, last = b.slice(x, axis, 0, 1), b.slice(x, axis, size - 1, 1)
        ends = [(first, front), (last, behind)]
        copies = [_repeated(at, edge, axis, count) for edge, count in ends]
    elif kind == "circular":
        copies = [b.slice(x, axis, size - front, front), b.slice(x, axis, 0, behind)]
    else:
        parts = (b.slice(x, axis, 1, front), b.slice(x, axis, size - behind - 1, behind))
        copies = [_flipped(at, part, axis) for part in parts]
    kept = [part for part in (copies[0], x, copies[1]) if dims_of(part)[axis] != 0]
    return b.concat(kept, axis)


def _repeated(at: NodeContext, row: Value, axis: int, count: Dim) -> Value:
    dims = dims_of(row)
    wide = (*dims[:axis], count, *dims[axis:])
    others = [at_ for at_ in range(len(wide)) if at_ != axis]
    return at.b.reshape(at.b.broadcast(row, wide, others), (*dims[:axis], count, *dims[axis + 1 :]))


def unfold(at: NodeContext, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows of an axis, each along a new last axis"""
    if rank_of(x) == 0:
        at.refuse("windows of a tensor without axes are not supported")
    axis = at.axis(dim, rank_of(x))
    at.b.require(dims_of(x)[axis] - size)  # also where steps are so long that none is refused
    windows = at.b.windows(x, axis, 0, at.dims[axis], step, size)
    return move_axis(at.b, windows, axis + 1, rank_of(x))


def flip(at: NodeContext, x: Value, dims: Sequence[int]) -> Value:
    """The other way round along axes"""
    for dim in dims if rank_of(x) else ():
        x = _flipped(at, x, at.axis(dim, rank_of(x)))
    return x


def _flipped(at: NodeContext, x: Value, axis: int) -> Value:
    """Rows of one sequence, the last one first."""
    b, rows = at.b, move_axis(at.b, x, axis, 0)
    size, *rest = dims_of(rows)
    lengths = b.broadcast(b.size(size, "i32"), [1], [])
    turned = b.reverse_segments(b.reshape(rows, (size, 1, *rest)), lengths)
    return move_axis(b, b.reshape(turned, (size, *rest)), 0, axis)


def roll(at: NodeContext, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Value:
    """What leaves an axis at its end comes back at its start"""
    if not dims:
        count = math.prod(dims_of(x), start=Dim.of(1))
        return at.b.reshape(roll(at, at.b.reshape(x, (count,)), shifts, (0,)), at.dims)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = at.axis(dim, rank_of(x))
        size, back = dims_of(x)[axis], Dim.of(shift)
        if size.is_static and back.is_static:
            back = Dim.of(int(back) % int(size) if int(size) else 0)
        elif not is_natural(back):  # forwards: the others go back
            back = size + back
        if back != 0:
            parts = (size - back, back), (Dim.of(0), size - back)
            x = at.b.concat([at.b.slice(x, axis, *part) for part in parts], axis)
    return x


def _within(x: Value, axis: int, index: Size) -> Dim:
    """A place on an axis, counted from its start; within it where both are known."""
    place, size = Dim.of(index), dims_of(x)[axis]
    if place.is_static and int(place) < 0:
        place = size + place
    known = place.is_static and size.is_static
    return Dim.of(max(0, min(int(place), int(size)))) if known else place


def _replaced(at: NodeContext, x: Value, new: Value, axis: int, start: Dim) -> Value:
    """x with new at a place along an axis."""
    end = start + dims_of(new)[axis]
    before = at.b.slice(x, axis, 0, start)
    after = at.b.slice(x, axis, end, dims_of(x)[axis] - end)
    parts = [part for part in (before, new, after) if dims_of(part)[axis] != 0]
    return at.b.concat(parts, axis)


def _replaced_apart(
    at: NodeContext, x: Value, new: Value, axis: int, start: Dim, step: Size
) -> Value:
    """x with new at even distances along an axis."""
    b, dims, count = at.b, dims_of(new), dims_of(new)[axis]
    size = dims_of(x)[axis]
    if not (isinstance(step, int) and start.is_static and count.is_static and size.is_static):
        at.refuse(f"a slice with step {step} of an axis of size {size} cannot be replaced")
    apart = (*dims[: axis + 1], Dim.of(step), *dims[axis + 1 :])
    spread = b.broadcast(new, apart, [i for i in range(len(apart)) if i != axis + 1])
    spread = b.reshape(spread, (*dims[:axis], count * step, *dims[axis + 1 :]))
    length = min(int(count) * step, int(size) - int(start))
    spread = b.pad(b.slice(spread, axis, 0, length), axis, start, size, 0.0)
    places = np.isin(np.arange(int(size)), int(start) + step * np.arange(int(count)))
    shape = [size if i == axis else Dim.of(1) for i in range(len(dims))]
    return b.select(b.reshape(b.constant(places, "i1"), shape), spread, x)


OPERATORS: Table = {
    **dict.fromkeys(
        "clone contiguous alias lift_fresh lift_fresh_copy lift _assert_tensor_metadata".split(),
        same,
    ),
    **dict.fromkeys("view _unsafe_view reshape unsqueeze flatten unflatten".split(), reshape),
    "squeeze": squeeze,
    "expand": expand,
    "permute": permute,
    "transpose": transpose,
    "t": t,
    "select": select,
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "slice": slice_of,
    "split": split,
    "chunk": split,
    "split_with_sizes": split,
    "unbind": unbind,
    "cat": cat,
    "stack": stack,
    "repeat": repeat,
    "constant_pad_nd": pad,
    "pad": pad_by_mode,
    **{f"{kind}_pad{rank}d": edges(kind) for kind in MODES for rank in (1, 2, 3)},
    "broadcast_tensors": broadcast_tensors,
    "unfold": unfold,
    "flip": flip,
    "roll": roll,
}
