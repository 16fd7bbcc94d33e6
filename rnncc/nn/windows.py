"""Windows along axes: where each begins, how many there are, what pads add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger
from rnncc.ir.types import dims_of
from rnncc.records import record


@record
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

    @property
    def least(self) -> int:
        """The fewest elements, with pads, that have a window: one rounded up may reach beyond."""
        return self.reach - (self.stride - 1 if self.rounds_up else 0)

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

    def with_same_pads(self, size: Dim, upper: bool = True) -> Self:
        """With pads by which an axis of that size has a window for each stride.

        Args:
            upper: whether the larger half of an odd number is put behind.
        """
        short = larger((size.over(self.stride) - 1) * self.stride + self.reach - size, Dim.of(0))
        less = short.under(2)
        pads = (less, short - less) if upper else (short - less, less)
        return replace(self, pads=pads)

    def runs(self, size: Dim) -> list[tuple[int, int, int, int]]:
        """Neighbouring windows that have the same taps within an axis: the first window, its first
        tap, the taps, the windows. None of an open size, or if a window lies in the pads."""
        before = Dim.of(self.pads[0])
        if not (size.is_static and before.is_static) or self.rounds_up:
            return []
        runs = list[tuple[int, int, int, int]]()
        for i in range(int(self.count(size))):
            start = i * self.stride - int(before)  # of the window
            inside = [t for t in range(self.taps) if 0 <= start + t * self.dilation < int(size)]
            if not inside:
                return []
            if runs and runs[-1][1:3] == (inside[0], len(inside)):
                runs[-1] = (*runs[-1][:3], runs[-1][3] + 1)
            else:
                runs.append((i, inside[0], len(inside), 1))
        return runs

    def padded(
        self,
        b: Builder,
        x: SSAValue,
        axis: int,
        value: float | SSAValue,
        beyond: float | None = None,
    ) -> SSAValue:
        """x with what its windows read around an axis.

        Args:
            value: what stands in the pads; of rank 0 where it is computed.
            beyond: what stands behind those, where a last window reaches there; `value` by default.
        """
        size, (before, behind) = dims_of(x)[axis], self.pads
        count, whole = self.count(size), size + before + behind
        if not count.is_static:
            b.require(whole - self.least)
        x = b.pad(x, axis, before, whole, value)
        if self.rounds_up:
            short = self.stride - 1  # at most
            if whole.is_static:
                short = max((int(count) - 1) * self.stride + self.reach - int(whole), 0)
            x = b.pad(x, axis, 0, whole + short, value if beyond is None else beyond)
        return x

    def along(
        self,
        b: Builder,
        x: SSAValue,
        axis: int,
        value: float | SSAValue,
        beyond: float | None = None,
    ) -> SSAValue:
        """x with an axis as windows [count] and, behind it, their taps; see `padded`."""
        count = self.count(dims_of(x)[axis])
        x = self.padded(b, x, axis, value, beyond)
        return b.windows(x, axis, 0, count, self.stride, self.taps, self.dilation)


def windowed(
    b: Builder, x: SSAValue, windows: Sequence[Window], first: int, value: float | SSAValue
) -> SSAValue:
    """x with some axes, from the first one on, as windows and their taps, each behind its axis.

    All pads come first: the windows are views then.
    """
    axes = range(first, first + len(windows))
    counts = [w.count(dims_of(x)[axis]) for axis, w in zip(axes, windows, strict=True)]
    for axis, window in zip(axes, windows, strict=True):
        x = window.padded(b, x, axis, value)
    for i, (window, count) in enumerate(zip(windows, counts, strict=True)):
        axis = first + 2 * i  # each axis before has become two
        x = b.windows(x, axis, 0, count, window.stride, window.taps, window.dilation)
    return x


def window_count(size: Dim, taps: int, stride: int, dilation: int = 1) -> Dim:
    """How many windows fit an axis; of an open size at least one must."""
    room = size - (taps - 1) * dilation - 1
    return _if_static_natural(room.under(stride) + 1)


def _if_static_natural(count: Dim) -> Dim:
    """A number, or 0 if it is negative; a formula as it is."""
    return count.excess() if count.is_static else count
