"""Rows by number: embeddings and gathers of aten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rnncc.frontends.torch.node_context import (
    BY_TENSORS,
    NodeContext,
    Number,
    Operand,
    Table,
    Translation,
    Value,
    rank_of,
)
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.shape import inverse
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import move_axis
from rnncc.nn.indexing import diagonal as diagonal_of
from rnncc.nn.indexing import (
    flat_places,
    from_front,
    gather_elements,
    put,
    put_elements,
    triangle,
)
from rnncc.nn.reduction import cumulate, total


def embedding(
    at: NodeContext,
    weight: Value,
    index: Value,
    padding: int = -1,
    by_frequency: bool = False,
    sparse: bool = False,
) -> Value:
    """The rows of weight that index names; that of the padding gets no gradient"""
    if by_frequency:
        at.refuse("scale_grad_by_freq is not supported")
    rows = at.b.gather(weight, index, 0)
    if padding < 0:
        return rows
    is_padding = at.b.compare("eq", index, at.value(padding, dtype_of(index)))
    mask = at.b.reshape(is_padding, (*dims_of(index), 1))
    return at.b.select(mask, at.b.stop_gradient(rows), rows)


def index_select(at: NodeContext, x: Value, dim: int, index: Value) -> Value:
    """Places of an axis"""
    return at.b.gather(x, index, at.axis(dim, rank_of(x)))


def index(at: NodeContext, x: Value, indices: list[Value | None]) -> Value:
    """Places of some axes, numbers from the front or from the end"""
    b, axes = at.b, _numbered(at, indices)
    place, shape = _place(at, x, indices, axes)
    gathered = b.gather(_in_front(b, x, axes), place, 0)
    return b.transpose(gathered, _layout(rank_of(x), axes, len(shape)))


def index_put(
    at: NodeContext, x: Value, indices: list[Value | None], new: Value, accumulate: bool = False
) -> Value:
    """x with new elements at places of some axes, or added there; of several for one, the last

    A mask may choose rows, where all get the same.
    """
    mask, b = indices[0], at.b
    if mask is not None and dtype_of(mask) == "i1" and rank_of(mask) + rank_of(new) <= rank_of(x):
        new = at.widened(b.add(x, new) if accumulate else new)
        return b.select(b.broadcast(mask, dims_of(x), range(rank_of(mask))), new, x)
    axes = _numbered(at, indices)
    place, shape = _place(at, x, indices, axes)
    rows, order = _in_front(b, x, axes), _layout(rank_of(x), axes, len(shape))
    behind = dims_of(rows)[1:]
    wide = [(*shape, *behind)[axis] for axis in order]
    new = b.broadcast(new, wide, range(len(wide) - rank_of(new), len(wide)))
    count = product(shape)
    new = b.reshape(b.transpose(new, inverse(order)), (count, *behind))
    changed = put(b, rows, new, b.reshape(place, (count,)), "sum" if accumulate else "")
    front = _front(rank_of(x), axes)
    changed = b.reshape(changed, [dims_of(x)[axis] for axis in front])
    return b.transpose(changed, inverse(front))


def _numbered(at: NodeContext, indices: list[Value | None]) -> list[int]:
    """The axes that tensors of numbers stand for."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    places: Any = at.node.args[1]
    dtypes = {place.meta["val"].dtype for place in places if place is not None}
    if not dtypes.isdisjoint((torch.bool, torch.uint8)):  # uint8 is an old mask
        at.refuse("indexing with a mask is not supported", f"torch.where, or {BY_TENSORS}")
    return axes


def _place(
    at: NodeContext, x: Value, indices: list[Value | None], axes: list[int]
) -> tuple[Value, Sequence[Dim]]:
    """The numbers of rows of `_in_front`, and their shape."""
    b, sizes = at.b, [dims_of(x)[axis] for axis in axes]
    numbers = b.broadcast_together(*(index for index in indices if index is not None))
    whole = [b.cast(index, "i64") for index in numbers]
    places = [from_front(b, index, size) for index, size in zip(whole, sizes, strict=True)]
    return places[0] if len(axes) == 1 else flat_places(b, places, sizes), dims_of(numbers[0])


def _front(rank: int, axes: list[int]) -> list[int]:
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def _in_front(b: Builder, x: Value, axes: list[int]) -> Value:
    """x with some axes in front, as one."""
    dims = dims_of(x)
    x = b.transpose(x, _front(len(dims), axes))
    count = product(dims[axis] for axis in axes)
    return b.reshape(x, (count, *dims_of(x)[len(axes) :]))


def _layout(rank: int, axes: list[int], places: int) -> list[int]:
    """Where axes of what is indexed come from: those of the places, which are in front, stand for
    the axes that they choose among where these are neighbours."""
    begin = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    others = list(range(places, places + rank - len(axes)))
    return [*others[:begin], *range(places), *others[begin:]]


def index_add(
    at: NodeContext, x: Value, dim: int, index: Value, rows: Value, *, alpha: Number = 1
) -> Value:
    """x with rows added at places of an axis"""
    rows = at.scaled(rows, alpha)
    if rank_of(x) == 0:
        return at.b.add(x, at.b.reshape(rows, ()))
    return at.b.scatter("sum", x, rows, _flat(at.b, index), at.axis(dim, rank_of(x)))


def index_copy(at: NodeContext, x: Value, dim: int, index: Value, rows: Value) -> Value:
    """x with rows at places of an axis; of several for one place, the last"""
    b, axis = at.b, at.axis(dim, max(rank_of(x), 1))
    if rank_of(x) == 0:
        return b.reshape(rows, ())
    changed = put(b, move_axis(b, x, axis, 0), move_axis(b, rows, axis, 0), _flat(b, index))
    return move_axis(b, changed, 0, axis)


def _flat(b: Builder, index: Value) -> Value:
    """Numbers of rows as a vector; one number without axes is one."""
    return b.reshape(index, (product(dims_of(index)),))


def diagonal(at: NodeContext, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two axes, as the last one"""
    axes = at.axis(dim1, rank_of(x)), at.axis(dim2, rank_of(x))
    return diagonal_of(at.b, x, axes, at.dims[-1], offset)


def diagonal_matrix(
    at: NodeContext, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Value:
    """The last axis as a diagonal of two, zeros elsewhere"""
    b, rank = at.b, rank_of(x) + 1
    first, second = at.axis(dim1, rank), at.axis(dim2, rank)
    zero = b.fill(0, (), dtype_of(x))
    if offset:  # the last rows, or columns, have nothing on the diagonal
        x = b.pad(x, rank - 2, 0, at.dims[first], zero)
    row, column = (b.iota(at.dims, axis, "i32") for axis in (first, second))
    axes = [axis for axis in range(rank) if axis not in (first, second)]
    axes.append(first if offset >= 0 else second)
    order = sorted(range(rank - 1), key=axes.__getitem__)
    wide = b.broadcast(b.transpose(x, order), at.dims, sorted(axes))
    shifted = b.add(row, b.fill(offset, (), "i32"))
    return b.select(b.compare("eq", shifted, column), wide, zero)


def put_diagonal(
    at: NodeContext, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """The tensor with another diagonal of two axes"""
    b, rank = at.b, rank_of(x)
    first, second = at.axis(dim1, rank), at.axis(dim2, rank)
    if at.dims[first] != at.dims[second] or offset:
        at.refuse("diagonal_scatter with an offset, or of axes of two sizes, is not supported")
    row, column = (b.iota(at.dims, axis, "i32") for axis in (first, second))
    axes = [axis for axis in range(rank) if axis not in (first, second)] + [first]
    order = sorted(range(rank - 1), key=axes.__getitem__)
    wide = b.broadcast(b.transpose(source, order), at.dims, sorted(axes))
    return b.select(b.compare("eq", row, column), wide, x)


def negative_log_likelihood(
    at: NodeContext,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> Value:
    """-x of the classes of a target along axis 1, weighted; 0 where the target is to be ignored"""
    b, axis = at.b, min(rank_of(x) - 1, 1)
    ignored = b.compare("eq", target, b.fill(ignore_index, (), dtype_of(target)))
    place = b.select(ignored, b.fill(0, (), dtype_of(target)), target)
    dims = dims_of(target)
    index = b.reshape(place, (*dims[:axis], 1, *dims[axis:]))
    picked = b.reshape(gather_elements(b, x, index, axis), dims)
    factor = b.fill(1.0, (), dtype_of(x)) if weight is None else b.gather(weight, place, 0)
    factor = b.broadcast(factor, dims, range(rank_of(factor)))
    share = b.select(ignored, b.full_like(factor, 0.0), factor)
    loss = b.neg(b.mul(picked, share))
    if reduction == 0:
        return loss
    whole = total(b, loss, range(len(dims)))
    return whole if reduction == 2 else b.div(whole, total(b, share, range(len(dims))))


def gather(
    at: NodeContext, x: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Value:
    """y[i, j] = x[index[i, j], j] along axis 0, and so on; numbers from 0"""
    if rank_of(x) == 0:
        return at.b.reshape(x, at.dims)
    return gather_elements(at.b, x, index, at.axis(dim, rank_of(x)))


def masked_scatter(at: NodeContext, x: Value, mask: Value, new: Value) -> Value:
    """x with the next element of another tensor wherever a mask is set"""
    b = at.b
    x, mask = b.broadcast_together(x, mask)
    count = (product(dims_of(x)),)
    number = cumulate(b, b.cast(b.reshape(mask, count), "i64"), 0)
    place = b.maximum(b.sub(number, b.fill(1, (), "i64")), b.fill(0, (), "i64"))
    following = b.gather(b.reshape(new, (product(dims_of(new)),)), place, 0)
    return b.select(mask, b.reshape(following, dims_of(x)), x)


def triangular(upper: bool) -> Translation:
    """The upper or lower triangle of the last two axes, zeros elsewhere"""

    def translate(at: NodeContext, x: Value, diagonal: int = 0) -> Value:
        return triangle(at.b, x, diagonal, upper)

    return translate


def scatter(at: NodeContext, x: Value, dim: int, index: Value, new: Operand) -> Value:
    """x with new[i, j] at [index[i, j], j] along axis 0, and so on; of several, the last"""
    return _scattered(at, x, dim, index, new, "")


def scatter_add(at: NodeContext, x: Value, dim: int, index: Value, new: Value) -> Value:
    """x with new[i, j] added at [index[i, j], j] along axis 0, and so on"""
    return _scattered(at, x, dim, index, new, "sum")


def scatter_reduce(
    at: NodeContext,
    x: Value,
    dim: int,
    index: Value,
    new: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """x with new[i, j] folded in at [index[i, j], j] along axis 0, and so on"""
    kinds = {"sum": "sum", "mean": "sum", "prod": "mul", "amax": "max", "amin": "min"}
    b, dtype, kind = at.b, dtype_of(x), kinds[reduce]
    if dtype not in FLOATS and (reduce == "mean" or not include_self):
        at.refuse(f"scatter_reduce of {dtype} to a mean, or without x, is not supported")
    if reduce != "mean" and include_self:
        return _scattered(at, x, dim, index, new, kind)
    ones = b.cast(b.full_like(index, 1), dtype)
    count = _scattered(at, b.full_like(x, 0.0), dim, index, ones, "sum")
    empty = b.compare("eq", count, b.full_like(x, 0.0))
    if not include_self:
        x = b.select(empty, x, b.full_like(x, _NOTHING[kind]))
    total = _scattered(at, x, dim, index, new, kind)
    if reduce != "mean":
        return total
    terms = b.add(count, b.full_like(x, float(include_self)))
    return b.div(total, b.select(empty, b.full_like(x, 1.0), terms))


_NOTHING = {"sum": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}
"""What a fold begins with where nothing is folded into."""


def _scattered(at: NodeContext, x: Value, dim: int, index: Value, new: Operand, kind: str) -> Value:
    b, dims, shape = at.b, dims_of(x) or (Dim.of(1),), dims_of(index) or (Dim.of(1),)
    new = at.value(new)
    new = b.broadcast(new, shape, ()) if rank_of(new) == 0 else new
    for axis, size in enumerate(shape):
        new = b.slice(new, axis, 0, size)
    axis, index = at.axis(dim, len(dims)), b.reshape(index, shape)
    changed = put_elements(b, b.reshape(x, dims), new, index, axis, kind)
    return b.reshape(changed, dims_of(x))


OPERATORS: Table = {
    "embedding": embedding,
    "index_select": index_select,
    "index": index,
    "_unsafe_index": index,
    "diagonal": diagonal,
    "diag_embed": diagonal_matrix,
    "diagonal_scatter": put_diagonal,
    "nll_loss_nd": negative_log_likelihood,
    "masked_scatter": masked_scatter,
    "gather": gather,
    "triu": triangular(upper=True),
    "tril": triangular(upper=False),
    "index_put": index_put,
    "index_add": index_add,
    "index_copy": index_copy,
    "scatter.src": scatter,
    "scatter.value": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce.two": scatter_reduce,
}
