"""Elements of a tensor at computed places, between its own: sums of neighbours; grids of places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product as combinations

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.arithmetic import plus, times
from rnncc.nn.axes import along, move_axis
from rnncc.nn.resizing import REACH, weight_at

PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75
Tap = tuple[SSAValue, SSAValue, SSAValue]
"""Along one axis, of each place: a neighbour's number, whether it counts, and how much."""


def grid_sample(
    b: Builder, x: SSAValue, grid: SSAValue, mode: str, padding: str, align_corners: bool
) -> SSAValue:
    """y[n, :, o...] = x[n, :, ...] at the place grid[n, o...].

    Args:
        x: [N, C, D1, ..., Dr]
        grid: [N, O1, ..., Or, r]: places along Dr first, where -1 and 1 are the ends of an axis:
            the middles of its first and last element with `align_corners`, else their outer edges.
        mode: nearest, linear or cubic.
        padding: what is outside of x: zeros, the elements at its border, or x mirrored.
    """
    sizes = dims_of(x)[2:]
    points, rank = dims_of(grid)[:-1], len(sizes)
    places = list[SSAValue]()
    for axis, size in enumerate(sizes):
        part = b.reshape(b.slice(grid, rank + 1, rank - 1 - axis, 1), points)
        places.append(_place(b, part, size, align_corners))
    y = sample_at(b, x, places, mode, padding, low=0.0 if align_corners else -0.5)
    return move_axis(b, y, rank + 1, 1)


def _place(b: Builder, part: SSAValue, size: Dim, align_corners: bool) -> SSAValue:
    """Where an axis is at numbers from -1 to 1, in elements."""
    n = b.cast(b.size(size), dtype_of(part))
    whole, low = (plus(b, n, -1.0), 0.0) if align_corners else (n, -0.5)
    return plus(b, times(b, b.mul(plus(b, part, 1.0), whole), 0.5), low)


def sample_at(
    b: Builder,
    x: SSAValue,
    places: Sequence[SSAValue],
    mode: str = "linear",
    padding: str = "zeros",
    low: float = 0.0,
    batch: SSAValue | None = None,
) -> SSAValue:
    """y[n, o..., :] = x[n, :, ...] at the places [n, o...], which count elements.

    Args:
        x: [N, C, D1, ..., Dr]
        places: [N, O...] along each of D1, ..., Dr.
        mode, padding: as of `grid_sample`.
        low: where axes start for the padding `reflection`: -0.5 at the edge of the first element.
        batch: int64 [N', 1...], which of N is read by each of the first axis of the places, if not
            its own.
    """
    channels, sizes = dims_of(x)[1], dims_of(x)[2:]
    points = dims_of(places[0])
    taps = [_taps(b, at, size, mode, padding, low) for at, size in zip(places, sizes, strict=True)]
    first = b.iota(points, 0, "i64") if batch is None else batch
    rows = b.reshape(
        move_axis(b, x, 1, len(sizes) + 1), (product([dims_of(x)[0], *sizes]), channels)
    )
    parts = [_sample(b, rows, first, points, sizes, each) for each in combinations(*taps)]
    return reduce(b.add, parts)


def _sample(
    b: Builder,
    rows: SSAValue,
    place: SSAValue,
    points: tuple[Dim, ...],
    sizes: Sequence[Dim],
    taps: tuple[Tap, ...],
) -> SSAValue:
    """One neighbour of each place, times what it counts."""
    for (number, _, _), size in zip(taps, sizes, strict=True):
        place = b.add(b.mul(place, b.size(size)), number)
    inside = reduce(lambda p, q: b.logical("and", p, q), [tap[1] for tap in taps])
    weight = reduce(b.mul, [tap[2] for tap in taps])
    gathered = b.gather(rows, b.reshape(place, (product(points),)), 0)
    gathered = b.reshape(gathered, (*points, dims_of(rows)[1]))
    column = (*points, Dim.of(1))
    masked = b.select(b.reshape(inside, column), gathered, b.fill(0, (), dtype_of(rows)))
    return b.mul(masked, b.cast(b.reshape(weight, column), dtype_of(rows)))


def _taps(b: Builder, at: SSAValue, size: Dim, mode: str, padding: str, low: float) -> list[Tap]:
    """The neighbours along one axis, of places in elements."""
    if mode == "nearest":
        place = b.round("even", at)
        return [(*_held(b, place, size, low, padding), b.full_like(at, 1.0))]
    reach = REACH[mode]
    at = _nearby(b, at, size, padding, low, reach + 1.0)
    below = b.round("floor", at)
    places = [plus(b, below, offset) for offset in range(1 - reach, reach + 1)]
    weights = [weight_at(b, b.abs(b.sub(at, place)), mode, CUBIC) for place in places]
    corners = [_held(b, place, size, low, padding) for place in places]
    return [(*where, weight) for where, weight in zip(corners, weights, strict=True)]


def _nearby(
    b: Builder, at: SSAValue, size: Dim, padding: str, low: float, reach: float
) -> SSAValue:
    """Places of the same samples near the axis: far away floats tell no neighbours apart, nor any
    at infinity.

    Args:
        reach: how far outside of the axis no neighbour differs from those that are farther.
    """
    last = plus(b, b.cast(b.size(size), dtype_of(at)), -1.0)
    if padding != "reflection":
        return b.maximum(b.minimum(at, plus(b, last, reach)), b.full_like(last, -reach))
    begin, end = b.full_like(last, low), plus(b, last, -low)
    inside = b.logical("and", b.compare("ge", at, begin), b.compare("le", at, end))
    return b.select(inside, at, _mirrored(b, at, last, low))


def _mirrored(b: Builder, place: SSAValue, last: SSAValue, low: float) -> SSAValue:
    """Places outside of an axis as those that they are mirrored to."""
    period = times(b, plus(b, last, -2.0 * low), 2.0)
    far = b.abs(plus(b, place, -low))
    rest = b.sub(far, b.mul(b.round("floor", b.div(far, period)), period))
    return plus(b, b.minimum(rest, b.sub(period, rest)), low)


def _held(
    b: Builder, place: SSAValue, size: Dim, low: float, padding: str
) -> tuple[SSAValue, SSAValue]:
    """An element that is there for each place, mirrored at the edges if so, and whether it counts.

    Args:
        low: where the axis starts; it ends as far behind its last element.
    """
    last = plus(b, b.cast(b.size(size), dtype_of(place)), -1.0)
    zero = b.full_like(last, 0)
    inside = b.logical("and", b.compare("ge", place, zero), b.compare("le", place, last))
    if padding == "reflection":
        place = b.select(inside, place, _mirrored(b, place, last, low))
    number = b.cast(b.maximum(b.minimum(place, last), zero), "i64")
    always = b.broadcast(b.fill(1, (), "i1"), dims_of(place), [])
    return number, inside if padding == "zeros" else always


def affine_grid(b: Builder, theta: SSAValue, sizes: Sequence[Dim], align_corners: bool) -> SSAValue:
    """y[n, o..., i] = Σ_j theta[n, i, j] · place(o)[j] + theta[n, i, r]: the grid of `grid_sample`
    whose places are those of each element of a tensor, moved by a matrix.

    Args:
        theta: [N, r, r + 1]
        sizes: D1, ..., Dr; y is [N, D1, ..., Dr, r].
        align_corners: as in `grid_sample`; the only element of an axis is at 1 then.
    """
    batch, rank, columns = dims_of(theta)[0], len(sizes), list[SSAValue]()
    for number in range(rank + 1):
        column = b.slice(theta, 2, number, 1)
        columns.append(b.reshape(column, (batch, *[1] * rank, rank)))
    parts = list[SSAValue]()
    for axis, size in enumerate(sizes):
        place = along(b, _middles(b, size, dtype_of(theta), align_corners), axis + 1, rank + 2)
        parts.append(b.mul(columns[rank - 1 - axis], place))
    return reduce(b.add, reversed(parts), columns[rank])


def _middles(b: Builder, size: Dim, dtype: str, align_corners: bool) -> SSAValue:
    """The places of an axis' elements, from -1 to 1."""
    n, number = b.cast(b.size(size), dtype), b.cast(b.iota((size,), 0, "i64"), dtype)
    if not align_corners:
        return plus(b, b.div(plus(b, times(b, number, 2.0), 1.0), n), -1.0)
    last = plus(b, n, -1.0)
    behind = b.div(b.sub(last, number), b.maximum(last, b.full_like(last, 1.0)))
    return plus(b, times(b, behind, -2.0), 1.0)
