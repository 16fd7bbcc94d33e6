"""Rewrites of transposes, broadcasts, slices, joins and what they feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_dim, get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.ops.source import Fill
from rnncc.ir.ops.windows import Windows
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of, dtype_of

Rule = Callable[[Any], SSAValue | None]
MAX_PARTS = 64
"""Of a join, before the parts of joins that are used elsewhere stay together."""


def transpose(op: Transpose) -> SSAValue | None:
    """Of a transpose → one; of nothing → x; of axes of size 1 alone → reshape, and of a concat of
    such parts → concat; of a fill → fill
    """
    perm, inner, b = get_ints(op.perm), op.x.owner, Builder.before(op)
    if isinstance(inner, Transpose):
        first = get_ints(inner.perm)
        return b.transpose(inner.x, [first[axis] for axis in perm])
    if isinstance(inner, Fill):
        return b.fill(inner.value.value.data, dims_of(op.y), dtype_of(op.y))
    if _keeps_order(op.x, perm):
        return b.reshape(op.x, dims_of(op.y))
    # With another reader the parts would be joined twice, in two orders of axes.
    if isinstance(inner, Concat) and op.x.has_one_use():
        return _transpose_of_parts(b, inner, perm)
    return None


def _keeps_order(x: SSAValue, perm: Sequence[int]) -> bool:
    """Whether elements stay in their order: axes of size 1 move alone."""
    moving = [axis for axis in perm if dims_of(x)[axis] != 1]
    return moving == sorted(moving)


def _transpose_of_parts(b: Builder, concat: Concat, perm: Sequence[int]) -> SSAValue | None:
    """The directions of a recurrent layer, [T, 1, N, H] each, are written as [T, N, 2, H] at once:
    the product of the next layer reads whole rows.
    """
    if not all(_keeps_order(part, perm) for part in concat.xs):
        return None
    turned = [b.reshape(p, [dims_of(p)[axis] for axis in perm]) for p in concat.xs]
    return b.concat(turned, perm.index(concat.axis.data))


def broadcast(op: Broadcast) -> SSAValue | None:
    """Of a broadcast → one, axes that were joined between them in the end; of a fill → fill; of no
    growth → reshape; of unit axes → without"""
    dims, axes, inner = dims_of(op.y), get_ints(op.axes), op.x.owner
    b = Builder.before(op)
    if isinstance(inner, Broadcast):
        return b.broadcast(inner.x, dims, [axes[axis] for axis in get_ints(inner.axes)])
    if isinstance(inner, Fill):
        return b.fill(inner.value.value.data, dims, dtype_of(op.y))
    if product(dims_of(op.x)) == product(dims):
        return b.reshape(op.x, dims)
    grown = [dims_of(op.x)[i] != dims[axis] for i, axis in enumerate(axes)]
    if any(grown):
        stay = [i for i, grows in enumerate(grown) if not grows]
        narrow = b.reshape(op.x, [dims_of(op.x)[i] for i in stay])
        return b.broadcast(narrow, dims, [axes[i] for i in stay])
    kept = _added_units(dims_of(inner.x), dims_of(op.x)) if isinstance(inner, Reshape) else None
    if isinstance(inner, Reshape) and kept is not None:
        return b.broadcast(inner.x, dims, [axes[axis] for axis in kept])
    if isinstance(inner, Reshape) and isinstance(inner.x.owner, Broadcast):
        return _of_joined(b, inner, op)
    return None


def _of_joined(b: Builder, joined: Reshape, op: Broadcast) -> SSAValue | None:
    """A tensor that grows along two axes, as an image does, is stored once: where it is reshaped
    anyway, the first growth would be stored before the second."""
    runs = _runs(dims_of(joined.x), dims_of(joined.y))
    stored = all(isinstance(use.operation, Reshape) for use in op.y.uses)
    if runs is None or not stored:
        return None
    wide, axes, places = list[Dim](), list[int](), dict(zip(get_ints(op.axes), runs, strict=True))
    for axis, size in enumerate(dims_of(op.y)):
        run = places.get(axis, ())
        axes += range(len(wide), len(wide) + len(run))
        wide += run if axis in places else [size]
    return b.reshape(b.broadcast(joined.x, wide, axes), dims_of(op.y))


def _runs(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[tuple[Dim, ...]] | None:
    """The runs of old axes that new axes are; None where these are not."""
    runs, first = list[tuple[Dim, ...]](), 0
    for size in new:
        last = first
        while last < len(old) and product(old[first:last]) != size:
            last += 1
        if product(old[first:last]) != size:
            return None
        runs.append(old[first:last])
        first = last
    return runs if first == len(old) else None


def _added_units(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[int] | None:
    """Where old's axes are in new, if new is old with axes of size 1 put in."""
    kept: list[int] = []
    for axis, size in enumerate(new):
        if len(kept) < len(old) and size == old[len(kept)]:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(old) else None


def slice_of(op: Slice) -> SSAValue | None:
    """Of everything → x; of a slice → one; of a concat → of its parts; of a broadcast or fill"""
    axis, start, size = op.axis.data, get_dim(op.start), get_dim(op.size)
    inner, b = op.x.owner, Builder.before(op)
    if start == 0 and dims_of(op.x)[axis] == size:
        return op.x
    if isinstance(inner, Slice) and inner.axis.data == axis:
        return b.slice(inner.x, axis, get_dim(inner.start) + start, size)
    if isinstance(inner, Concat) and inner.axis.data == axis:
        return _slice_of_concat(b, inner, start, size)
    if isinstance(inner, Fill):
        return b.fill(inner.value.value.data, dims_of(op.y), dtype_of(op.y))
    if isinstance(inner, Broadcast):
        return _slice_of_broadcast(b, inner, op)
    # With another reader the whole product is computed anyway.
    if op.x.has_one_use():
        return _slice_of_window_product(b, op.x, (axis, start, size))
    return None


def _slice_of_window_product(
    b: Builder, x: SSAValue, place: tuple[int, Dim, Dim]
) -> SSAValue | None:
    """A product of rows that are windows, of fewer of them, or by fewer columns."""
    axis, start, size = place
    op = x.owner
    if isinstance(op, Transpose) and op.x.has_one_use():
        perm = get_ints(op.perm)
        part = _slice_of_window_product(b, op.x, (perm[axis], start, size))
        return None if part is None else b.transpose(part, perm)
    if not isinstance(op, Matmul) or op.transpose_a or len(dims_of(op.b)) != 2:
        return None
    view, before = op.a.owner, dims_of(op.a)[:-1]
    if not isinstance(view, Reshape) or dims_of(view.x)[: len(before)] != before:
        return None
    if not _are_windows(view.x):
        return None
    if axis == len(before):
        return b.like(op, [op.a, b.slice(op.b, 0 if op.transpose_b else 1, start, size)])
    part = _fewer_windows(b, view.x, place)
    if part is None:
        return None
    return b.like(op, [b.reshape(part, (*dims_of(part)[: len(before)], dims_of(op.a)[-1])), op.b])


def _are_windows(x: SSAValue) -> bool:
    while isinstance(op := x.owner, Transpose):
        x = op.x
    return isinstance(op, Windows)


def _fewer_windows(b: Builder, x: SSAValue, place: tuple[int, Dim, Dim]) -> SSAValue | None:
    """A part along an axis that counts windows; None where an axis does not."""
    axis, start, size = place
    match x.owner:
        case Transpose() as op:
            perm = get_ints(op.perm)
            part = _fewer_windows(b, op.x, (perm[axis], start, size))
            return None if part is None else b.transpose(part, perm)
        case Windows() as op if axis == op.axis.data:
            stride, dilation = op.steps
            taps, first = op.taps.data, get_dim(op.start) + start * stride
            reach = (size - 1) * stride + (taps - 1) * dilation + 1
            kept = _trimmed(b, op.x, (axis, first, reach))
            return b.windows(kept, axis, 0, size, stride, taps, dilation)
        case Windows() as op if axis != op.axis.data + 1:
            behind = axis > op.axis.data
            part = _fewer_windows(b, op.x, (axis - behind, start, size))
            return None if part is None else b.like(op, [part])
        case _:
            return None


def _trimmed(b: Builder, x: SSAValue, place: tuple[int, Dim, Dim]) -> SSAValue:
    """A part along an axis; of what is padded there, with as much less of the pads."""
    axis, start, size = place
    match x.owner:
        case Windows() as op if axis not in (op.axis.data, op.axis.data + 1):
            behind = axis > op.axis.data
            return b.like(op, [_trimmed(b, op.x, (axis - behind, start, size))])
        case Concat() as op if op.axis.data == axis and size.is_static and start.is_static:
            parts = list[SSAValue]()
            for at, part in op.parts:
                # What of this part stands before the range, and behind it, is cut off.
                first, end = (start - at).excess(), at + dims_of(part)[axis]
                left = dims_of(part)[axis] - first - (end - start - size).excess()
                if not left.is_static:
                    return b.slice(x, axis, start, size)
                parts += [b.slice(part, axis, first, left)] if int(left) > 0 else []
            return b.concat(parts, axis)
        case Concat() as op if op.axis.data != axis:
            return b.concat([_trimmed(b, part, place) for part in op.xs], op.axis.data)
        case _:
            return b.slice(x, axis, start, size)


def _slice_of_concat(b: Builder, concat: Concat, start: Dim, size: Dim) -> SSAValue | None:
    """The part that holds the slice, or a concat of whole parts that are the slice."""
    axis, whole, end = concat.axis.data, list[SSAValue](), start + size
    for offset, part in concat.parts:
        if end.is_static and offset.is_static and int(offset) >= int(end) and size != 0:
            break  # one that is split into as many parts as it joins would be read through for each
        extent = dims_of(part)[axis]
        if is_natural(start - offset) and is_natural(offset + extent - end):
            return b.slice(part, axis, start - offset, size)
        if is_natural(offset - start) and is_natural(end - offset - extent):
            whole.append(part)
    total = sum((dims_of(part)[axis] for part in whole), Dim.of(0))
    return b.concat(whole, axis) if whole and total == size else None


def _slice_of_broadcast(b: Builder, inner: Broadcast, op: Slice) -> SSAValue:
    axes, axis, x = get_ints(inner.axes), op.axis.data, inner.x
    if axis in axes and dims_of(x)[axes.index(axis)] == dims_of(inner.y)[axis]:
        x = b.like(op, [x], axis=type(op.axis)(axes.index(axis)))
    return b.broadcast(x, dims_of(op.y), axes)


def concat(op: Concat) -> SSAValue | None:
    """Of one → it; of concats → one; without empty parts; of adjacent slices → slice"""
    axis, b, user = op.axis.data, Builder.before(op), op.y.get_user_of_unique_use()
    if isinstance(user, Concat) and user.axis == op.axis:
        return None  # it becomes a part of that one, at once with all that it holds
    parts, left = list[SSAValue](), [*reversed(op.xs)]
    while left:
        part = left.pop()
        inner = part.owner if isinstance(part.owner, Concat) else None
        others = len(parts) + len(left)
        if inner is not None and inner.axis == op.axis and _opens(part, inner, others):
            left += reversed(inner.xs)
        elif dims_of(part)[axis] != 0:
            parts.append(part)
    joined: list[SSAValue] = []
    for part in parts:
        both = _join(b, joined[-1], part, axis) if joined else None
        joined[-1:] = [both] if both is not None else [*joined[-1:], part]
    if not joined or (joined == list(op.xs) and len(joined) > 1):
        return None
    return b.concat(joined, axis)


def _opens(part: SSAValue, inner: Concat, others: int) -> bool:
    """Whether the parts of a part take its place: of one that is used again, if they are few.

    Twenty joins of a value with itself would have a million parts.
    """
    return part.has_one_use() or len(inner.xs) + others <= MAX_PARTS


def _join(b: Builder, first: SSAValue, second: SSAValue, axis: int) -> SSAValue | None:
    """Two neighbouring slices of one value, or two fills, as one."""
    left, right = first.owner, second.owner
    if isinstance(left, Slice) and isinstance(right, Slice):
        same = left.x is right.x and left.axis.data == right.axis.data == axis
        start, size = get_dim(left.start), get_dim(left.size)
        if same and start + size == get_dim(right.start):
            return b.slice(left.x, axis, start, size + get_dim(right.size))
    if isinstance(left, Fill) and isinstance(right, Fill) and left.value == right.value:
        size = dims_of(first)[axis] + dims_of(second)[axis]
        dims = (*dims_of(first)[:axis], size, *dims_of(first)[axis + 1 :])
        return b.fill(left.value.value.data, dims, dtype_of(first))
    return None


def reduce_of(op: Reduce) -> SSAValue | None:
    """Over axes of size 1 → reshape; max of max → one; max of a fill → fill"""
    axes, b, inner = get_ints(op.axes), Builder.before(op), op.x.owner
    extremum = op.kind.data != "sum"
    if all(dims_of(op.x)[axis] == 1 for axis in axes):
        return b.reshape(op.x, dims_of(op.y))
    # A sum of sums, as one, would have another order, and other bits.
    if extremum and isinstance(inner, Reduce) and inner.kind == op.kind:
        reduced = get_ints(inner.axes)
        kept = [axis for axis in range(len(dims_of(inner.x))) if axis not in reduced]
        return b.reduce(op.kind.data, inner.x, [*reduced, *(kept[axis] for axis in axes)])
    # The maximum of no elements is -inf, whatever they would be.
    if extremum and isinstance(inner, Fill) and all(_has_terms(op, axis) for axis in axes):
        return b.fill(inner.value.value.data, dims_of(op.y), dtype_of(op.y))
    return None


def _has_terms(op: Reduce, axis: int) -> bool:
    """Whether there is an element along a reduced axis, wherever there is a result."""
    size = dims_of(op.x)[axis]
    return size in dims_of(op.y) or (size.is_static and int(size) > 0)


def matmul(op: Matmul) -> SSAValue | None:
    """A transpose of an operand's last two axes → its flag"""
    for index, flag in enumerate(("transpose_a", "transpose_b")):
        inner = op.operands[index].owner
        if isinstance(inner, Transpose) and _swaps_last(get_ints(inner.perm)):
            operands = list(op.operands)
            operands[index] = inner.x
            flipped = BoolAttr.from_bool(not bool(op.properties[flag]))
            return Builder.before(op).like(op, operands, **{flag: flipped})
    return None


def _swaps_last(perm: tuple[int, ...]) -> bool:
    n = len(perm)
    return perm == (*range(n - 2), n - 1, n - 2)


RULES: dict[type[RnnOp], tuple[Rule, ...]] = {
    Transpose: (transpose,),
    Broadcast: (broadcast,),
    Slice: (slice_of,),
    Concat: (concat,),
    Reduce: (reduce_of,),
    Matmul: (matmul,),
}
