"""Elements by their order: sorted, the largest, and where they stand."""

from __future__ import annotations

from rnncc.frontends.torch.node_context import NodeContext, Table, Translation, Value, rank_of
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.indexing import (
    extremum_place,
    gather_elements,
    one_hot,
    running_place,
)
from rnncc.nn.medians import equal_to, median_place, mode_place
from rnncc.nn.ranking import top_k

MAX_COMPARED = 4096
"""Elements of an axis that are compared each with each."""


def sort(
    at: NodeContext, x: Value, dim: int = -1, descending: bool = False, stable: bool = True
) -> tuple[Value, Value]:
    """Numbers of one axis in order, and where each was; equal ones stay in their order"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    axis = at.axis(dim, rank_of(x))
    _refuse_bools(at, x, axis)
    return top_k(at.b, x, dims_of(x)[axis], axis, descending)


def largest(
    at: NodeContext, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """The largest k of an axis in order, or the smallest, and where each was"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    axis = at.axis(dim, rank_of(x))
    _refuse_bools(at, x, axis)
    return top_k(at.b, x, k, axis, largest)


def kth_value(
    at: NodeContext, x: Value, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Value, Value]:
    """The k-th smallest of an axis, and where it is"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    axis = at.axis(dim, rank_of(x))
    _refuse_bools(at, x, axis)
    values, places = top_k(at.b, x, k, axis, largest=False)
    last = (at.b.slice(y, axis, k - 1, 1) for y in (values, places))
    value, place = (at.b.reshape(y, at.dims) for y in last)
    return value, place


def median(skips_nan: bool) -> Translation:
    """The middle one of an axis, of two the smaller, and where one of its equals is; of all
    elements where no axis is named"""

    def translate(
        at: NodeContext, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> tuple[Value, Value] | Value:
        b = at.b
        if dim is None:
            x = b.reshape(x, (product(dims_of(x)),))
            return equal_to(b, x, _median_place(at, x, 0, skips_nan))
        if rank_of(x) == 0:
            return x, b.fill(0, (), "i64")
        axis = at.axis(dim, rank_of(x))
        return _elements_at(at, x, _median_place(at, x, axis, skips_nan), axis)

    return translate


def _median_place(at: NodeContext, x: Value, axis: int, skips_nan: bool) -> Value:
    size = dims_of(x)[axis]
    if not size.is_static or size == 0:
        at.refuse(f"the median of {size} elements is not supported", "kthvalue")
    _refuse_bools(at, x, axis)
    return median_place(at.b, x, axis, skips_nan)


def mode(at: NodeContext, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The most frequent one of an axis, of several the smallest, and where it stands last"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    axis = at.axis(dim, rank_of(x))
    size = dims_of(x)[axis]
    if size.is_static and not 0 < int(size) <= MAX_COMPARED:
        at.refuse(f"the mode of {size} elements is not supported", f"1 to {MAX_COMPARED} are")
    return _elements_at(at, x, mode_place(at.b, at.b.cast(x, _number(x)), axis), axis)


def place_of(kind: str) -> Translation:
    """Where the largest or smallest element of an axis stands, the first of equals; of all
    elements where no axis is named"""

    def translate(
        at: NodeContext, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> Value:
        b = at.b
        flat = dim is None or rank_of(x) == 0
        x = b.reshape(x, (product(dims_of(x)),)) if flat else x
        axis = 0 if dim is None or flat else at.axis(dim, rank_of(x))
        return b.reshape(extremum_place(b, b.cast(x, _number(x)), kind, axis), at.dims)

    return translate


def extreme_and_place(kind: str) -> Translation:
    """The largest or smallest element of an axis, and where it stands, the first of equals"""

    def translate(
        at: NodeContext, x: Value, dim: int, keepdim: bool = False
    ) -> tuple[Value, Value]:
        if rank_of(x) == 0:
            return x, at.b.fill(0, (), "i64")
        b, axis = at.b, at.axis(dim, rank_of(x))
        place = extremum_place(b, b.cast(x, _number(x)), kind, axis)
        is_extremum = one_hot(b, place, dims_of(x)[axis], axis)
        chosen = b.select(is_extremum, b.cast(x, _number(x)), b.fill(0, (), _number(x)))
        value = b.cast(b.reduce("sum", chosen, [axis]), dtype_of(x))
        return b.reshape(value, at.dims), b.reshape(place, at.dims)

    return translate


def running_extreme(kind: str) -> Translation:
    """The largest or smallest element of an axis so far, and where it stands, the last of equals"""

    def translate(at: NodeContext, x: Value, dim: int) -> tuple[Value, Value]:
        if rank_of(x) == 0:
            return x, at.b.fill(0, (), "i64")
        axis, number = at.axis(dim, rank_of(x)), at.b.cast(x, _number(x))
        places = running_place(at.b, number, kind, axis)
        values = gather_elements(at.b, number, places, axis)
        return at.b.cast(values, dtype_of(x)), places

    return translate


def _elements_at(at: NodeContext, x: Value, place: Value, axis: int) -> tuple[Value, Value]:
    """The elements at places of an axis, of size 1 there, and the places."""
    value = gather_elements(at.b, x, place, axis)
    return at.b.reshape(value, at.dims), at.b.reshape(place, at.dims)


def _number(x: Value) -> str:
    """An element type that can be compared and counted."""
    return "i32" if dtype_of(x) == "i1" else dtype_of(x)


def _refuse_bools(at: NodeContext, x: Value, axis: int) -> None:
    if dtype_of(x) == "i1":
        at.refuse(f"ranking {dims_of(x)[axis]} elements of i1 is not supported", "numbers are")


OPERATORS: Table = {
    "sort": sort,
    "topk": largest,
    "kthvalue": kth_value,
    **dict.fromkeys(("median.dim", "median.default"), median(skips_nan=False)),
    **dict.fromkeys(("nanmedian.dim", "nanmedian.default"), median(skips_nan=True)),
    "mode": mode,
    "argmax": place_of("max"),
    "argmin": place_of("min"),
    "cummax": running_extreme("max"),
    "cummin": running_extreme("min"),
    "max.dim": extreme_and_place("max"),
    "min.dim": extreme_and_place("min"),
}
