"""Rewrites that move reshapes towards sources, where they meet others and cancel.

A front end wraps ops into pairs of reshapes ([1, N, H] to [N, H] and back); moved through what
stands between, the pair becomes one reshape to the shape that was there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims, product
from rnncc.ir.ops.base import Elementwise, RnnOp
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.ops.source import Constant, Fill
from rnncc.ir.types import dims_of, dtype_of


def surviving_axes(old: Dims, new: Dims) -> dict[int, int]:
    """The axes of old that a reshape to new leaves alone: old axis → new axis.

    All but those of size 1, where only such axes come and go; else the common first and last.
    """
    wide_old = [axis for axis, size in enumerate(old) if size != 1]
    wide_new = [axis for axis, size in enumerate(new) if size != 1]
    if [old[axis] for axis in wide_old] == [new[axis] for axis in wide_new]:
        return dict(zip(wide_old, wide_new, strict=True))
    kept: dict[int, int] = {}
    for axis, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            break
        kept[axis] = axis
    for back in range(1, min(len(old), len(new)) - len(kept) + 1):
        if old[-back] != new[-back]:
            break
        kept[len(old) - back] = len(new) - back
    return kept


def reshape(op: Reshape) -> SSAValue | None:
    """Of the same shape → x; of a reshape → one; of a fill or constant → its own; else move up"""
    inner, new = op.x.owner, dims_of(op.y)
    if dims_of(op.x) == new:
        return op.x
    if isinstance(inner, Reshape):
        return Builder.before(op).reshape(inner.x, new)
    if isinstance(inner, Fill):
        return Builder.before(op).fill(inner.value.value.data, new, dtype_of(op.y))
    if isinstance(inner, Constant):
        array = inner.array().reshape([int(d) for d in new])
        return Builder.before(op).constant(array, dtype_of(op.y))
    move = _MOVES.get(Elementwise if isinstance(inner, Elementwise) else type(inner))
    # Without elements [0, 3] is [0, 5] as well: above a slice of no rows, of [8, 3], that would be
    # a reshape of [8, 3] to [8, 5].
    if move is None or product(new) == 0:
        return None
    # With a reader of the old shape the op would be there twice, once a shape.
    if not all(_is_like(op, use.operation) for use in op.x.uses):
        return None
    assert isinstance(inner, RnnOp)
    siblings = [use.operation for use in op.x.uses]
    moved = move(Builder.before(inner), inner, new)
    if moved is not None:
        moved.name_hint = moved.name_hint or op.x.name_hint  # it takes the place of op.x
        for sibling in siblings:
            sibling.results[0].replace_all_uses_with(moved)
    return moved


def _is_like(op: Reshape, other: Operation) -> bool:
    return isinstance(other, Reshape) and other.y.type == op.y.type


def _through_elementwise(b: Builder, inner: Elementwise, new: Dims) -> SSAValue:
    return b.like(inner, [b.reshape(x, new) for x in inner.operands])


def _through_broadcast(b: Builder, inner: Broadcast, new: Dims) -> SSAValue | None:
    """Every axis of the operand survives, or has size 1 and goes."""
    kept = surviving_axes(dims_of(inner.y), new)
    small, axes = list[Dim](), list[int]()
    for size, axis in zip(dims_of(inner.x), get_ints(inner.axes), strict=True):
        if axis in kept:
            small.append(size)
            axes.append(kept[axis])
        elif size != 1:
            return None
    return b.broadcast(b.reshape(inner.x, small), new, axes)


def _through_slice(b: Builder, inner: Slice, new: Dims) -> SSAValue | None:
    axis = surviving_axes(dims_of(inner.y), new).get(inner.axis.data)
    if axis is None:
        return None
    whole = _with(new, axis, dims_of(inner.x)[inner.axis.data])
    return b.like(inner, [b.reshape(inner.x, whole)], axis=IntAttr(axis))


def _through_concat(b: Builder, inner: Concat, new: Dims) -> SSAValue | None:
    axis = surviving_axes(dims_of(inner.y), new).get(inner.axis.data)
    if axis is None:
        return None
    sizes = [dims_of(x)[inner.axis.data] for x in inner.xs]
    parts = zip(inner.xs, sizes, strict=True)
    return b.concat([b.reshape(x, _with(new, axis, size)) for x, size in parts], axis)


def _through_transpose(b: Builder, inner: Transpose, new: Dims) -> SSAValue | None:
    """Only where axes of size 1 go and the others stay."""
    kept = surviving_axes(dims_of(inner.y), new)
    if len(kept) != len(new):
        return None
    sources = [get_ints(inner.perm)[axis] for axis in sorted(kept)]
    order = sorted(sources)
    small = b.reshape(inner.x, [dims_of(inner.x)[axis] for axis in order])
    return b.transpose(small, [order.index(axis) for axis in sources])


def _through_reduce(b: Builder, inner: Reduce, new: Dims) -> SSAValue | None:
    """Each reduced axis is put back behind the surviving axis in front of it."""
    old, reduced = dims_of(inner.y), get_ints(inner.axes)
    kept = surviving_axes(old, new)
    # An axis that is split or joined leaves no one place for the reduced axes next to it.
    if any(size != 1 and axis not in kept for axis, size in enumerate(old)):
        return None
    dims, axes, rest, behind = list[Dim](), list[int](), list(new), 0
    for axis, size in enumerate(dims_of(inner.x)):
        if axis in reduced:
            axes.append(len(dims))
            dims.append(size)
            continue
        # The new axes up to the one that this axis becomes; none where it is a unit that goes.
        take = kept.get(behind, -1) + 1 - (len(new) - len(rest))
        dims, rest, behind = dims + rest[: max(take, 0)], rest[max(take, 0) :], behind + 1
    return b.reduce(inner.kind.data, b.reshape(inner.x, [*dims, *rest]), axes)


def _through_matmul(b: Builder, inner: Matmul, new: Dims) -> SSAValue | None:
    """Rows times one matrix: the rows may be arranged in any way; else only leading axes."""
    old, x, y = dims_of(inner.y), dims_of(inner.a), dims_of(inner.b)
    if len(new) < 2 or old[-1] != new[-1]:
        return None
    if len(y) == 2 and not inner.transpose_a:
        return b.like(inner, [b.reshape(inner.a, [*new[:-1], x[-1]]), inner.b])
    if old[-2] != new[-2]:
        return None
    right = inner.b if len(y) == 2 else b.reshape(inner.b, [*new[:-2], *y[-2:]])
    return b.like(inner, [b.reshape(inner.a, [*new[:-2], *x[-2:]]), right])


def _with(dims: Sequence[Dim], axis: int, size: Dim) -> Dims:
    return (*dims[:axis], size, *dims[axis + 1 :])


_MOVES: dict[type[Any], Callable[[Builder, Any, Dims], SSAValue | None]] = {
    Elementwise: _through_elementwise,
    Broadcast: _through_broadcast,
    Slice: _through_slice,
    Concat: _through_concat,
    Transpose: _through_transpose,
    Reduce: _through_reduce,
    Matmul: _through_matmul,
}
RULES: dict[type[RnnOp], tuple[Callable[[Any], SSAValue | None], ...]] = {Reshape: (reshape,)}
