"""Windows along axes, and convolutions over one axis or more, forth and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.indexing import overlap_add
from rnncc.ir.types import dims_of
from rnncc.nn.axes import move_axis

Product = Callable[[Builder, SSAValue, SSAValue], SSAValue]


@dataclass(frozen=True)
class Window:
    """Windows along one axis.

    Attributes:
        taps: elements of each.
        stride: from one window to the next.
        dilation: from one tap to the next.
        pads: how many elements are put before and behind the axis.
        rounds_up: whether a last window may reach beyond the pads, if it begins before those
            behind.
    """

    taps: int
    stride: int = 1
    dilation: int = 1
    pads: tuple[Dim | int, Dim | int] = (0, 0)
    rounds_up: bool = False

    @property
    def reach(self) -> int:
        """How many elements a window spans."""
        return (self.taps - 1) * self.dilation + 1

    def count(self, size: Dim) -> Dim:
        """How many windows an axis of that size has; of an open size at least one must fit."""
        before, behind = self.pads
        if not self.rounds_up:
            return window_count(size + before + behind, self.taps, self.stride, self.dilation)
        # rounded up, ⌈(s + before + beyond) / stride⌉ + 1; if the last one begins in the pads
        # behind, one less: where beyond lies from -stride to 0, that is ⌈(s + before) / stride⌉
        beyond = int(Dim.of(behind)) - self.reach
        beyond = beyond if beyond >= 0 else min(beyond + self.stride, 0)
        return _if_static_natural((size + before + beyond).over(self.stride))

    def along(
        self,
        b: Builder,
        x: SSAValue,
        axis: int,
        value: float | SSAValue,
        beyond: float | None = None,
    ) -> SSAValue:
        """x with an axis as windows [count] and, behind it, their taps.

        Args:
            value: what stands in the pads; of rank 0 where it is computed.
            beyond: what stands behind those, where a last window reaches there; `value` by default.
        """
        size, (before, behind) = dims_of(x)[axis], self.pads
        count, whole = self.count(size), size + before + behind
        if not count.is_static:
            b.require(whole - self.reach)
        x = b.pad(x, axis, before, whole, value)
        if self.rounds_up:
            short = self.stride - 1  # at most
            if whole.is_static:
                short = max((int(count) - 1) * self.stride + self.reach - int(whole), 0)
            x = b.pad(x, axis, 0, whole + short, value if beyond is None else beyond)
        return b.windows(x, axis, 0, count, self.stride, self.taps, self.dilation)


def window_count(size: Dim, taps: int, stride: int, dilation: int = 1) -> Dim:
    """How many windows fit an axis; of an open size at least one must."""
    room = size - (taps - 1) * dilation - 1
    return _if_static_natural(room.under(stride) + 1)


def _if_static_natural(count: Dim) -> Dim:
    """A number, or 0 if it is negative; a formula as it is."""
    return count.excess() if count.is_static else count


def by_unit(b: Builder, x: SSAValue, weights: SSAValue) -> SSAValue:
    """Rows times weights [M, K]."""
    return b.matmul(x, weights, transpose_b=True)


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
    depth, channels = math.prod(w.taps for w in windows), int(dims_of(weights)[1])
    outputs = int(dims_of(weights)[0]) // groups
    x = _windows(b, channels_last(b, x), windows, pad)
    batch, *counts = dims_of(x)[: rank + 1]
    by_tap = b.transpose(weights, [0, *range(2, rank + 2), 1])
    rows = b.reshape(by_tap, (groups * outputs, depth * channels))
    if channels == outputs == 1 < groups:
        kernel = b.transpose(b.reshape(rows, (groups, depth)), (1, 0))
        flat = b.reshape(x, (batch, *counts, depth, groups))
        return _with_bias(b, b.reduce("sum", b.mul(flat, kernel), [rank + 1]), bias)
    parts = list[SSAValue]()
    for group in range(groups):
        some = b.slice(x, 2 * rank + 1, group * channels, channels)
        own = b.slice(rows, 0, group * outputs, outputs)
        flat = b.reshape(some, (batch, *counts, depth * channels))
        parts.append(product(b, flat, own))
    return _with_bias(b, b.concat(parts, rank + 1), bias)


def _with_bias(b: Builder, y: SSAValue, bias: SSAValue | None) -> SSAValue:
    """y [N, ..., M] + bias as [N, M, ...]: the sum comes first, so that the product takes it in."""
    return channels_first(b, y if bias is None else b.add(y, bias))


def _windows(b: Builder, x: SSAValue, windows: Sequence[Window], pad: float | SSAValue) -> SSAValue:
    """x [N, sizes..., C], with pads, as [N, windows of each axis..., taps of each axis..., C]."""
    rank = len(windows)
    for i, window in enumerate(windows):
        x = window.along(b, x, 1 + 2 * i, pad)  # each axis before has become two
    places = [1 + 2 * i for i in range(rank)]
    return b.transpose(x, [0, *places, *(p + 1 for p in places), 2 * rank + 1])


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
    taps = [window.taps for window in windows]
    inputs, outputs = int(dims_of(weights)[0]) // groups, int(dims_of(weights)[1])
    x, channels = channels_last(b, x), len(windows) + 1
    parts = list[SSAValue]()
    for group in range(groups):
        some = b.slice(x, channels, group * inputs, inputs)
        own = b.slice(weights, 0, group * inputs, inputs)
        y = b.matmul(some, b.reshape(own, (inputs, outputs * math.prod(taps))))
        parts.append(b.reshape(y, (*dims_of(y)[:-1], outputs, *taps)))
    y = b.concat(parts, channels)
    for axis, (window, (size, before)) in enumerate(zip(windows, sizes, strict=True), 1):
        y = _laid_over(b, move_axis(b, y, channels + 1, axis + 1), axis, window, size, before)
    return _with_bias(b, y, bias)


def _laid_over(
    b: Builder, y: SSAValue, axis: int, window: Window, size: Dim, before: Dim | int
) -> SSAValue:
    """Windows along an axis and their taps behind it as one axis, cut to a size."""
    whole = (dims_of(y)[axis] - 1) * window.stride + window.reach
    y = overlap_add(b, y, axis, Dim.of(0), whole, (window.stride, window.dilation))
    behind = size + before - whole
    if behind.is_static and int(behind) > 0:
        y = b.pad(y, axis, 0, whole + behind, 0.0)
    return b.slice(y, axis, before, size)


def channels_last(b: Builder, x: SSAValue) -> SSAValue:
    """[N, C, ...] as [N, ..., C]"""
    return move_axis(b, x, 1, len(dims_of(x)) - 1)


def channels_first(b: Builder, x: SSAValue) -> SSAValue:
    """[N, ..., C] as [N, C, ...]"""
    return move_axis(b, x, len(dims_of(x)) - 1, 1)
