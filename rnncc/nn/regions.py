"""Features of regions of images: means of samples in each cell of a box."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.gates import DEFAULT_LIMIT, repeat
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.arithmetic import plus, times
from rnncc.nn.axes import move_axis
from rnncc.nn.grid_sampling import sample_at


def roi_align(
    b: Builder,
    x: SSAValue,
    boxes: SSAValue,
    images: SSAValue,
    cells: tuple[int, int],
    samples: int,
    scale: float,
    half_pixel: bool,
) -> SSAValue:
    """Boxes cut into cells, and of each cell the mean of samples at even distances.

    A sample is interpolated between four elements; the outermost ones reach one element further,
    and it is 0 beyond.

    Args:
        x: [N, C, H, W]
        boxes: [R, 4]: x and y of a corner, then those of the opposite one.
        images: int64 [R], the image that each box is of.
        cells: along H and W.
        samples: of a cell along each axis; 0: as many as the elements that a cell spans, rounded
            up, which the boxes decide: a loop over samples.
        scale: of boxes to x.
        half_pixel: whether boxes count from the edges of elements; else from their middles, and
            are at least one element high and wide.
    Returns:
        [R, C, cells...]
    """
    axes = [_cells(b, boxes, axis, cells[axis], scale, half_pixel) for axis in range(2)]
    if samples == 0:
        return _by_span(b, x, images, axes, cells)
    places = list[SSAValue]()
    for (low, size), count in zip(axes, cells, strict=True):
        at = b.cast(b.iota((count * samples,), 0, "i64"), dtype_of(boxes))
        at = times(b, plus(b, at, 0.5), 1.0 / samples)
        places.append(b.add(low, b.mul(size, at)))
    rows, columns = cells
    y = _at(b, x, images, *places)
    shape = (dims_of(boxes)[0], rows, samples, columns, samples, dims_of(x)[1])
    total = b.reduce("sum", b.reshape(y, shape), [2, 4])
    return move_axis(b, times(b, total, 1.0 / samples**2), 3, 1)


def _cells(
    b: Builder, boxes: SSAValue, axis: int, count: int, scale: float, half_pixel: bool
) -> tuple[SSAValue, SSAValue]:
    """Where boxes begin along axis 0 (H) or 1 (W), and the size of their cells: [R, 1] each."""
    ends = [b.slice(boxes, 1, corner + 1 - axis, 1) for corner in (0, 2)]
    low, high = (plus(b, times(b, end, scale), -0.5 if half_pixel else 0.0) for end in ends)
    extent = b.sub(high, low)
    if not half_pixel:
        extent = b.maximum(extent, b.full_like(extent, 1.0))
    return low, times(b, extent, 1.0 / count)


def _at(b: Builder, x: SSAValue, images: SSAValue, ys: SSAValue, xs: SSAValue) -> SSAValue:
    """Samples [R, Y, X, C] of x at all pairs of places ys [R, Y] and xs [R, X]."""
    (count, rows), columns = dims_of(ys), dims_of(xs)[1]
    shape = (count, rows, columns)
    places, inside = list[SSAValue](), list[SSAValue]()
    for at, size, own in zip(
        (ys, xs), dims_of(x)[2:], ((count, rows, 1), (count, 1, columns)), strict=True
    ):
        n = b.cast(b.size(size), dtype_of(at))
        reached = b.compare("ge", at, b.full_like(at, -1.0)), b.compare("le", at, n)
        inside.append(b.reshape(b.logical("and", *reached), own))
        held = b.maximum(b.minimum(at, plus(b, n, -1.0)), b.full_like(at, 0.0))
        places.append(b.broadcast(b.reshape(held, own), shape, range(3)))
    image = b.broadcast(b.reshape(images, (count, 1, 1)), shape, range(3))
    y = sample_at(b, x, places, padding="border", batch=image)
    is_near = b.reshape(b.logical("and", *inside), (*shape, 1))
    return b.select(is_near, y, b.fill(0, (), dtype_of(y)))


def _by_span(
    b: Builder,
    x: SSAValue,
    images: SSAValue,
    axes: Sequence[tuple[SSAValue, SSAValue]],
    cells: tuple[int, int],
) -> SSAValue:
    """`roi_align` with as many samples as each cell spans elements."""
    count, dtype = dims_of(images)[0], dtype_of(x)
    counts = [b.round("ceil", size) for _, size in axes]
    most = [b.reduce("max", b.reshape(each, (count,)), [0]) for each in counts]
    number, total = b.fill(0, (), dtype), b.fill(0, (count, *cells, dims_of(x)[1]), dtype)
    last = b.mul(*most)
    (low_y, size_y), (low_x, size_x) = axes
    consts = [x, images, low_y, size_y, low_x, size_x, *counts, most[1], last]
    gate = b.compare("lt", number, last)
    step = partial(_next_sample, cells)
    _, _, total = repeat(b, consts, [gate, number, total], step, DEFAULT_LIMIT)
    summed = b.maximum(b.mul(*counts), b.full_like(counts[0], 1.0))
    mean = b.div(total, b.reshape(summed, (count, 1, 1, 1)))
    return move_axis(b, mean, 3, 1)


def _next_sample(
    cells: tuple[int, int], b: Builder, consts: Sequence[SSAValue], carry: Sequence[SSAValue]
) -> Values:
    """One sample of each cell, where a cell has it."""
    x, images, low_y, size_y, low_x, size_x, count_y, count_x, most_x, last = consts
    _, number, total = carry
    row = b.round("floor", b.div(number, most_x))
    column = b.sub(number, b.mul(row, most_x))
    places = list[SSAValue]()
    for low, size, of, count, each in (
        (low_y, size_y, cells[0], count_y, row),
        (low_x, size_x, cells[1], count_x, column),
    ):
        cell = b.cast(b.iota((of,), 0, "i64"), dtype_of(low))
        part = b.div(plus(b, each, 0.5), b.maximum(count, b.full_like(count, 1.0)))
        places.append(b.add(low, b.mul(size, b.add(part, cell))))
    y = _at(b, x, images, *places)
    has = b.logical("and", b.compare("lt", row, count_y), b.compare("lt", column, count_x))
    y = b.select(b.reshape(has, (dims_of(images)[0], 1, 1, 1)), y, b.fill(0, (), dtype_of(y)))
    following = plus(b, number, 1.0)
    return [b.compare("lt", following, last), following, b.add(total, y)]
