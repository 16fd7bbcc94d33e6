"""Tensors of another size along an axis: nearest elements, and sums of neighbours.

Coordinates are float32, in the order of operations that ONNX Runtime computes them in, so that
where one lies between two elements the same is taken. An element of the result that number i
stands for lies at the coordinate x(i) of the original, whose elements lie at 0, 1, ... n - 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.arithmetic import plus, times
from rnncc.nn.axes import strided
from rnncc.records import record

COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_half_pixel_for_nn", "tf_crop_and_resize"),
)
CENTRED = COORDINATES[:3]
"""Those where factors that are integers put the elements of one around that which they repeat."""
FROM_EDGES = ("asymmetric", "tf_half_pixel_for_nn")
"""Those where they put them from it on, up to the next."""
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
TIE = 1e-6
"""As near to the middle of two elements a coordinate is in the middle, as for ONNX Runtime."""
REACH = {"linear": 1, "cubic": 2}
"""How far away the elements lie that one of the result is a sum of."""


@record
class Resizing:
    """What one axis of a result is made of.

    Attributes:
        mode: nearest, linear or cubic.
        coordinates: where elements of the result lie: one of `COORDINATES`.
        rounding: which element is nearest: one of `ROUNDINGS`.
        cubic: the coefficient a of the cubic polynomials.
        antialias: whether a smaller result is a sum over all of the elements that it stands for.
        exclude_outside: whether elements outside count nothing, instead of as those at the edges.
        region: of tf_crop_and_resize, where the result starts and ends, the whole axis being 0..1.
        outside: of tf_crop_and_resize, what stands for coordinates outside of the axis.
    """

    mode: str
    coordinates: str
    rounding: str = ROUNDINGS[0]
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    region: tuple[float, float] = (0.0, 1.0)
    outside: float = 0.0


def resize(
    b: Builder,
    x: SSAValue,
    axis: int,
    size: Dim,
    scale: float | None,
    how: Resizing,
    count: SSAValue | None = None,
    of: SSAValue | None = None,
) -> SSAValue:
    """x with `size` elements along an axis.

    Args:
        scale: how many elements stand for one of x; the quotient of the sizes unless given.
        count: int64 without axes, to how many elements x is resized, of which the result has the
            first, or all and others behind them; `size` unless given.
        of: int64 without axes, how many elements of x are resized, behind which the last of them
            stands again; all unless given.
    """
    old = dims_of(x)[axis]
    known = count is None and of is None
    plain = known and how.coordinates != "tf_crop_and_resize"
    if old == size and scale in (None, 1.0) and plain:
        return x
    if size == 0:
        return b.slice(x, axis, 0, 0)
    if how.mode == "nearest" and known:
        resized = _at_even_distances(b, x, axis, size, scale, how)
        if resized is not None:
            return resized
    whole = _number(b, size) if count is None else b.cast(count, "f32")
    number = b.cast(b.iota((size,), 0, "i32"), "f32")
    before = _number(b, old) if of is None else b.cast(of, "f32")
    at = _coordinates(b, number, before, whole, scale, how)
    resized = _sampled(b, x, axis, at, scale, how)
    if how.coordinates != "tf_crop_and_resize":
        return resized
    last = plus(b, _number(b, old), -1.0)
    inside = b.logical("and", b.compare("ge", at, b.fill(0, ())), b.compare("le", at, last))
    edge = b.fill(how.outside, (), dtype_of(x))
    return b.select(_along(b, inside, resized, axis), resized, edge)


def _at_even_distances(
    b: Builder, x: SSAValue, axis: int, size: Dim, scale: float | None, how: Resizing
) -> SSAValue | None:
    """Each element as often, or one of as many; None where it is not so, or not surely."""
    old, centred = dims_of(x)[axis], how.coordinates in CENTRED
    factor = times_larger(old, size)
    if factor is not None and scale in (None, factor):
        middle = centred and how.rounding in ROUNDINGS[:2]
        if middle or (how.coordinates in FROM_EDGES and how.rounding == "floor"):
            return repeated(b, x, axis, factor)
    step = 0 if scale is None else _power_of_two(1 / scale)
    if how.coordinates == "asymmetric" and step and size == old.under(step):
        return strided(b, x, axis, 0, size, step)
    return None


def repeated(b: Builder, x: SSAValue, axis: int, count: int) -> SSAValue:
    """Each element along an axis so many times, one after another."""
    dims = dims_of(x)
    wide = (*dims[: axis + 1], Dim.of(count), *dims[axis + 1 :])
    widened = b.broadcast(x, wide, [a for a in range(len(wide)) if a != axis + 1])
    return b.reshape(widened, (*dims[:axis], dims[axis] * count, *dims[axis + 1 :]))


def times_larger(old: Dim, new: Dim) -> int | None:
    """How many times larger a size is, where that is an integer."""
    quotient = new.divide(old) if old != 0 else None
    return int(quotient) if quotient is not None and quotient.is_static else None


def _power_of_two(number: float) -> int:
    """The number as an integer; 0 if it is no power of 2 from 1 on."""
    return int(number) if number >= 1 and math.frexp(number)[0] == 0.5 else 0


def _number(b: Builder, size: Dim) -> SSAValue:
    """A size as float32."""
    return b.fill(int(size), ()) if size.is_static else b.size(size, "f32")


def _coordinates(
    b: Builder, number: SSAValue, n: SSAValue, m: SSAValue, scale: float | None, how: Resizing
) -> SSAValue:
    """Where the elements with some numbers lie, of a result of m for n of the original, as
    float32."""
    s = b.div(m, n) if scale is None else b.fill(scale, ())
    last, gaps = plus(b, n, -1.0), b.maximum(plus(b, m, -1.0), b.fill(1, ()))
    centre = b.div(plus(b, number, 0.5), s)
    match how.coordinates:
        case "asymmetric":
            return b.div(number, s)
        case "tf_half_pixel_for_nn":
            return centre
        case "align_corners":
            return b.div(b.mul(number, last), gaps)
        case "half_pixel_symmetric":
            beside = b.sub(b.fill(1, ()), b.div(m, b.mul(s, n)))
            return plus(b, b.add(b.mul(times(b, n, 0.5), beside), centre), -0.5)
        case "pytorch_half_pixel":
            return b.select(b.compare("gt", m, b.fill(1, ())), plus(b, centre, -0.5), b.fill(0, ()))
        case "tf_crop_and_resize":
            start, end = how.region
            one = b.compare("eq", m, b.fill(1, ()))
            first = b.select(one, times(b, last, 0.5 * (start + end)), times(b, last, start))
            return b.add(b.div(b.mul(times(b, number, end - start), last), gaps), first)
        case _:
            return plus(b, centre, -0.5)


def _sampled(
    b: Builder, x: SSAValue, axis: int, at: SSAValue, scale: float | None, how: Resizing
) -> SSAValue:
    """The elements nearest to coordinates, or sums of their neighbours."""
    size, below = dims_of(x)[axis], b.round("floor", at)
    beyond = b.sub(at, below)
    if how.mode == "nearest":
        return b.gather(x, _held(b, _nearest(b, below, beyond, how.rounding), size), axis)
    shrink = scale if how.antialias and scale is not None and scale < 1 else 1.0
    first = 1 + math.floor(-REACH[how.mode] / shrink)
    places = [plus(b, below, offset) for offset in range(first, 2 - first)]
    far = [times(b, b.abs(b.sub(at, place)), shrink) for place in places]
    weights = [weight_at(b, distance, how.mode, how.cubic) for distance in far]
    if how.exclude_outside:
        weights = [_within(b, w, p, size) for w, p in zip(weights, places, strict=True)]
    if how.exclude_outside or shrink < 1:
        total = reduce(b.add, weights)
        weights = [b.div(weight, total) for weight in weights]
    rows = [b.gather(x, _held(b, place, size), axis) for place in places]
    factors = [b.cast(_along(b, weight, x, axis), dtype_of(x)) for weight in weights]
    return reduce(b.add, map(b.mul, rows, factors))


def _nearest(b: Builder, below: SSAValue, beyond: SSAValue, rounding: str) -> SSAValue:
    """The number of the nearest element, given those below and how far beyond these it lies."""
    if rounding == "floor":
        return below
    half = {"round_prefer_floor": 0.5 + TIE, "round_prefer_ceil": 0.5 - TIE, "ceil": 0.0}
    above = b.compare("gt", beyond, b.full_like(beyond, half[rounding]))
    return b.add(below, b.cast(above, "f32"))


def weight_at(b: Builder, far: SSAValue, mode: str, a: float) -> SSAValue:
    """What an element counts at a distance: a tent, or Keys's cubic polynomials (1981)."""
    if mode == "linear":
        return b.maximum(b.sub(b.full_like(far, 1), far), b.full_like(far, 0))
    near = _polynomial(b, far, (a + 2, -(a + 3), 0.0, 1.0))
    behind = _polynomial(b, far, (a, -5 * a, 8 * a, -4 * a))
    inner, outer = (b.compare("lt", far, b.full_like(far, edge)) for edge in (1, 2))
    return b.select(inner, near, b.select(outer, behind, b.full_like(far, 0)))


def _polynomial(b: Builder, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """By Horner's rule, the highest power first."""
    first, *others = coefficients
    return reduce(lambda y, c: plus(b, b.mul(y, x), c), others, b.full_like(x, first))


def _held(b: Builder, place: SSAValue, size: Dim) -> SSAValue:
    """Places as integers, those outside at the edges."""
    number = b.cast(place, "i64")
    return b.maximum(b.minimum(number, b.size(size - 1)), b.full_like(number, 0))


def _within(b: Builder, weight: SSAValue, place: SSAValue, size: Dim) -> SSAValue:
    """A weight, 0 where its place is outside."""
    above = b.compare("ge", place, b.fill(0, ()))
    inside = b.logical("and", above, b.compare("lt", place, _number(b, size)))
    return b.select(inside, weight, b.full_like(weight, 0.0))


def _along(b: Builder, vector: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """A vector along one axis of tensors like x."""
    return b.reshape(vector, (*dims_of(vector), *[1] * (len(dims_of(x)) - axis - 1)))
