"""Where the middle element of an axis stands, and the most frequent one."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.indexing import extremum_place, gather_elements
from rnncc.nn.ranking import top_k
from rnncc.nn.reduction import reduce_keepdims


def median_place(b: Builder, x: SSAValue, axis: int, skips_nan: bool) -> SSAValue:
    """Where the middle one of an axis of known size stands, of two the smaller; the axis has one
    element then.

    Args:
        skips_nan: whether NaN do not count; else the first of them is the median.
    """
    size = int(dims_of(x)[axis])
    places = top_k(b, x, (size + 1) // 2, axis, largest=False)[1]
    if dtype_of(x) not in FLOATS:
        return b.slice(places, axis, (size - 1) // 2, 1)
    is_nan = b.cast(b.compare("ne", x, x), "i64")
    if skips_nan:
        numbers = b.sub(b.fill(size, (), "i64"), reduce_keepdims(b, "sum", is_nan, [axis]))
        middle = b.bits("right", b.sub(numbers, b.fill(1, (), "i64")), b.fill(1, (), "i64"))
        return gather_elements(b, places, b.maximum(middle, b.fill(0, (), "i64")), axis)
    has_nan = b.compare("ne", reduce_keepdims(b, "max", is_nan, [axis]), b.fill(0, (), "i64"))
    first = b.reshape(extremum_place(b, is_nan, "max", axis), dims_of(has_nan))
    return b.select(has_nan, first, b.slice(places, axis, (size - 1) // 2, 1))


def mode_place(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """Where the most frequent one of an axis stands last, of several the smallest; the axis has
    one element then.

    Each element is compared with each.
    """
    dims, rank = list(dims_of(x)), len(dims_of(x))
    pairs = [*dims[:axis], dims[axis], *dims[axis:]]
    one, beside = (
        b.broadcast(x, pairs, [i for i in range(rank + 1) if i != skipped])
        for skipped in (axis + 1, axis)
    )
    counts = b.reduce("sum", b.cast(b.compare("eq", one, beside), "i32"), [axis + 1])
    is_most = b.compare("eq", counts, reduce_keepdims(b, "max", counts, [axis]))
    is_float = dtype_of(x) in FLOATS
    other = b.full_like(x, math.inf) if is_float else reduce_keepdims(b, "max", x, [axis])
    least = reduce_keepdims(b, "min", b.select(is_most, x, other), [axis])
    is_mode = b.logical("and", is_most, b.compare("eq", x, least))
    place = extremum_place(b, b.cast(is_mode, "i32"), "max", axis, last=True)
    return b.reshape(place, dims_of(least))


def equal_to(b: Builder, x: SSAValue, place: SSAValue) -> SSAValue:
    """The element of a vector at a place [1], of rank 0; all that are equal to it share its
    gradient."""
    if dtype_of(x) not in FLOATS:
        return b.reshape(gather_elements(b, x, place, 0), ())
    number = b.stop_gradient(x)
    value = gather_elements(b, number, place, 0)
    both_nan = b.logical("and", b.compare("ne", number, number), b.compare("ne", value, value))
    is_equal = b.logical("or", b.compare("eq", number, value), both_nan)
    none = b.fill(-math.inf, (), dtype_of(x))
    return b.reduce("max", b.select(is_equal, x, none), [0])
