"""Operators that arrange elements anew, and those that tell shapes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.node import Node, Operator
from rnncc.frontends.onnx.values import Array, Value, as_objects, sizes_value
from rnncc.ir.composites import strided
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of, shape_text

HUGE = 1 << 31
"""From here on a bound of a slice means the end."""
MAX_MADE = 1 << 22
"""How many known numbers a known tensor may be expanded to."""


def _shape(n: Node) -> Value:
    """The sizes of X, from axis `start` up to `end`."""
    dims = n.dims()
    start, end = n.integer("start", 0), n.integer("end", len(dims))
    return sizes_value(dims[slice(start, end)])


def _size(n: Node) -> Value:
    """The number of X's elements."""
    array = np.empty((), object)
    array[()] = product(n.dims())
    return Value.of(array)


def _reshape(n: Node) -> SSAValue:
    """X's elements in another shape; 0 leaves a size as it is, -1 stands for what is left.

    Refused: a shape that is computed at run time.
    """
    return n.b.reshape(n.x(), new_shape(n, n.dims(), n.sizes(1), bool(n.integer("allowzero", 0))))


def new_shape(n: Node, old: tuple[Dim, ...], wanted: list[Dim], zero_is_size: bool) -> list[Dim]:
    """The shape that a reshape asks for."""
    made = list(wanted)
    for axis, size in enumerate(made):
        if size == 0 and not zero_is_size:
            if axis >= len(old):
                raise n.error(f"copies the size of axis {axis}, which X does not have")
            made[axis] = old[axis]
    if any(d.is_static and int(d) < -1 for d in made):
        raise n.error(f"asks for the shape {shape_text(made)}")
    free = [axis for axis, size in enumerate(made) if size == -1]
    if len(free) > 1:
        raise n.error(f"asks for the shape {shape_text(made)}", "-1 may stand there once")
    if free:
        rest = product(d for axis, d in enumerate(made) if axis != free[0])
        left = Dim.of(0) if rest == 0 else product(old).divide(rest)
        if left is None:
            raise n.error(f"cannot bring {shape_text(old)} into the shape {shape_text(made)}")
        made[free[0]] = left
    return made


def _fold_reshape(n: Node, arrays: list[Array]) -> Array | None:
    shape = new_shape(n, n.dims(), n.sizes(1), bool(n.integer("allowzero", 0)))
    return arrays[0].reshape([int(d) for d in shape]) if all(d.is_static for d in shape) else None


def _flatten(n: Node) -> SSAValue:
    """X as a matrix: the axes before `axis` are its rows."""
    dims = n.dims()
    axis = n.integer("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        raise n.error(f"axis {axis} of a tensor of rank {len(dims)}")
    axis = axis + len(dims) if axis < 0 else axis
    return n.b.reshape(n.x(), (product(dims[:axis]), product(dims[axis:])))


def _transpose(n: Node) -> SSAValue:
    """Y's axis i is X's axis perm[i]; without `perm` the axes are reversed."""
    return n.b.transpose(n.x(), _perm(n))


def _perm(n: Node) -> list[int]:
    rank = len(n.dims())
    perm = n.integers("perm") if n.given("perm") else list(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise n.error(f"attribute 'perm' = {perm} does not permute {rank} axes")
    return perm


def _axes_input(n: Node, index: int = 1) -> list[int] | None:
    """The axes in the attribute up to opset 12, in an input from then on."""
    if n.given("axes"):
        return n.integers("axes")
    return n.whole(index) if n.has(index) else None


def _squeezed(n: Node) -> list[Dim]:
    dims, axes = n.dims(), _axes_input(n)
    if axes is None:
        return [d for d in dims if d != 1]
    gone = n.axes(axes, len(dims))
    for axis in gone:
        if dims[axis] != 1:
            raise n.error(f"drops axis {axis} of {shape_text(dims)}, whose size is not 1")
    return [d for axis, d in enumerate(dims) if axis not in gone]


def _unsqueezed(n: Node) -> list[Dim]:
    dims, axes = n.dims(), _axes_input(n) or []
    rank = len(dims) + len(axes)
    added, left = n.axes(axes, rank), list(dims)
    return [Dim.of(1) if axis in added else left.pop(0) for axis in range(rank)]


def _squeeze(n: Node) -> SSAValue:
    """X without some axes of size 1, or without all of them.

    Refused: axes that are computed at run time.
    """
    return n.b.reshape(n.x(), _squeezed(n))


def _unsqueeze(n: Node) -> SSAValue:
    """X with axes of size 1 put in.

    Refused: axes that are computed at run time.
    """
    return n.b.reshape(n.x(), _unsqueezed(n))


def _concat(n: Node) -> SSAValue:
    """The inputs one after another along an axis."""
    values = [n.x(i) for i in range(len(n.inputs))]
    axis = n.axis(n.integer("axis", 1), len(n.dims()))
    kept = [v for v in values if dims_of(v)[axis : axis + 1] != (0,)] or values[:1]
    return n.b.concat(kept, axis)


def _fold_concat(n: Node, arrays: list[Array]) -> Array:
    if any(a.dtype == object for a in arrays):
        arrays = [as_objects(a) for a in arrays]
    return np.concatenate(arrays, n.integer("axis", 1))


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
        exact = total.divide(count)
        if exact is None and not total.is_static:
            raise n.unsupported(f"splits {total} into {count} parts", "--shape gives a size")
        each = exact if exact is not None else Dim.of(-(-int(total) // count))
        parts = [each] * (count - 1) + [total - each * (count - 1)]
    if sum(parts, Dim.of(0)) != total or any(d.is_static and int(d) < 0 for d in parts):
        raise n.error(f"splits {total} into {', '.join(str(p) for p in parts)}")
    if len(parts) < len(n.op.output):
        raise n.error(f"has {len(n.op.output)} outputs for {len(parts)} parts")
    return axis, parts


def _split(n: Node) -> list[SSAValue]:
    """X cut along an axis, into equal parts or parts of given sizes.

    Refused: sizes that are computed at run time.
    """
    axis, parts = _split_sizes(n)
    x, start, made = n.x(), Dim.of(0), list[SSAValue]()
    for size in parts:
        made.append(n.b.slice(x, axis, start, size))
        start = start + size
    return made


def _fold_split(n: Node, arrays: list[Array]) -> list[Array] | None:
    axis, parts = _split_sizes(n)
    if not all(p.is_static for p in parts):
        return None
    return np.split(arrays[0], np.cumsum([int(p) for p in parts])[:-1], axis)


def _bounds(n: Node) -> list[tuple[int, Dim, Dim, int]]:
    """Of each axis that is cut: axis, start, number of elements, step."""
    dims = n.dims()
    if n.opset < 10:
        starts, ends = ([Dim.of(v) for v in n.integers(k)] for k in ("starts", "ends"))
        axes = n.integers("axes") if n.given("axes") else list(range(len(starts)))
        steps = [1] * len(starts)
    else:
        starts, ends = n.sizes(1), n.sizes(2)
        axes = n.whole(3) if n.has(3) else list(range(len(starts)))
        steps = n.whole(4) if n.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise n.error("has starts, ends, axes and steps of several lengths")
    found = list[tuple[int, Dim, Dim, int]]()
    axes = n.axes(axes, len(dims))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        found.append((axis, *_cut(n, dims[axis], start, end, step)))
    return found


def _cut(n: Node, size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim, int]:
    """Where a slice of an axis starts, how many elements it has, and its step."""
    if step == 0:
        raise n.error("has the step 0")
    if all(d.is_static for d in (size, start, end)):
        first, last, _ = slice(*_as_python(int(start), int(end), step)).indices(int(size))
        return Dim.of(first), Dim.of(len(range(first, last, step))), step
    if step < 0:
        whole = start == -1 or (start.is_static and int(start) >= HUGE)
        if step == -1 and whole and end.is_static and int(end) <= -HUGE:
            return size - 1, size, -1
        raise n.unsupported(f"goes backwards through an axis of {size}", "--shape gives a size")
    first, last = _place(n, start, size, False), _place(n, end, size, True)
    count = last - first
    if step > 1:
        whole = (count + (step - 1)).divide(step) if count.is_static else count.divide(step)
        if whole is None:
            raise n.unsupported(f"takes every {step}th of {count}", "--shape gives a size")
        count = whole
    if count.is_static and int(count) < 0:
        count = Dim.of(0)
    return first, count, step


def _as_python(start: int, end: int, step: int) -> tuple[int, int | None, int]:
    """An end before the beginning, of a slice backwards, is None in Python."""
    return start, (None if step < 0 and end <= -HUGE else end), step


def _place(n: Node, at: Dim, size: Dim, is_end: bool) -> Dim:
    """A bound within an axis; one that counts from the end, or lies behind it.

    An axis of open size has at least one element.
    """
    if at.is_static and int(at) >= HUGE:
        return size
    if at.is_static and int(at) < 0:
        return Dim.of(0) if int(at) <= -HUGE else size + at
    if size.is_static and at.is_static:
        return Dim.of(min(int(at), int(size)))
    over = at - size
    if over.is_static and int(over) >= 0:
        return size
    if at.is_static and int(at) > 1 and is_end:
        what = f"ends at {at} on an axis of {size}, which may be shorter"
        raise n.unsupported(what, "--shape gives a size")
    return at


def _slice(n: Node) -> SSAValue:
    """Elements of X from starts up to ends, in steps, along some axes.

    Refused: bounds that are computed at run time; steps other than 1 that do not divide an open
    size.
    """
    x = n.x()
    for axis, start, count, step in _bounds(n):
        x = strided(n.b, x, axis, start if count != 0 else 0, count, step)
    return x


def _fold_slice(n: Node, arrays: list[Array]) -> Array:
    index: list[Any] = [slice(None)] * arrays[0].ndim
    for axis, start, count, step in _bounds(n):
        index[axis] = range(int(start), int(start) + int(count) * step, step)
    found = arrays[0]
    for axis, chosen in enumerate(index):
        if isinstance(chosen, range):
            found = np.take(found, np.array(chosen, np.int64), axis)
    return found


def _expand(n: Node) -> SSAValue | Value:
    """X repeated to a shape, with NumPy's broadcasting.

    Refused: a shape that is computed at run time.
    """
    dims, wanted = n.dims(), n.sizes(1)
    rank = max(len(dims), len(wanted))
    old = [Dim.of(1)] * (rank - len(dims)) + list(dims)
    new = [Dim.of(1)] * (rank - len(wanted)) + wanted
    made = [b if a == 1 else a for a, b in zip(old, new, strict=True)]
    for a, b in zip(made, new, strict=True):
        if b not in (1, a):
            raise n.error(f"cannot expand {shape_text(dims)} to {shape_text(wanted)}")
    return n.b.broadcast(n.x(), made, range(rank - len(dims), rank))


def _fold_expand(n: Node, arrays: list[Array]) -> Array | None:
    shape = n.sizes(1)
    if not all(d.is_static for d in shape) or prod(int(d) for d in shape) > MAX_MADE:
        return None
    wide = np.broadcast_shapes(arrays[0].shape, tuple(int(d) for d in shape))
    return np.broadcast_to(arrays[0], wide)


def _tile(n: Node) -> SSAValue:
    """X repeated along each axis.

    Refused: repeats that are computed at run time.
    """
    x, dims, repeats = n.x(), n.dims(), n.sizes(1)
    if len(repeats) != len(dims):
        raise n.error(f"has {len(repeats)} repeats for a tensor of rank {len(dims)}")
    wide = [d for pair in zip(repeats, dims, strict=True) for d in pair]
    x = n.b.broadcast(x, wide, range(1, len(wide), 2))
    return n.b.reshape(x, [r * d for r, d in zip(repeats, dims, strict=True)])


def _fold_tile(n: Node, arrays: list[Array]) -> Array | None:
    repeats = n.sizes(1)
    if not all(d.is_static for d in repeats):
        return None
    counts = [int(d) for d in repeats]
    return None if prod(counts) * arrays[0].size > MAX_MADE else np.tile(arrays[0], counts)


def _pad(n: Node) -> SSAValue:
    """X with more elements around it: a constant, or by the modes edge, reflect and wrap.

    Refused: pads that are computed at run time, or negative with a mode other than constant; a fill
    value that is computed at run time.
    """
    x, dims = n.x(), n.dims()
    if n.opset < 11:
        amounts = [Dim.of(v) for v in n.integers("pads")]
        number = n.real("value", 0.0)
    else:
        amounts = n.sizes(1)
        number = n.scalar(2) if n.has(2) else 0
    axes = n.axes(n.whole(3), len(dims)) if n.has(3) else list(range(len(dims)))
    if len(amounts) != 2 * len(axes):
        raise n.error(f"has {len(amounts)} pads for {len(axes)} axes")
    mode = n.one_of("mode", ("constant", "edge", "reflect", "wrap"), "constant")
    for i, axis in enumerate(axes):
        x = padded(n, x, axis, amounts[i], amounts[i + len(axes)], mode, number)
    return x


def padded(
    n: Node, x: SSAValue, axis: int, before: Dim, behind: Dim, mode: str, number: float
) -> SSAValue:
    """x with elements put before and behind it along an axis, or cut off where that is negative."""
    b = n.b
    cut = [-int(d) if d.is_static and int(d) < 0 else 0 for d in (before, behind)]
    if any(cut):
        size = dims_of(x)[axis] - sum(cut)
        if size.is_static and int(size) < 0:
            raise n.error(f"cuts {sum(cut)} elements off an axis of {dims_of(x)[axis]}")
        x = b.slice(x, axis, cut[0], size)
        before, behind = (Dim.of(0) if c else d for c, d in zip(cut, (before, behind), strict=True))
    if before == 0 and behind == 0:
        return x
    size = dims_of(x)[axis]
    if mode == "constant":
        return b.pad(x, axis, before, before + size + behind, number)
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


def _depth_to_space(n: Node) -> SSAValue:
    """Blocks of channels become blocks of space.

    Refused: tensors that have not four axes.
    """
    x, dims, size = n.x(), n.dims(), n.integer("blocksize")
    if len(dims) != 4 or size < 1:
        raise n.error(f"of a tensor of shape {shape_text(dims)} with blocks of {size}")
    batch, c, h, w = dims
    channels = c.divide(size * size)
    if channels is None:
        raise n.error(f"{c} channels are no blocks of {size} x {size}")
    if n.one_of("mode", ("DCR", "CRD"), "DCR") == "DCR":
        apart, order = (batch, size, size, channels, h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, order = (batch, channels, size, size, h, w), (0, 1, 4, 2, 5, 3)
    return n.b.reshape(
        n.b.transpose(n.b.reshape(x, apart), order), (batch, channels, h * size, w * size)
    )


def _space_to_depth(n: Node) -> SSAValue:
    """Blocks of space become blocks of channels.

    Refused: tensors that have not four axes.
    """
    x, dims, size = n.x(), n.dims(), n.integer("blocksize")
    if len(dims) != 4 or size < 1:
        raise n.error(f"of a tensor of shape {shape_text(dims)} with blocks of {size}")
    batch, c, h, w = dims
    high, wide = h.divide(size), w.divide(size)
    if high is None or wide is None:
        raise n.error(f"{h} x {w} is not made of blocks of {size} x {size}")
    apart = n.b.reshape(x, (batch, c, high, size, wide, size))
    crd = n.given("mode") and n.one_of("mode", ("DCR", "CRD")) == "CRD"
    order = (0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)
    return n.b.reshape(n.b.transpose(apart, order), (batch, c * size * size, high, wide))


def of_dtype(value: SSAValue) -> str:
    """The element type."""
    return dtype_of(value)


OPERATORS: dict[str, Operator] = {
    "Shape": Operator(_shape),
    "Size": Operator(_size),
    "Reshape": Operator(_reshape, _fold_reshape),
    "Flatten": Operator(_flatten),
    "Transpose": Operator(_transpose, lambda n, arrays: np.transpose(arrays[0], _perm(n))),
    "Squeeze": Operator(
        _squeeze, lambda n, arrays: arrays[0].reshape([int(d) for d in _squeezed(n)])
    ),
    "Unsqueeze": Operator(
        _unsqueeze, lambda n, arrays: arrays[0].reshape([int(d) for d in _unsqueezed(n)])
    ),
    "Concat": Operator(_concat, _fold_concat),
    "Split": Operator(_split, _fold_split),
    "Slice": Operator(_slice, _fold_slice),
    "Expand": Operator(_expand, _fold_expand),
    "Tile": Operator(_tile, _fold_tile),
    "Pad": Operator(_pad),
    "DepthToSpace": Operator(_depth_to_space),
    "SpaceToDepth": Operator(_space_to_depth),
}
