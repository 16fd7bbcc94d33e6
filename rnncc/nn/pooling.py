"""Pooling: the largest element, mean or norm of each window of x [N, C, size of each axis...]."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.arithmetic import power
from rnncc.nn.indexing import extremum_place
from rnncc.nn.reduction import mean, picked_largest
from rnncc.nn.windows import Window, windowed

LEAST = {"i32": -(1 << 31), "i64": -(1 << 63)}
"""What stands around integers, of which some are in each window."""


def max_pool(b: Builder, x: SSAValue, windows: Sequence[Window], of_each: bool = False) -> SSAValue:
    """The largest element of each window; the first of equal ones has its gradient.

    Args:
        of_each: whether each of equal ones has it.
    """
    flat, taps = _windowed(b, x, windows, LEAST.get(dtype_of(x), -math.inf))
    return picked_largest(b, flat, taps, of_each)


def max_places(
    b: Builder, x: SSAValue, windows: Sequence[Window], first_axis_first: bool = False
) -> SSAValue:
    """Where the largest element of each window stands in its channel, the first of equals.

    Args:
        first_axis_first: whether numbers count along the first axis of space, not the last.
    Returns:
        Numbers of elements of a flat channel, int64.
    """
    sizes = dims_of(x)[2:]
    rank = len(sizes)
    flat, taps = _windowed(b, x, windows, LEAST.get(dtype_of(x), -math.inf))
    front = [axis for axis in range(2 + 2 * rank) if axis not in taps]
    flat = b.transpose(flat, [*front, *taps])
    flat = b.reshape(flat, (*dims_of(flat)[: 2 + rank], math.prod(w.taps for w in windows)))
    place = extremum_place(b, flat, "max", 2 + rank)
    number = b.iota((product(sizes),), 0, "i64")
    if first_axis_first:
        number = b.transpose(b.reshape(number, sizes[::-1]), range(rank)[::-1])
    number = b.reshape(number, (1, 1, *sizes))
    numbers = b.transpose(_windowed(b, number, windows, 0)[0], [*front, *taps])
    numbers = b.reshape(numbers, (1, 1, *dims_of(flat)[2:]))
    is_place = b.compare(
        "eq", b.iota(dims_of(flat), 2 + rank, "i64"), b.reshape(place, (*dims_of(place), 1))
    )
    return b.reduce("sum", b.select(is_place, numbers, b.fill(0, (), "i64")), [2 + rank])


def average_pool(
    b: Builder, x: SSAValue, windows: Sequence[Window], counts_pads: bool, count: int | None = None
) -> SSAValue:
    """The mean of each window: of its elements within x, or with `counts_pads` of the pads too.

    What a last window has behind the pads never counts; `count` is divided by in any case.
    """
    sums = b.reduce("sum", *_windowed(b, x, windows, 0.0))
    if count is not None:
        return b.div(sums, b.full_like(sums, count))
    return b.div(sums, _counts(b, dims_of(x)[2:], windows, float(counts_pads), dtype_of(x)))


def lp_pool(b: Builder, x: SSAValue, windows: Sequence[Window], p: float) -> SSAValue:
    """(Σ |x|^p)^(1/p) of each window."""
    windows_of_x, taps = _windowed(b, x, windows, 0.0)
    return power(b, b.reduce("sum", power(b, b.abs(windows_of_x), p), taps), 1 / p)


def adaptive_pool(b: Builder, kind: str, x: SSAValue, sizes: Sequence[int | None]) -> SSAValue:
    """The `mean` or `max` of so many parts of each axis; None leaves an axis as it is.

    Part i of n of an axis of size s goes from ⌊i·s / n⌋ up to ⌈(i + 1)·s / n⌉.
    """
    axes = list(enumerate(sizes, 2))
    # The first of equal ones along the last axis, then along those before: row by row.
    for axis, count in reversed(axes) if kind == "max" else axes:
        x = x if count is None else _in_parts(b, kind, x, axis, count)
    return x


def _in_parts(b: Builder, kind: str, x: SSAValue, axis: int, count: int) -> SSAValue:
    dims = dims_of(x)
    size, whole = dims[axis], dims[axis].divide(count)
    if whole is not None:
        parts = b.reshape(x, (*dims[:axis], count, whole, *dims[axis + 1 :]))
        return _pooled(b, kind, parts, axis + 1)
    edges = [((size * i).under(count), (size * (i + 1)).over(count)) for i in range(count)]
    rows = [_pooled(b, kind, b.slice(x, axis, low, high - low), axis) for low, high in edges]
    wide = (*dims[:axis], 1, *dims[axis + 1 :])
    return b.concat([b.reshape(row, wide) for row in rows], axis)


def _pooled(b: Builder, kind: str, x: SSAValue, axis: int) -> SSAValue:
    return mean(b, x, [axis]) if kind == "mean" else picked_largest(b, x, [axis])


def _windowed(
    b: Builder, x: SSAValue, windows: Sequence[Window], value: float
) -> tuple[SSAValue, list[int]]:
    """Windows of each axis of space of x, and the axes of their taps; `value` stands around x."""
    taps = [3 + 2 * i for i in range(len(windows))]
    return windowed(b, x, windows, 2, value), taps


def _counts(
    b: Builder, sizes: Sequence[Dim], windows: Sequence[Window], of_pads: float, dtype: str
) -> SSAValue:
    """How many elements each window has, of a shape that broadcasts: the product along axes."""
    counts, rank = b.fill(1.0, (), dtype), len(windows)
    for axis, (size, window) in enumerate(zip(sizes, windows, strict=True)):
        ones = window.along(b, b.fill(1.0, (size,), dtype), 0, of_pads, beyond=0.0)
        line = b.reduce("sum", ones, [1])
        counts = b.mul(counts, b.reshape(line, (*dims_of(line), *[1] * (rank - 1 - axis))))
    return counts
