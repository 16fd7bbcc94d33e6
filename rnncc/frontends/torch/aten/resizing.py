"""Other sizes by the nearest elements; samples of images. PyTorch takes other modes apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnncc.frontends.torch.node_context import NodeContext, Table, Translation, Value, rank_of
from rnncc.ir.types import dims_of
from rnncc.nn.grid_sampling import PADDINGS, grid_sample
from rnncc.nn.resizing import repeated, times_larger

Factor = float | None
CHECKED = 4096
"""Elements of an axis of open size for which it is checked that the nearest ones repeat."""


def nearest_by_factors(exact: bool) -> Translation:
    """The nearest elements; the sizes, or the factors that they are larger by"""

    def translate(
        at: NodeContext, x: Value, sizes: Sequence[int] | None, factors: Sequence[float] | None
    ) -> Value:
        return _nearest(at, x, factors or [None] * (rank_of(x) - 2), exact)

    return translate


def nearest(exact: bool) -> Translation:
    """The nearest elements; the sizes, then a factor for each axis"""

    def translate(at: NodeContext, x: Value, sizes: Sequence[int], *factors: Factor) -> Value:
        return _nearest(at, x, [*factors, *[None] * rank_of(x)][: rank_of(x) - 2], exact)

    return translate


def _nearest(at: NodeContext, x: Value, factors: Sequence[Factor], exact: bool) -> Value:
    for axis in reversed(range(2, rank_of(x))):
        x = _along(at, x, axis, factors[axis - 2], exact)
    return x


def _along(at: NodeContext, x: Value, axis: int, factor: Factor, exact: bool) -> Value:
    """One axis: element i is that at ⌊i · scale⌋, or at ⌊(i + 1/2) · scale⌋, in float32."""
    b, old, new = at.b, dims_of(x)[axis], at.dims[axis]
    whole = times_larger(old, new)
    if whole and factor in (None, whole):
        checked = whole * (int(old) if old.is_static else CHECKED)
        if exact or whole == 2 or _repeats(whole, checked):
            return repeated(b, x, axis, whole)
    if factor is not None:
        scale = b.fill(float(np.float32(1 / factor)), ())
    else:
        scale = b.div(b.size(old, "f32"), b.size(new, "f32"))
    number = b.cast(b.iota((new,), 0, "i32"), "f32")
    number = b.add(number, b.fill(0.5, ())) if exact else number
    place = b.cast(b.round("floor", b.mul(number, scale)), "i64")
    return b.gather(x, b.minimum(place, b.size(old - 1)), axis)


def _repeats(factor: int, count: int) -> bool:
    """Whether each of so many places is the quotient of its number by a factor."""
    number = np.arange(count)
    places = np.floor(number.astype(np.float32) * np.float32(1 / factor))
    return bool((places == number // factor).all())


def samples(
    at: NodeContext, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    """x at the places of a grid: sums of neighbours, or the nearest elements"""
    kind, edges = ("linear", "nearest", "cubic")[mode], PADDINGS[padding]
    return grid_sample(at.b, at.value(x), at.value(grid), kind, edges, align_corners)


RANKS = (1, 2, 3)
OPERATORS: Table = {
    **{f"upsample_nearest{rank}d": nearest(False) for rank in RANKS},
    **{f"_upsample_nearest_exact{rank}d": nearest(True) for rank in RANKS},
    **{f"upsample_nearest{rank}d.vec": nearest_by_factors(False) for rank in RANKS},
    **{f"_upsample_nearest_exact{rank}d.vec": nearest_by_factors(True) for rank in RANKS},
    **{f"grid_sampler_{rank}d": samples for rank in (2, 3)},
}
