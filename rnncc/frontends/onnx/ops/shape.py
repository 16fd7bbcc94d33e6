"""Operators that arrange elements anew, and those that tell shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import gcd, prod

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import counted_shape, repeated
from rnncc.frontends.onnx.counted.decided import count_decided, decided_sizes, is_undecided, settled
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.sizes import may_equal
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.values import Array, Value, as_objects, size_value, sizes_value
from rnncc.ir.dims import MOST_DIVISOR, Dim, Excess, product
from rnncc.ir.types import dims_of, shape_text

MAX_MADE = 1 << 22
"""How many known numbers a known tensor may be expanded to."""


def _shape(n: Node) -> Value:
    """The sizes of X, from axis `start` up to `end`."""
    dims = n.dims()
    start, end = n.integer("start", 0), n.integer("end", len(dims))
    n.scope.model.shapes.update(dims)
    return sizes_value(dims[slice(start, end)])


def _size(n: Node) -> Value:
    """The number of X's elements."""
    return size_value(product(n.dims()))


def _reshape(n: Node) -> SSAValue:
    """X's elements in another shape; 0 leaves a size as it is, -1 stands for what is left.

    Refused: a shape that is computed at run time.
    """
    x, old = n.x(), n.dims()
    new = new_shape(n, old, n.sizes(1), n.flag("allowzero", 0))
    count = product(new)
    if count.is_static or product(old).is_static or count == product(old):
        return n.b.reshape(x, new)
    if is_undecided(product(old)) or is_undecided(count):
        what = f"cannot bring {shape_text(old)} into the shape {shape_text(new)}"
        raise n.differ([count], [product(old)], what)
    # a number of elements that is rounded up: a slice of so many is refused unless it divides;
    # or one that is equal for some sizes alone: of fewer elements the rest would be lost
    n.b.require(count - product(old))
    return n.b.reshape(n.b.slice(n.b.reshape(x, (product(old),)), 0, 0, count), new)


def new_shape(n: Node, old: tuple[Dim, ...], requested: list[Dim], zero_is_size: bool) -> list[Dim]:
    """The shape that a reshape asks for.

    What -1 stands for is rounded up where it depends on open sizes whether it is an integer.
    """
    shape = list(requested)
    for axis, size in enumerate(shape):
        if size == 0 and not zero_is_size:
            if axis >= len(old):
                raise n.error(f"copies the size of axis {axis}, which X does not have")
            shape[axis] = old[axis]
    if any(d.is_static and int(d) < -1 for d in shape):
        raise n.error(f"asks for the shape {shape_text(shape)}")
    free = [axis for axis, size in enumerate(shape) if size == -1]
    if len(free) > 1:
        raise n.error(f"asks for the shape {shape_text(shape)}", "-1 may stand there once")
    if free:
        rest = product(d for axis, d in enumerate(shape) if axis != free[0])
        left = Dim.of(0) if rest == 0 else product(old).divide(rest)
        if left is None:
            left = _rounded_up(n, old, rest, shape)
        shape[free[0]] = left
    return shape


def _rounded_up(n: Node, old: tuple[Dim, ...], rest: Dim, requested: list[Dim]) -> Dim:
    """The elements of an open shape by a number that may divide them, or by its product with sizes.

    Not in a branch that may not be taken: calls would be refused for what they do not do.
    """
    differ = _axes_that_differ(old, requested)
    elements, number = _of_learnt_sizes(n, product(old), differ), _multiple(rest)
    sides = _side_of_maximum(elements, rest)
    sizes = rest.divide(number)
    parts = None if sizes is None else elements.divide(sizes)
    divides = number <= MOST_DIVISOR and not elements.is_static
    if sides or parts is None or not divides or n.scope.model.branches:
        what = f"cannot bring {shape_text(old)} into the shape {shape_text(requested)}"
        raise n.error(what, differ=sides or differ)
    return parts.over(number)


def _of_learnt_sizes(n: Node, elements: Dim, differ: Sequence[tuple[Dim, Dim]]) -> Dim:
    """A number of elements by the sizes that some of its factors were learnt to be."""
    same = n.scope.model.known.same
    for size, factor in differ:
        rest = elements.divide(factor)
        if rest is not None and ((size, factor) in same or (factor, size) in same):
            elements = rest * size
    return elements


def _is_open(size: Dim) -> bool:
    return not size.is_static


def _side_of_maximum(elements: Dim, divisor: Dim) -> list[tuple[Dim, Dim]]:
    """A maximum and the side of it that is what makes a number of elements divide by another."""
    for atom in sorted(elements.atoms):
        for side in (atom.inner, Dim.of(0)) if isinstance(atom, Excess) else ():
            if elements.substitute({atom: side}).divide(divisor) is not None:
                return [(Dim([((atom,), 1)]), side)]
    return []


def _axes_that_differ(old: Sequence[Dim], requested: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Sizes that are to be kept, by formulas of others: axis by axis where shapes have as many,
    else those in front, such as a batch and its steps, if all behind them are known: with as many
    of these as make both the same multiple, such as three beams of each of a batch."""
    if len(old) != len(requested):
        fronts = [list(takewhile(_is_open, shape)) for shape in (requested, old)]
        behind = (*requested[len(fronts[0]) :], *old[len(fronts[1]) :])
        if not all(fronts) or any(map(_is_open, behind)):
            return []
        front, first = product(fronts[0]), product(fronts[1])
        fronts_of_old = (product(old[:axis]) for axis in range(len(fronts[1]), len(old) + 1))
        alike = (one for one in fronts_of_old if _multiple(one) == _multiple(front))
        return [(front, next(alike, first))]
    return [(a, b) for a, b in zip(old, requested, strict=True) if b not in (-1, a)]


def _multiple(size: Dim) -> int:
    """The largest number that a formula is a multiple of, by its form."""
    return gcd(*(factor for _, factor in size.terms))


def _fold_reshape(n: Node, arrays: list[Array]) -> Array | None:
    shape = new_shape(n, n.dims(), n.sizes(1), n.flag("allowzero", 0))
    if not all(d.is_static for d in shape):
        return None
    if product(shape) != arrays[0].size:
        raise n.error(f"cannot bring {shape_text(n.dims())} into the shape {shape_text(shape)}")
    return arrays[0].reshape([int(d) for d in shape])


def _flatten(n: Node) -> SSAValue:
    """X as a matrix: the axes before `axis` are its rows."""
    return n.b.reshape(n.x(), flat_sizes(n, n.dims())[1])


def flat_sizes(n: Node, dims: Sequence[Dim]) -> tuple[int, list[Dim]]:
    """The first axis of a matrix's columns, which may be behind all, and the matrix's sizes."""
    axis = n.integer("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        raise n.error(f"axis {axis} of a tensor of rank {len(dims)}")
    axis = axis + len(dims) if axis < 0 else axis
    return axis, [product(dims[:axis]), product(dims[axis:])]


def _transpose(n: Node) -> SSAValue:
    """Y's axis i is X's axis perm[i]; without `perm` the axes are reversed."""
    return n.b.transpose(n.x(), _perm(n))


def _perm(n: Node) -> list[int]:
    rank = len(n.dims())
    perm = n.integers("perm") if n.given("perm") else list(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise n.error(f"attribute 'perm' = {perm} does not permute {rank} axes")
    return perm


def axes_input(n: Node) -> list[int] | None:
    """The axes in the attribute up to opset 12, in an input from then on."""
    if n.given("axes"):
        return n.integers("axes")
    return n.known_integers(1) if n.has(1) else None


def _squeezed(n: Node) -> list[Dim]:
    dims, axes = n.dims(), axes_input(n)
    # an empty attribute is one that was not set, as keras2onnx writes it
    if axes is None or (not axes and n.given("axes")):
        unsure = [d for d in dims if not d.is_static and may_equal(d, 1)]
        if unsure and n.scope.model.branches:
            what = f"drops axes of size 1 of {shape_text(dims)}, and {unsure[0]} may be 1"
            raise n.unsupported(what, "--shape gives a size, the input axes names the axes")
        for size in unsure:
            n.b.require(size - 2)  # of 1 the result would be of another rank
        return [d for d in dims if d != 1]
    if not axes:
        raise n.unsupported("names no axes to drop, which ONNX Runtime takes for all of size 1")
    removed = {n.axis(axis, len(dims)) for axis in axes}
    for axis in sorted(removed):
        if not may_equal(dims[axis], 1):
            raise n.error(f"drops axis {axis} of {shape_text(dims)}, whose size is not 1")
        if dims[axis] != 1:
            what = f"drops axis {axis} of {shape_text(dims)}, whose size may be another than 1"
            raise n.differ([dims[axis]], [Dim.of(1)], what)
    return [d for axis, d in enumerate(dims) if axis not in removed]


def _unsqueezed(n: Node) -> list[Dim]:
    dims, axes = n.dims(), axes_input(n) or []
    rank = len(dims) + len(axes)
    added, left = n.axes(axes, rank), list(dims)
    return [Dim.of(1) if axis in added else left.pop(0) for axis in range(rank)]


def _squeeze(n: Node) -> SSAValue:
    """X without some axes of size 1, or without all of them.

    Refused: axes that are computed at run time. Where axes are not named, calls for which an open
    size is 1; in a branch that may not be taken, the model.
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
    axis = _check_concat(n)
    kept = [v for v in values if dims_of(v)[axis : axis + 1] != (0,)] or values[:1]
    return n.b.concat(kept, axis)


def _fold_concat(n: Node, arrays: list[Array]) -> Array:
    axis = _check_concat(n)
    if any(a.dtype == object for a in arrays):
        arrays = [as_objects(a) for a in arrays]
    return np.concatenate(arrays, axis)


def _check_concat(n: Node) -> int:
    """The axis; raises `CompileError` unless the inputs agree in all others."""
    first = n.dims()
    axis = n.axis(n.integer("axis", 1), len(first))
    for index in range(1, len(n.inputs)):
        dims = n.dims(index)
        one, other = ([*d[:axis], *d[axis + 1 :]] for d in (first, dims))
        if one != other or len(dims) != len(first):
            shapes = f"{shape_text(first)} and {shape_text(dims)}"
            what = f"has inputs of shapes {shapes}, which differ beside axis {axis}"
            raise n.differ(one, other, what)
    return axis


def _expand(n: Node) -> SSAValue | Value:
    """X repeated to a shape, with NumPy's broadcasting.

    Refused: a shape that is computed at run time, but of sizes that must be those of something
    else, or one that counts what is true in a tensor of bools.
    """
    if (counted := counted_shape(n, 1)) and (rows := repeated(n, n.x(), counted)):
        return rows
    decided = decided_sizes(n, 1)
    dims, requested = n.dims(), n.sizes(1) if decided is None else decided
    rank = max(len(dims), len(requested))
    old = [Dim.of(1)] * (rank - len(dims)) + list(dims)
    new = [Dim.of(1)] * (rank - len(requested)) + requested
    shape = [b if a == 1 else a for a, b in zip(old, new, strict=True)]
    for a, b in zip(shape, new, strict=True):
        if b not in (1, a) or (b.is_static and int(b) < 0):
            what = f"cannot expand {shape_text(dims)} to {shape_text(requested)}"
            raise n.differ([a], [b], what)
    x = n.x() if decided is None else settled(n, 1, n.x())
    return n.b.broadcast(x, shape, range(rank - len(dims), rank))


def _fold_expand(n: Node, arrays: list[Array]) -> Array | None:
    shape = n.sizes(1)
    if not all(d.is_static for d in shape) or prod(int(d) for d in shape) > MAX_MADE:
        return None
    if any(int(d) < 0 for d in shape) or not _broadcast(arrays[0].shape, shape):
        raise n.error(f"cannot expand {shape_text(n.dims())} to {shape_text(shape)}")
    wide = np.broadcast_shapes(arrays[0].shape, tuple(int(d) for d in shape))
    return np.broadcast_to(arrays[0], wide)


def _broadcast(old: Sequence[int], new: Sequence[Dim]) -> bool:
    """Whether two shapes do, counted from their last axes."""
    pairs = zip(reversed(old), reversed(new), strict=False)
    return all(1 in (a, b) or a == b for a, b in pairs)


def _tile(n: Node) -> SSAValue | Value:
    """X repeated along each axis.

    Refused: repeats that are computed at run time, but one that counts what is true in a tensor of
    bools, or rows.
    """
    counted = counted_shape(n, 1)
    if counted is not None and len(counted.dims) == len(n.dims()):
        n.inputs[1] = Value.of(np.array(counted.dims, object))
        rows = n.b.mul(counted.count, n.b.size(n.dims()[counted.axis], "i64"))
        return Partial.counted(n.built_as("Tile"), counted.axis, rows)
    count_decided(n, 1)
    x, dims, repeats = n.x(), n.dims(), n.sizes(1)
    _check_repeats(n, repeats)
    wide = [d for pair in zip(repeats, dims, strict=True) for d in pair]
    x = n.b.broadcast(x, wide, range(1, len(wide), 2))
    return n.b.reshape(x, [r * d for r, d in zip(repeats, dims, strict=True)])


def _check_repeats(n: Node, repeats: list[Dim]) -> None:
    if len(repeats) != len(n.dims()):
        raise n.error(f"has {len(repeats)} repeats for a tensor of rank {len(n.dims())}")
    if any(d.is_static and int(d) < 0 for d in repeats):
        raise n.error(f"has the repeats {', '.join(str(d) for d in repeats)}")


def _fold_tile(n: Node, arrays: list[Array]) -> Array | None:
    repeats = n.sizes(1)
    _check_repeats(n, repeats)
    if not all(d.is_static for d in repeats):
        return None
    counts = [int(d) for d in repeats]
    return None if prod(counts) * arrays[0].size > MAX_MADE else np.tile(arrays[0], counts)


def _in_blocks(n: Node) -> tuple[tuple[Dim, ...], int]:
    """The sizes of four axes, and how many elements a block has along one of space."""
    dims, size = n.dims(), n.integer("blocksize")
    if len(dims) != 4 or size < 1:
        raise n.error(f"has data of shape {shape_text(dims)} in blocks of {size}")
    return dims, size


def _depth_to_space(n: Node) -> SSAValue:
    """Blocks of channels become blocks of space.

    Refused: tensors that have not four axes.
    """
    (batch, c, h, w), size = _in_blocks(n)
    channels = c.divide(size * size)
    if channels is None:
        raise n.error(f"{c} channels are no blocks of {size} x {size}")
    if n.one_of("mode", ("DCR", "CRD"), "DCR") == "DCR":
        apart, order = (batch, size, size, channels, h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, order = (batch, channels, size, size, h, w), (0, 1, 4, 2, 5, 3)
    turned = n.b.transpose(n.b.reshape(n.x(), apart), order)
    return n.b.reshape(turned, (batch, channels, h * size, w * size))


def _space_to_depth(n: Node) -> SSAValue:
    """Blocks of space become blocks of channels.

    Refused: tensors that have not four axes.
    """
    (batch, c, h, w), size = _in_blocks(n)
    high, wide = h.divide(size), w.divide(size)
    if high is None or wide is None:
        raise n.error(f"{h} x {w} is not made of blocks of {size} x {size}")
    apart = n.b.reshape(n.x(), (batch, c, high, size, wide, size))
    crd = n.given("mode") and n.one_of("mode", ("DCR", "CRD")) == "CRD"
    order = (0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)
    return n.b.reshape(n.b.transpose(apart, order), (batch, c * size * size, high, wide))


OPERATORS: dict[str, OnnxOperator] = {
    "Shape": OnnxOperator(_shape),
    "Size": OnnxOperator(_size),
    "Reshape": OnnxOperator(_reshape, _fold_reshape),
    "Flatten": OnnxOperator(_flatten),
    "Transpose": OnnxOperator(_transpose, lambda n, arrays: np.transpose(arrays[0], _perm(n))),
    "Squeeze": OnnxOperator(
        _squeeze, lambda n, arrays: arrays[0].reshape([int(d) for d in _squeezed(n)])
    ),
    "Unsqueeze": OnnxOperator(
        _unsqueeze, lambda n, arrays: arrays[0].reshape([int(d) for d in _unsqueezed(n)])
    ),
    "Concat": OnnxOperator(_concat, _fold_concat),
    "Expand": OnnxOperator(_expand, _fold_expand),
    "Tile": OnnxOperator(_tile, _fold_tile),
    "DepthToSpace": OnnxOperator(_depth_to_space),
    "SpaceToDepth": OnnxOperator(_space_to_depth),
}
