"""Convolutions over one axis or more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import move_axis
from rnncc.nn.windows import Window, windowed

Product = Callable[[Builder, SSAValue, SSAValue], SSAValue]
DEEP, MOST_TERMS = 512, 0.93
"""Terms of a window beside which a copy of its part of a result is nothing; and how many of them
may lie within an axis, as a part, for its pads to be left out: of 3 x 3 windows over images that
are up to 9 high."""
FEW = 4
"""Channels that are not worth to be turned round to stand side by side, such as those of an image:
a window has a run of taps for each."""
MANY = 8
"""Groups that fill a vector, or half of one."""
MAX_GROUPS = 512
"""Of which each may be a product of its own: compile time grows with them, 20 ms for each."""


def by_unit(b: Builder, x: SSAValue, weights: SSAValue) -> SSAValue:
    """Rows times weights [M, K]."""
    return b.matmul(x, weights, transpose_b=True)


def are_sums(channels: int, outputs: int, groups: int) -> bool:
    """Whether groups of so many channels and outputs are sums over taps, lanes running along the
    groups, rather than a product each: depthwise ones, many of few channels, and more of any than
    `MAX_GROUPS`."""
    few = channels <= FEW and outputs <= FEW
    gains = groups > 1 and few and (channels == 1 or groups >= MANY)
    return gains or groups > MAX_GROUPS


def convolution(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
    windows: Sequence[Window],
    groups: int = 1,
    pad: float | SSAValue = 0.0,
    product: Product = by_unit,
) -> SSAValue:
    """Windows of x, with zeros in the pads, times weights: each window is a row of one product.

    Args:
        x: [N, C, size of each axis...].
        weights: [M, C / groups, taps of each axis...].
        bias: [M], or None.
        windows: of each axis.
        pad: what stands in the pads.
        product: of rows by the weights [M, K] of a group.
    Returns:
        [N, M, windows of each axis...].
    """
    rank = len(windows)
    plain = product is by_unit and groups == 1 and pad == 0.0
    for axis in range(rank - 1 if plain else 0):  # tiles of rows run along the last one
        y = _without_pads(b, x, weights, windows, axis)
        if y is not None:
            return with_bias(b, y, bias)
    taps = [window.taps for window in windows]
    depth, channels = math.prod(taps), int(dims_of(weights)[1])
    outputs = int(dims_of(weights)[0]) // groups
    if groups == 1 and channels <= FEW:
        rows = _by_channel(b, x, windows, pad)
        own = b.reshape(weights, (outputs, channels * depth))
        return with_bias(b, product(b, rows, own), bias)
    # Rows of few channels would be products of few terms, a few units wide.
    if are_sums(channels, outputs, groups):
        sums = _depthwise if channels == 1 else _by_group
        return with_bias(b, sums(b, x, weights, windows, groups, pad), bias)
    x = _windows(b, channels_last(b, x), windows, pad)
    batch, *counts = dims_of(x)[: rank + 1]
    by_tap = b.transpose(weights, [0, *range(2, rank + 2), 1])
    rows = b.reshape(by_tap, (groups * outputs, depth * channels))
    parts = list[SSAValue]()
    for group in range(groups):
        group_x = b.slice(x, 2 * rank + 1, group * channels, channels)
        own = b.slice(rows, 0, group * outputs, outputs)
        flat = b.reshape(group_x, (batch, *counts, depth * channels))
        parts.append(product(b, flat, own))
    return with_bias(b, b.concat(parts, rank + 1), bias)


def _depthwise(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    groups: int,
    pad: float | SSAValue,
) -> SSAValue:
    """Groups of one channel: sums over taps, lanes along the channels.

    Returns:
        [N, windows of each axis..., M].
    """
    y = _tap_sums(b, x, weights, windows, groups, pad)
    single = int(dims_of(weights)[0]) == groups and pad == 0.0 and dtype_of(x) in FLOATS
    around = _turned_windows(windows) if single else None
    return y if around is None else _with_sums_as_gradients(b, y, x, weights, windows, around)


def _tap_sums(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    groups: int,
    pad: float | SSAValue = 0.0,
) -> SSAValue:
    (units, _, *taps), rank = dims_of(weights), len(windows)
    several = () if int(units) == groups else (int(units) // groups,)
    x = _windows(b, channels_last(b, x), windows, pad)
    kernel = b.transpose(weights, [*range(2, rank + 2), 1, 0])
    kernel = b.reshape(kernel, (*taps, groups, *several))
    x = b.reshape(x, (*dims_of(x), 1)) if several else x
    sums = b.reduce("sum", b.mul(x, kernel), range(rank + 1, 2 * rank + 1))
    return b.reshape(sums, (*dims_of(sums)[: rank + 1], units))


def _turned_windows(windows: Sequence[Window]) -> list[Window] | None:
    """Windows of a gradient whose sums are that of x; None where those of x are some apart."""
    turned = list[Window]()
    for window in windows:
        pads = [window.reach - 1 - Dim.of(pad) for pad in window.pads]
        if window.stride > 1 or window.rounds_up or not all(pad.is_static for pad in pads):
            return None
        if any(int(pad) < 0 for pad in pads):
            return None
        turned.append(Window(window.taps, 1, window.dilation, (pads[0], pads[1])))
    return turned


def _with_sums_as_gradients(
    b: Builder,
    y: SSAValue,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    around: Sequence[Window],
) -> SSAValue:
    """y, whose gradients are sums over windows, too: rather than taps laid over each other."""
    inner, rank = Builder(Block(arg_types=[y.type, x.type, weights.type]), b.loc), len(windows)
    dy, image, kernel = inner.block.args
    for axis, window in enumerate(windows, 2):
        taps = [inner.slice(kernel, axis, k, 1) for k in reversed(range(window.taps))]
        kernel = inner.concat(taps, axis)
    channels = int(dims_of(x)[1])
    dx = _tap_sums(inner, channels_first(inner, dy), kernel, around, channels)
    rows = _windows(inner, channels_last(inner, image), windows, 0.0)
    batch, *counts = dims_of(dy)[: rank + 1]
    each = inner.reshape(dy, (batch, *counts, *[1] * rank, channels))
    dw = inner.reduce("sum", inner.mul(rows, each), range(rank + 1))
    dw = inner.reshape(inner.transpose(dw, [rank, *range(rank)]), dims_of(weights))
    return b.with_gradient(y, [x, weights], [x, weights], inner, [channels_first(inner, dx), dw])


def _by_group(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    windows: Sequence[Window],
    groups: int,
    pad: float | SSAValue,
) -> SSAValue:
    """Groups of few channels and outputs: sums over taps and channels, lanes along the groups; the
    result as above.
    """
    (batch, _, *sizes), (units, channels, *taps) = dims_of(x), dims_of(weights)
    rank, outputs = len(windows), int(units) // groups
    x = b.reshape(x, (batch, groups, channels, *sizes))
    x = _windows(b, b.transpose(x, [0, *range(3, rank + 3), 2, 1]), windows, pad)
    x = b.reshape(x, (*dims_of(x)[:-1], 1, groups))
    kernel = b.reshape(weights, (groups, outputs, channels, *taps))
    kernel = b.transpose(kernel, [*range(3, rank + 3), 2, 1, 0])
    sums = b.reduce("sum", b.mul(x, kernel), range(rank + 1, 2 * rank + 2))
    sums = b.transpose(sums, [*range(rank + 1), rank + 2, rank + 1])
    return b.reshape(sums, (*dims_of(sums)[: rank + 1], units))


def with_bias(b: Builder, y: SSAValue, bias: SSAValue | None) -> SSAValue:
    """y [N, ..., M] + bias as [N, M, ...]: the sum comes first, so that the product takes it in."""
    return channels_first(b, y if bias is None else b.add(y, bias))


def _without_pads(
    b: Builder, x: SSAValue, weights: SSAValue, windows: Sequence[Window], axis: int
) -> SSAValue | None:
    """A convolution in parts whose windows have the same taps within an axis: terms of its pads
    are not computed. None where they are few.

    Returns:
        [N, windows of each axis..., M].
    """
    window, depth = windows[axis], math.prod(map(int, dims_of(weights)[1:]))
    runs = window.runs(dims_of(x)[2 + axis])
    terms = sum(taps * count for _, _, taps, count in runs)
    most = window.taps * sum(count for *_, count in runs)
    if depth < DEEP or not runs or len(runs) > window.taps or terms > MOST_TERMS * most:
        return None
    parts, before = list[SSAValue](), int(Dim.of(window.pads[0]))
    for first, tap, taps, count in runs:
        own = Window(taps, window.stride, window.dilation)
        start = first * window.stride - before + tap * window.dilation
        reach = (count - 1) * window.stride + own.reach
        part = b.slice(x, 2 + axis, start, reach)
        own_weights = b.slice(weights, 2 + axis, tap, taps)
        around = [*windows[:axis], own, *windows[axis + 1 :]]
        parts.append(channels_last(b, convolution(b, part, own_weights, None, around)))
    return b.concat(parts, 1 + axis)


def _by_channel(
    b: Builder, x: SSAValue, windows: Sequence[Window], pad: float | SSAValue
) -> SSAValue:
    """x [N, C, sizes...], with pads, as [N, windows of each axis..., C · taps of each axis...]."""
    rank = len(windows)
    x = windowed(b, x, windows, 2, pad)
    places = [2 + 2 * i for i in range(rank)]
    x = b.transpose(x, [0, *places, 1, *(p + 1 for p in places)])
    sizes = dims_of(x)
    return b.reshape(x, (*sizes[: rank + 1], math.prod(map(int, sizes[rank + 1 :]))))


def _windows(b: Builder, x: SSAValue, windows: Sequence[Window], pad: float | SSAValue) -> SSAValue:
    """x [N, sizes..., C], with pads, as [N, windows of each axis..., taps of each axis..., C]."""
    rank = len(windows)
    x = windowed(b, x, windows, 1, pad)
    places, rest = [1 + 2 * i for i in range(rank)], range(2 * rank + 1, len(dims_of(x)))
    return b.transpose(x, [0, *places, *(p + 1 for p in places), *rest])


def channels_last(b: Builder, x: SSAValue) -> SSAValue:
    """[N, C, ...] as [N, ..., C]"""
    return move_axis(b, x, 1, len(dims_of(x)) - 1)


def channels_first(b: Builder, x: SSAValue) -> SSAValue:
    """[N, ..., C] as [N, C, ...]"""
    return move_axis(b, x, len(dims_of(x)) - 1, 1)
