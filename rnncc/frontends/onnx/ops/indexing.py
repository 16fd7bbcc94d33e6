"""Operators that choose elements by number or by place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.counted.shapes import known_part
from rnncc.frontends.onnx.formulas.sizes import Undecided, decide
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import INTEGERS, MAX_FOLDED, STORED, TEXT, Node, OnnxOperator
from rnncc.frontends.onnx.ops.computed_sizes import bounded_number, is_computed
from rnncc.frontends.onnx.values import LARGEST, Array, Value, as_objects
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import WIDE, dims_of, dtype_of, shape_text
from rnncc.nn.arithmetic import modulo
from rnncc.nn.axes import move_axis, row, strided
from rnncc.nn.indexing import (
    flat_places,
    from_front,
    gather_elements,
    one_hot,
    put_elements,
    put_slices,
    triangle,
)


def _index(n: Node, at: int, size: Dim) -> SSAValue:
    known = n.value(at).numbers
    if known is not None and size.is_static:
        return n.literal(checked(n, known, int(size)))
    if n.value(at).symbolic and all(map(is_natural, n.value(at).formulas())):
        return n.x(at)
    return from_front(n.b, n.x(at, INTEGERS), size)


def checked(n: Node, index: Array, size: int) -> Array:
    """Known numbers, counted from the front."""
    if index.dtype.kind not in "iu":
        raise n.error("has indices that are not int32 or int64")
    if ((index < -size) | (index >= size)).any():
        raise n.error(f"has an index outside of {-size}..{size - 1}")
    return np.where(index < 0, index + size, index)


def _gather(n: Node) -> SSAValue | Value:
    """Rows of X along an axis, by number; -1 is the last one."""
    return known_part(n, gathered(n, n.x(), n.axis(n.integer("axis", 0), len(n.dims()))))


def gathered(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """Rows of x by the numbers that input 1 holds."""
    dims, known = dims_of(x), n.value(1).numbers
    if known is not None and known.size == 1 and known.dtype.kind in "iu":
        at, size = int(known.reshape(-1)[0]), dims[axis]
        start = Dim.of(at) if at >= 0 else size + at
        if size.is_static:
            checked(n, known, int(size))
        # calls with fewer rows are refused, but for a row that may not be read at all
        if size.is_static or at in (0, -1) or not n.scope.model.branches:
            row = n.b.slice(x, axis, start, 1)
            return n.b.reshape(row, (*dims[:axis], *known.shape, *dims[axis + 1 :]))
    return n.b.gather(x, _index(n, 1, dims[axis]), axis)


def _fold_gather(n: Node, arrays: list[Array]) -> Array | None:
    x, index = arrays
    if index.dtype == object:
        return None
    axis = n.axis(n.integer("axis", 0), x.ndim)
    if index.size * prod(x.shape[:axis] + x.shape[axis + 1 :]) > MAX_FOLDED:
        return None
    return np.asarray(np.take(x, checked(n, index, x.shape[axis]), axis))


def _gather_elements(n: Node) -> SSAValue:
    """Y[i, j] = X[index[i, j], j] along axis 0, and so on for others.

    Refused: in a branch, open sizes of the index that may be larger than those of X.
    """
    axis = _elements_axis(n)
    return gather_elements(n.b, n.x(), _index(n, 1, n.dims()[axis]), axis)


def _fold_gather_elements(n: Node, arrays: list[Array]) -> Array | None:
    x, index = arrays
    if index.dtype == object or x.dtype.kind == "f":
        return None
    axis = _elements_axis(n)
    return x[_elements(index, checked(n, index, x.shape[axis]), axis)]


def _elements(index: Array, along: Array, axis: int) -> tuple[Array, ...]:
    """The places of elements, of which those along an axis are known."""
    places = [np.broadcast_to(i, index.shape) for i in np.ix_(*map(np.arange, index.shape))]
    places[axis] = along
    return tuple(places)


def _elements_axis(n: Node) -> int:
    """The axis; raises `CompileError` unless indices are of X's rank and, beside it, within X."""
    dims, shape = n.dims(), n.dims(1)
    axis = n.axis(n.integer("axis", 0), len(dims))
    shown = f"indices of shape {shape_text(shape)} for data {shape_text(dims)}"
    if len(shape) != len(dims):
        raise n.error(f"has {shown}")
    for at, (size, most) in enumerate(zip(shape, dims, strict=True)):
        if at != axis:
            unsure = f"{shown}, and {size} may be larger than {most}"
            _check_at_most(n, size, most, f"{shown} along axis {axis}", unsure)
    return axis


def _check_at_most(n: Node, size: Dim, most: Dim, shown: str, unsure: str) -> None:
    """Refuse calls for which a size would be larger than another.

    Raises:
        CompileError: it always is; or it may be, where what a call is refused for may not be read.
    """
    try:
        if not decide("le", size, most):
            raise n.error(f"has {shown}")
    except Undecided as error:
        if n.scope.model.branches:
            raise n.unsupported(f"has {unsure}", "--shape gives an input's sizes") from error
        n.b.require(most - size)


def _gather_nd(n: Node) -> SSAValue:
    """Y[i...] = X[index[i...]], the last axis of index being a place in X.

    Refused: places of an open number of axes.
    """
    b, dims, shape, batch = n.b, n.dims(), n.dims(1), n.integer("batch_dims", 0)
    depth = _depth(n, shape, len(dims) - batch)
    if not 0 <= batch < len(shape) or shape[:batch] != dims[:batch]:
        shapes = f"data {shape_text(dims)} and indices {shape_text(shape)}"
        raise n.error(f"attribute 'batch_dims' = {batch} for {shapes}")
    places = [b.iota(shape[:-1], axis, "i64") for axis in range(batch)]
    places += _places(n, dims[batch : batch + depth])
    lead, rest = dims[: batch + depth], dims[batch + depth :]
    return b.gather(b.reshape(n.x(), (product(lead), *rest)), flat_places(b, places, lead), 0)


def _fold_gather_nd(n: Node, arrays: list[Array]) -> Array | None:
    x, places = arrays
    if places.dtype == object or x.dtype.kind == "f" or n.integer("batch_dims", 0):
        return None
    depth = _depth(n, n.dims(1), x.ndim)
    if places.size * prod(x.shape[depth:]) > MAX_FOLDED:
        return None
    return x[tuple(np.moveaxis(_checked_places(n, places, list(x.shape[:depth])), -1, 0))]


def _places(n: Node, dims: Sequence[Dim]) -> list[SSAValue]:
    """Along axes of some sizes, the places that the last axis of input 1 holds, from the front."""
    b, shape, known = n.b, n.dims(1), n.value(1).numbers
    if known is not None and all(size.is_static for size in dims):
        axes = [checked(n, known[..., k], int(size)) for k, size in enumerate(dims)]
        return [n.literal(axis.astype(np.int64)) for axis in axes]
    index = b.cast(n.x(1, INTEGERS), "i64")
    parts = [b.slice(index, len(shape) - 1, k, 1) for k in range(len(dims))]
    flat = [b.reshape(part, shape[:-1]) for part in parts]
    return [from_front(b, part, size) for part, size in zip(flat, dims, strict=True)]


def _depth(n: Node, shape: Sequence[Dim], most: int) -> int:
    """How many axes the places have that input 1, of this shape, holds."""
    if not shape or (shape[-1].is_static and not 1 <= int(shape[-1]) <= most):
        shown = f"indices {shape_text(shape)} for data {shape_text(n.dims())}"
        raise n.error(f"has {shown}, of which {most} axes can be counted")
    if not shape[-1].is_static:
        what = f"has indices of shape {shape_text(shape)}, whose last size is open"
        raise n.unsupported(what, "--shape gives a size")
    return int(shape[-1])


def _one_hot(n: Node) -> SSAValue | Value:
    """The second of two values where the index is that of the place along an axis, else the first.

    Refused: a depth that is computed at run time, but in inference what `--max-iterations` bounds.
    """
    b, index, values = n.b, n.b.cast(n.x(0), "i64"), n.x(2)
    axis = n.axis(n.integer("axis", -1), len(n.dims()) + 1)
    off, on = (row(b, values, i) for i in (0, 1))
    computed = is_computed(n, 1, floats=True)
    number = bounded_number(n, b.reshape(b.cast(n.x(1), "i64"), ())) if computed else None
    depth, most = number or (n.size(1),) * 2
    hot = b.select(one_hot(b, from_front(b, index, depth), most, axis), on, off)
    return hot if number is None else Partial.counted(n.scope.value(n, 0, hot), axis, number[0])


def trilu(n: Node) -> SSAValue:
    """The upper or lower triangle of X's last two axes, zeros elsewhere.

    Refused: a k that is computed at run time.
    """
    if len(n.dims()) < 2:
        raise n.error(f"has data of shape {shape_text(n.dims())}, expected 2 axes or more")
    shift = n.size(1) if n.has(1) else Dim.of(0)
    shift = Dim.of(_diagonal(int(shift))) if shift.is_static else shift
    return triangle(n.b, n.x(), shift, n.flag("upper", 1))


def _diagonal(number: int) -> int:
    """The number of a diagonal as an int32, which is beyond any matrix where it is so."""
    most = LARGEST["i32"]
    return min(max(number, -most), most)


def _reverse_sequence(n: Node) -> SSAValue:
    """The first `length` rows of each sequence, last first.

    Refused: axes other than 0 and 1.
    """
    b, x = n.b, n.x()
    time, batch = n.integer("time_axis", 0), n.integer("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise n.unsupported(f"has the axes {time} and {batch}, only 0 and 1 are supported")
    lengths = b.cast(n.x(1, INTEGERS), "i32")
    swap = [1, 0, *range(2, len(n.dims()))]
    x = x if time == 0 else b.transpose(x, swap)
    turned = b.reverse_segments(x, lengths)
    return turned if time == 0 else b.transpose(turned, swap)


def _scatter_elements(n: Node) -> SSAValue:
    """X with elements replaced at known or computed places along an axis, or folded with others.
    Of several for one place the last one stays.

    Refused: in a branch, open sizes of the index that may be larger than those of X.
    """
    return scattered_elements(n, None)


def scattered_elements(n: Node, counted: SSAValue | None) -> SSAValue:
    """X with those of the elements for which bools say so, or with all of them."""
    axis, kind = _elements_axis(n), _reduction(n)
    _check_updates(n, n.dims(1))
    x, updates = _folded_values(n, kind)
    return put_elements(n.b, x, updates, _index(n, 1, n.dims()[axis]), axis, kind, counted)


def _scatter_nd(n: Node) -> SSAValue:
    """X with slices replaced at known or computed places, or folded with others. Of several for one
    place the last one stays.

    Refused: places of an open number of axes.
    """
    return scattered_rows(n, None)


def scattered_rows(n: Node, counted: SSAValue | None) -> SSAValue:
    """X with those of the slices for which bools say so, or with all of them."""
    dims, kind = n.dims(), _reduction(n)
    depth = _depth(n, n.dims(1), len(dims))
    lead, rest = dims[:depth], dims[depth:]
    _check_updates(n, [*n.dims(1)[:-1], *rest])
    places = _places(n, lead)
    x, updates = _folded_values(n, kind)
    return put_slices(n.b, x, updates, places, kind, counted)


def _tensor_scatter(n: Node) -> SSAValue:
    """X whose rows along an axis from write_indices[batch] on are replaced by updates; with the
    mode circular they go on at row 0 behind the last.

    Refused: in a branch, an update of an open size that may be larger than X's.
    """
    b, dims, rows = n.b, n.dims(), n.dims(1)
    axis = n.axis(n.integer("axis", -2), len(dims))
    circular = n.one_of("mode", ("linear", "circular"), "linear") == "circular"
    shown = f"an update of shape {shape_text(rows)} for data {shape_text(dims)} along axis {axis}"
    beside = (*dims[:axis], *rows[axis : axis + 1], *dims[axis + 1 :])
    if not axis or rows != beside:
        raise n.differ(rows, beside, f"has {shown}")
    _check_at_most(n, rows[axis], dims[axis], shown, f"{shown}, which may be longer")
    lead = (dims[0], rows[axis])
    batch, place = (b.iota(lead, at, "i64") for at in (0, 1))
    if n.has(2):
        if n.dims(2) != dims[:1]:
            what = f"has write_indices of shape {shape_text(n.dims(2))} for {dims[0]} rows"
            raise n.differ(n.dims(2), dims[:1], what)
        place = b.add(place, b.broadcast(b.cast(n.x(2, INTEGERS), "i64"), lead, [0]))
    if circular:
        place = modulo(b, place, b.size(dims[axis]))
    x, new = (move_axis(b, n.x(at), axis, 1) for at in (0, 1))
    return move_axis(b, put_slices(b, x, new, [batch, place]), 1, axis)


FOLDED = {"none": "", "add": "sum", "mul": "mul", "max": "max", "min": "min"}
"""Reductions of a scatter, and what folds them."""


def _reduction(n: Node) -> str:
    """How updates are folded; empty where they replace."""
    name = n.text("reduction", "none") if n.opset >= 16 else "none"
    if name not in FOLDED:
        raise n.unsupported(f"has the reduction {name[:40]!r}")
    if name != "none" and n.value(0).dtype in ("i1", "u64", "text"):
        raise n.unsupported(f"folds {TEXT[n.value(0).dtype]} by {name!r}")
    return FOLDED[name]


def _folded_values(n: Node, kind: str) -> list[SSAValue]:
    """X and the updates, as they are computed with where they are folded."""
    values = [n.x(), n.x(2)]
    return [n.b.cast(v, WIDE.get(dtype_of(v), dtype_of(v))) for v in values] if kind else values


def _check_updates(n: Node, dims: Sequence[Dim]) -> None:
    """Raise `CompileError` unless the updates of a scatter are of this shape."""
    if n.dims(2) != tuple(dims):
        shown = f"updates of shape {shape_text(n.dims(2))}"
        raise n.differ(n.dims(2), dims, f"has {shown}, expected {shape_text(dims)}")


def _checked_places(n: Node, places: Array, lead: list[int]) -> Array:
    """Known places in the first axes of a tensor, counted from the front."""
    axes = [checked(n, places[..., axis], size) for axis, size in enumerate(lead)]
    return np.stack(axes, -1)


def _fold_scatter_nd(n: Node, arrays: list[Array]) -> Array | None:
    x, places, updates = arrays
    if places.dtype == object:
        return None
    depth = _depth(n, n.dims(1), x.ndim)
    _check_updates(n, [*n.dims(1)[:-1], *n.dims()[depth:]])
    places = _checked_places(n, places, list(x.shape[:depth]))
    return _updated(n, x, tuple(np.moveaxis(places, -1, 0)), updates)


def _fold_scatter_elements(n: Node, arrays: list[Array]) -> Array | None:
    x, index, updates = arrays
    if index.dtype == object:
        return None
    axis = _elements_axis(n)
    _check_updates(n, n.dims(1))
    return _updated(n, x, _elements(index, checked(n, index, x.shape[axis]), axis), updates)


def _updated(n: Node, x: Array, places: tuple[Array, ...], updates: Array) -> Array | None:
    """Known numbers, some of them replaced."""
    if _reduction(n):
        return None
    both = x.dtype == object or updates.dtype == object
    updated = as_objects(x) if both else np.array(x)
    updated[places] = as_objects(updates) if both else updates
    return updated


def _eye_like(n: Node) -> SSAValue:
    """1 on a diagonal of a matrix like X, else 0.

    Refused: element types other than floats, int32, int64, bool.
    """
    b, dims = n.b, n.dims()
    if len(dims) != 2:
        raise n.error(f"has data of shape {shape_text(dims)}, expected 2 axes")
    dtype = dtype_name(n.integer("dtype")) if n.given("dtype") else n.value(0).dtype
    edge = b.sub(b.iota(dims, 1, "i32"), b.iota(dims, 0, "i32"))
    diagonal = b.fill(_diagonal(n.integer("k", 0)), (), "i32")
    on_diagonal = b.compare("eq", edge, diagonal)
    if dtype not in STORED:
        raise n.unsupported(f"makes {dtype}, which is not supported")
    return b.cast(on_diagonal, dtype)


def reversed_along(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """x backwards along an axis."""
    size = dims_of(x)[axis]
    return strided(n.b, x, axis, size - 1, size, -1)


OPERATORS: dict[str, OnnxOperator] = {
    "Gather": OnnxOperator(_gather, _fold_gather),
    "GatherElements": OnnxOperator(_gather_elements, _fold_gather_elements),
    "GatherND": OnnxOperator(_gather_nd, _fold_gather_nd),
    "ScatterElements": OnnxOperator(_scatter_elements, _fold_scatter_elements),
    "Scatter": OnnxOperator(_scatter_elements, _fold_scatter_elements),
    "ScatterND": OnnxOperator(_scatter_nd, _fold_scatter_nd),
    "TensorScatter": OnnxOperator(_tensor_scatter),
    "OneHot": OnnxOperator(_one_hot),
    "Trilu": OnnxOperator(trilu),
    "ReverseSequence": OnnxOperator(_reverse_sequence),
    "EyeLike": OnnxOperator(_eye_like),
}
