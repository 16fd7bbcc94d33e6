"""Boxes that overlap others of higher scores are left out, one class of each image by itself."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.nn.indexing import extremum_place


def suppressed(
    b: Builder,
    corners: SSAValue,
    scores: SSAValue,
    alive: SSAValue,
    part: SSAValue,
    most: Dim,
) -> tuple[SSAValue, SSAValue]:
    """The boxes that are kept of each class, highest scores first; of equal ones the first.

    Args:
        corners: [N, A, 4] of each box the lower ends along two axes, then the upper ends.
        scores: [N, C, A].
        alive: [N, C, A] bools, which boxes may be kept.
        part: a number; a box that has more than this part of the union with one that is kept in
            common with it is not kept.
        most: how many of each class are kept at most.

    Returns:
        Places [N, C, most] as int64, and bools, which of them there are.
    """
    images, classes, boxes = dims_of(scores)
    flat = b.reshape(corners, (images * boxes, 4))
    inits = [_any(b, alive, [0, 1, 2]), b.fill(0, (), "i64"), alive]

    def step(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        scores, corners, flat, part = consts
        _, number, alive = carry
        least = inner.fill(float("-inf"), dims_of(scores))
        place = extremum_place(inner, inner.select(alive, scores, least), "max", 2)
        chosen = inner.gather(flat, inner.add(place, _first_rows(inner, scores)), 0)
        near = _overlap(inner, corners, chosen, part)
        is_chosen = inner.compare(
            "eq", inner.iota(dims_of(scores), 2, "i64"), _over(inner, place, scores)
        )
        gone = inner.logical("or", near, is_chosen)
        left = inner.logical("and", alive, inner.logical_not(gone))
        following = inner.add(number, inner.fill(1, (), "i64"))
        goes_on = _any(inner, left, [0, 1, 2])
        return [goes_on, following, left], [place, _any(inner, alive, [2])]

    consts = [scores, corners, flat, part]
    finals, (places, exist) = b.scan(consts, inits, [], step, length=most, gate=len(consts))
    ran = b.compare("lt", b.iota((most,), 0, "i64"), b.broadcast(finals[1], (most,), []))
    exist = b.logical("and", exist, b.broadcast(ran, (most, images, classes), [0]))
    return b.transpose(places, (1, 2, 0)), b.transpose(exist, (1, 2, 0))


def _any(b: Builder, flags: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Whether one along some axes is true."""
    most = b.reduce("max", b.cast(flags, "i32"), axes)
    return b.compare("gt", most, b.full_like(most, 0))


def _first_rows(b: Builder, scores: SSAValue) -> SSAValue:
    """The numbers [N, C] of the first rows of images in a table of all boxes."""
    images, classes, boxes = dims_of(scores)
    image = b.iota((images, classes), 0, "i64")
    return b.mul(image, b.broadcast(b.size(boxes, "i64"), (images, classes), []))


def _over(b: Builder, x: SSAValue, scores: SSAValue) -> SSAValue:
    """x [N, C] for each box of scores [N, C, A]."""
    return b.broadcast(x, dims_of(scores), [0, 1])


def _overlap(b: Builder, corners: SSAValue, chosen: SSAValue, part: SSAValue) -> SSAValue:
    """Which boxes [N, C, A] have more than a part of their union in common with one [N, C, 4].

    None with a box without an area.
    """
    images, boxes, _ = dims_of(corners)
    dims = (images, dims_of(chosen)[1], boxes)

    def ends(x: SSAValue, axis: int, at: Sequence[int]) -> list[SSAValue]:
        sides = [b.slice(x, axis, side, 1) for side in range(4)]
        flat = [b.reshape(side, dims_of(side)[:axis]) for side in sides]
        return [b.broadcast(side, dims, at) for side in flat]

    one, other = ends(corners, 2, [0, 2]), ends(chosen, 2, [0, 1])
    none = b.fill(0, dims)
    sides = [
        b.maximum(b.sub(b.minimum(one[k + 2], other[k + 2]), b.maximum(one[k], other[k])), none)
        for k in (0, 1)
    ]
    common = b.mul(*sides)
    areas = [b.mul(b.sub(x[2], x[0]), b.sub(x[3], x[1])) for x in (one, other)]
    union = b.sub(b.add(*areas), common)
    more = b.compare("gt", b.div(common, union), b.broadcast(part, dims, []))
    return b.logical("and", b.compare("gt", common, none), more)
