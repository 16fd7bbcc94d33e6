"""Convolutions whose taps are moved by computed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.convolution import are_sums, by_unit, with_bias
from rnncc.nn.grid_sampling import sample_at
from rnncc.nn.windows import Window


def deformed_convolution(
    b: Builder,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
    offsets: SSAValue,
    scales: SSAValue | None,
    windows: Sequence[Window],
    groups: int = 1,
    parts: int = 1,
) -> SSAValue:
    """y[n, m, o] = bias[m] + Σ_ck weights[m, c, k] · scales[n, k, o] · x[n, c, p], interpolated at
    p = place(o, k) + offsets[n, k, o], with zeros around x.

    Args:
        x: [N, C, H, W]
        weights: [M, C / groups, taps...]
        bias: [M], or None.
        offsets: [N, parts · taps · 2, windows...]: of each tap along H, then along W.
        scales: [N, parts · taps, windows...], or None for 1.
        windows: of both axes, with pads that are numbers or formulas.
        groups: of channels with weights of their own.
        parts: of channels with offsets of their own.
    Returns:
        [N, M, windows...]
    """
    (batch, channels, *sizes), taps = dims_of(x), prod(w.taps for w in windows)
    outputs, counts = int(dims_of(weights)[0]), dims_of(offsets)[2:]
    part = int(channels) // parts
    points = (batch * parts, taps, *counts)
    moved = b.reshape(offsets, (batch * parts, taps, 2, *counts))
    places = list[SSAValue]()
    for axis, window in enumerate(windows):
        offset = b.reshape(b.slice(moved, 2, axis, 1), points)
        places.append(b.add(offset, _plain_places(b, windows, axis, window, offset)))
    features = b.reshape(x, (batch * parts, part, *sizes))
    y = sample_at(b, features, places)
    if scales is not None:
        y = b.mul(y, b.reshape(scales, (*points, 1)))
    # rows of a product: windows, and in each the channels' taps
    y = b.transpose(b.reshape(y, (batch, parts, taps, *counts, part)), [0, 3, 4, 1, 5, 2])
    rows, depth = product([batch, *counts]), int(channels) // groups * taps
    y = b.reshape(y, (rows, groups * depth))
    each = outputs // groups
    if are_sums(int(channels) // groups, each, groups):
        y = b.reshape(y, (rows, groups, 1, depth))
        y = b.reduce("sum", b.mul(y, b.reshape(weights, (groups, each, depth))), [3])
        return with_bias(b, b.reshape(y, (batch, *counts, outputs)), bias)
    by_group = list[SSAValue]()
    for group in range(groups):
        own = b.reshape(b.slice(weights, 0, group * each, each), (each, depth))
        by_group.append(by_unit(b, b.slice(y, 1, group * depth, depth), own))
    return with_bias(b, b.reshape(b.concat(by_group, 1), (batch, *counts, outputs)), bias)


def _plain_places(
    b: Builder, windows: Sequence[Window], axis: int, window: Window, like: SSAValue
) -> SSAValue:
    """Where taps would be along an axis without offsets: [taps, windows...]."""
    shape, dtype = dims_of(like)[1:], dtype_of(like)
    inner = prod(w.taps for w in windows[axis + 1 :])
    tap = b.iota((shape[0],), 0, "i64")
    if inner > 1:
        tap = b.div(tap, b.fill(inner, (), "i64"))
    if axis:
        tap = b.rem(tap, b.fill(window.taps, (), "i64"))
    tap = b.mul(tap, b.fill(window.dilation, (), "i64"))
    first = b.mul(b.iota(shape, 1 + axis, "i64"), b.fill(window.stride, (), "i64"))
    start = b.sub(first, b.size(Dim.of(window.pads[0])))
    return b.cast(b.add(start, b.reshape(tap, (shape[0], 1, 1))), dtype)
