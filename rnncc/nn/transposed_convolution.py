"""Transposed convolutions: windows of results that are laid over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.windows import overlap_add
from rnncc.ir.types import dims_of
from rnncc.nn.axes import move_axis
from rnncc.nn.convolution import (
    MAX_GROUPS,
    channels_first,
    channels_last,
    convolution,
    with_bias,
)
from rnncc.nn.windows import Window, windowed

MAX_TAPS = 1024
"""Along an axis: one shifted tensor is added up a tap, and compile time grows with them."""
VECTOR = 16
"""Units of a phase from which on a product of its own gains more than laying windows over each
other costs."""


def has_too_many_groups(weights: Sequence[Dim], groups: int) -> bool:
    """Whether more groups than `MAX_GROUPS` would be a product each.

    Args:
        weights: their sizes, [C, M / groups, taps...].
    """
    return groups > MAX_GROUPS and _are_shared(weights, groups)


def transposed_convolution(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
    windows: Sequence[Window],
    sizes: Sequence[tuple[Dim, Dim | int]],
    groups: int = 1,
) -> SSAValue:
    """The opposite of a convolution: each element times weights is a window, laid over each other.

    Args:
        x: [N, C, size of each axis...].
        weights: [C, M / groups, taps of each axis...].
        bias: [M], or None.
        windows: of each axis; what they say of pads does not count.
        sizes: of each axis of the result its size, and how much is cut off in front of it.
    Returns:
        [N, M, sizes...].
    """
    if _are_phases(windows, dims_of(weights), groups):
        y = _by_phases(b, x, weights, windows, groups)
        for axis, (size, before) in enumerate(sizes, 1):
            y = _cut(b, y, axis, size, before)
        if _are_shared(dims_of(weights), groups) and not _are_even(windows):
            y = _with_whole_gradients(b, y, x, weights, windows, sizes, groups)
        return with_bias(b, y, bias)
    x, channels = channels_last(b, x), len(windows) + 1
    y = _outer_products(b, x, weights, groups)
    for axis, (window, (size, before)) in enumerate(zip(windows, sizes, strict=True), 1):
        y = _laid_over(b, move_axis(b, y, channels + 1, axis + 1), axis, window, size, before)
    return with_bias(b, y, bias)


def _outer_products(b: Builder, x: SSAValue, weights: SSAValue, groups: int) -> SSAValue:
    """Each element of x [N, sizes..., C] times its weights: [N, sizes..., M, taps...].

    A product each group; where groups have one channel nothing is added up, and all are one.
    """
    (channels, outputs, *taps), axis = map(int, dims_of(weights)), len(dims_of(x)) - 1
    inputs = channels // groups
    if groups > 1 and inputs == 1:
        y = b.mul(b.reshape(x, (*dims_of(x), 1, *[1] * len(taps))), weights)
        return b.reshape(y, (*dims_of(x)[:-1], groups * outputs, *taps))
    parts = list[SSAValue]()
    for group in range(groups):
        own = b.slice(weights, 0, group * inputs, inputs)
        own = b.reshape(own, (inputs, outputs * math.prod(taps)))
        y = b.matmul(b.slice(x, axis, group * inputs, inputs), own)
        parts.append(b.reshape(y, (*dims_of(y)[:-1], outputs, *taps)))
    return b.concat(parts, axis)


def _laid_over(
    b: Builder, y: SSAValue, axis: int, window: Window, size: Dim, before: Dim | int
) -> SSAValue:
    """Windows along an axis and their taps behind it as one axis, cut to a size."""
    whole = (dims_of(y)[axis] - 1) * window.stride + window.reach
    y = overlap_add(b, y, axis, Dim.of(0), whole, (window.stride, window.dilation))
    return _cut(b, y, axis, size, before)


def _cut(b: Builder, y: SSAValue, axis: int, size: Dim, before: Dim | int) -> SSAValue:
    """An axis from so many elements on; zeros behind its end."""
    whole = dims_of(y)[axis]
    behind = size + before - whole
    if behind.is_static and int(behind) > 0:
        y = b.pad(y, axis, 0, whole + behind, 0.0)
    return b.slice(y, axis, before, size)


def _are_phases(windows: Sequence[Window], weights: Sequence[Dim], groups: int) -> bool:
    """Whether windows laid over each other are products for each phase: where phases have as many
    taps, all are one; else not where a phase of several inputs has fewer units than a vector."""
    if any(w.dilation > 1 or w.taps < w.stride for w in windows):
        return False
    even = groups == 1 and _are_even(windows)
    return even or not _are_shared(weights, groups) or int(weights[1]) >= VECTOR


def _are_even(windows: Sequence[Window]) -> bool:
    """Whether all phases have as many taps, so that one product computes them."""
    return all(window.taps % window.stride == 0 for window in windows)


def _are_shared(weights: Sequence[Dim], groups: int) -> bool:
    """Whether a group has several inputs: their terms are added up by products."""
    return weights[0] != groups


def _with_whole_gradients(
    b: Builder,
    y: SSAValue,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    sizes: Sequence[tuple[Dim, Dim | int]],
    groups: int,
) -> SSAValue:
    """y, whose gradients are of whole windows: phases of several kinds would have twice as many
    products, each over windows of its own."""
    inner = Builder(Block(arg_types=[y.type, x.type, weights.type]), b.loc)
    dy, inputs, kernel = inner.block.args
    strided = [Window(window.taps, window.stride) for window in windows]
    for axis, (window, (size, before)) in enumerate(zip(strided, sizes, strict=True), 1):
        whole = (dims_of(x)[axis + 1] - 1) * window.stride + window.taps
        dy = _uncut(inner, dy, axis, size, before, whole)
    dx = convolution(inner, channels_first(inner, dy), kernel, None, strided, groups)
    dw = _gradient_of_weights(inner, dy, inputs, dims_of(weights), strided, groups)
    return b.with_gradient(y, [x, weights], [x, weights], inner, [dx, dw])


def _uncut(
    b: Builder, dy: SSAValue, axis: int, size: Dim, before: Dim | int, whole: Dim
) -> SSAValue:
    """The gradient of what `_cut` has cut."""
    behind = size + before - whole
    if behind.is_static and int(behind) > 0:
        dy = b.slice(dy, axis, 0, whole - before)
    return b.pad(dy, axis, before, whole, 0.0)


def _gradient_of_weights(
    b: Builder,
    dy: SSAValue,
    x: SSAValue,
    dims: Sequence[Dim],
    windows: Sequence[Window],
    groups: int,
) -> SSAValue:
    """Rows of x times windows of dy [N, sizes..., M], added up over all: like the weights."""
    rank = len(windows)
    x, parts = channels_last(b, x), list[SSAValue]()
    inputs, outputs, taps = int(dims[0]) // groups, int(dims[1]), dims[2:]
    places = [1 + 2 * axis for axis in range(rank)]
    dy = windowed(b, dy, windows, 1, 0.0)
    dy = b.transpose(dy, [0, *places, *(place + 1 for place in places), 2 * rank + 1])
    rows = product(dims_of(x)[:-1])
    for group in range(groups):
        left = b.slice(x, rank + 1, group * inputs, inputs)
        right = b.slice(dy, 2 * rank + 1, group * outputs, outputs)
        flat = b.reshape(right, (rows, product((*taps, outputs))))
        dw = b.matmul(b.reshape(left, (rows, inputs)), flat, transpose_a=True)
        parts.append(move_axis(b, b.reshape(dw, (inputs, *taps, outputs)), rank + 1, 1))
    return b.concat(parts, 0)


def _by_phases(
    b: Builder, x: SSAValue, weights: SSAValue, windows: Sequence[Window], groups: int
) -> SSAValue:
    """Windows laid over each other, as a convolution for all phases of as many taps.

    y[q·s + p] = Σⱼ x[q - j] · w[p + s·j], and all p < s of as many j have the same windows of x.

    Returns:
        [N, sizes..., M].
    """
    y = _of_phases(b, x, weights, windows, groups, [])
    rank, strides = len(windows), [window.stride for window in windows]
    batch, *counts = dims_of(y)[: rank + 1]
    # [N, windows..., groups, phases..., outputs of a group]
    places = [axis for i in range(rank) for axis in (1 + i, 2 + rank + i)]
    y = b.transpose(y, [0, *places, rank + 1, 2 * rank + 2])
    sizes = [count * stride for count, stride in zip(counts, strides, strict=True)]
    return b.reshape(y, (batch, *sizes, groups * dims_of(weights)[1]))


def _of_phases(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    groups: int,
    chosen: Sequence[tuple[int, int, int]],
) -> SSAValue:
    """The phases of some axes, as far as they are chosen, and all of the others, joined.

    Args:
        chosen: of each axis the first phase, how many there are, and their taps.
    Returns:
        [N, windows of each axis..., groups, phases of each axis..., outputs of a group].
    """
    axis, rank = len(chosen), len(windows)
    if axis < rank:
        taps, stride = windows[axis].taps, windows[axis].stride
        most, more = -(-taps // stride), taps % stride or stride
        kinds = [(0, more, most), (more, stride - more, most - 1)][: 1 + (more < stride)]
        parts = [_of_phases(b, x, weights, windows, groups, [*chosen, k]) for k in kinds]
        return b.concat(parts, rank + 2 + axis)
    inputs, outputs = int(dims_of(weights)[0]) // groups, dims_of(weights)[1]
    kernel = b.reshape(weights, (groups, inputs, *dims_of(weights)[1:]))
    for i, (window, (first, count, taps)) in enumerate(zip(windows, chosen, strict=True)):
        at = 3 + 2 * i  # the taps of a phase, and then the phases, take an axis' place
        runs = [b.slice(kernel, at, first + window.stride * j, count) for j in range(taps)]
        dims = dims_of(runs[0])
        kernel = b.concat([b.reshape(r, (*dims[:at], 1, *dims[at:])) for r in reversed(runs)], at)
    taps, phases = range(3, 2 * rank + 3, 2), range(4, 2 * rank + 4, 2)
    kernel = b.transpose(kernel, [0, *phases, 2, 1, *taps])
    several = [count for _, count, _ in chosen]
    units = groups * math.prod(several) * outputs
    kernel = b.reshape(kernel, (units, inputs, *(count for *_, count in chosen)))
    around = [
        Window(count, pads=(count - 1, -(-window.taps // window.stride) - 1))
        for window, (_, _, count) in zip(windows, chosen, strict=True)
    ]
    y = channels_last(b, convolution(b, x, kernel, None, around, groups))
    return b.reshape(y, (*dims_of(y)[: rank + 1], groups, *several, outputs))
