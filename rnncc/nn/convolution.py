"""Convolutions over one axis or more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of


def convolution(
    b: Build,
    x: SSAValue,
    weights: SSAValue,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    groups: int = 1,
) -> SSAValue:
    """Convolution with channels last: windows of x, each a row of one product.

    Args:
        x: [N, size of each axis..., C].
        weights: [M, C / groups, taps of each axis...].
        pads: zeros before and behind, of each axis.
    Returns:
        [N, windows of each axis..., M].
    """
    rank, taps = len(strides), [int(d) for d in dims_of(weights)[2:]]
    x = _windows(b, x, taps, strides, pads, dilations)
    batch, *counts = dims_of(x)[: rank + 1]
    depth, channels = math.prod(taps), int(dims_of(weights)[1])
    outputs = int(dims_of(weights)[0]) // groups
    by_tap = b.transpose(weights, [0, *range(2, rank + 2), 1])
    rows = b.reshape(by_tap, (groups * outputs, depth * channels))
    if channels == outputs == 1 < groups:
        kernel = b.transpose(b.reshape(rows, (groups, depth)), (1, 0))
        flat = b.reshape(x, (batch, *counts, depth, groups))
        return b.reduce("sum", b.mul(flat, kernel), [rank + 1])
    parts = list[SSAValue]()
    for group in range(groups):
        some = b.slice(x, 2 * rank + 1, group * channels, channels)
        own = b.slice(rows, 0, group * outputs, outputs)
        flat = b.reshape(some, (batch, *counts, depth * channels))
        parts.append(b.matmul(flat, own, transpose_b=True))
    return b.concat(parts, rank + 1)


def _windows(
    b: Build,
    x: SSAValue,
    taps: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> SSAValue:
    """x [N, sizes..., C], with pads, as [N, windows of each axis..., taps of each axis..., C]."""
    rank = len(strides)
    for i in range(rank):
        axis = 1 + 2 * i  # each axis before has become two
        size = dims_of(x)[axis] + sum(pads[i])
        x = b.pad(x, axis, pads[i][0], size, 0.0)
        count = window_count(size, taps[i], strides[i], dilations[i])
        x = b.windows(x, axis, 0, count, strides[i], taps[i], dilations[i])
    places = [1 + 2 * i for i in range(rank)]
    return b.transpose(x, [0, *places, *(p + 1 for p in places), 2 * rank + 1])


def window_count(size: Dim, taps: int, stride: int, dilation: int = 1) -> Dim:
    """How many windows fit an axis.

    Raises:
        ValueError: there is no formula for it, as the stride does not divide an open size.
    """
    room = size - (taps - 1) * dilation - 1
    if room.is_static:
        return Dim.of(max(int(room) // stride + 1, 0))
    rest = room.coefficient() % stride
    whole = (room - rest).divide(stride)
    if whole is None:
        raise ValueError(f"({room})/{stride} + 1 windows, of which there is no formula")
    return whole + 1
