"""Rows by number: embeddings and gathers of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Site, Table, Translation, Value, rank_of
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.indexing import (
    extremum_place,
    from_front,
    gather_elements,
    one_hot,
    top_k,
    triangle,
)

MAX_RANKED = 4096
"""Elements of an axis that are compared each with each."""


def embedding(
    at: Site,
    weight: Value,
    index: Value,
    padding: int = -1,
    by_frequency: bool = False,
    sparse: bool = False,
) -> Value:
    """The rows of weight that index names; that of the padding gets no gradient"""
    if by_frequency:
        at.refuse("scale_grad_by_freq is not supported")
    rows = at.b.gather(weight, index, 0)
    if padding < 0:
        return rows
    is_padding = at.b.compare("eq", index, at.value(padding, dtype_of(index)))
    mask = at.b.reshape(is_padding, (*dims_of(index), 1))
    return at.b.select(mask, at.b.stop_gradient(rows), rows)


def index_select(at: Site, x: Value, dim: int, index: Value) -> Value:
    """Places of an axis"""
    return at.b.gather(x, index, at.axis(dim, rank_of(x)))


def index(at: Site, x: Value, indices: list[Value | None]) -> Value:
    """Places of one axis, numbers from 0"""
    used = [axis for axis, one in enumerate(indices) if one is not None]
    if len(used) != 1:
        at.refuse("several tensors of indices are not supported", "index_select")
    chosen = indices[used[0]]
    assert chosen is not None
    if dtype_of(chosen) == "i1":
        at.refuse("indexing with a mask is not supported", "torch.where")
    return at.b.gather(x, from_front(at.b, chosen, dims_of(x)[used[0]]), used[0])


def sort(
    at: Site, x: Value, dim: int = -1, descending: bool = False, stable: bool = True
) -> tuple[Value, Value]:
    """Numbers of one axis in order, and where each was; equal ones stay in their order"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    axis = _ranked(at, x, dim)
    return top_k(at.b, x, dims_of(x)[axis], axis, descending)


def largest(
    at: Site, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """The largest k of an axis in order, or the smallest, and where each was"""
    if rank_of(x) == 0:
        return x, at.b.fill(0, (), "i64")
    return top_k(at.b, x, k, _ranked(at, x, dim), largest)


def _ranked(at: Site, x: Value, dim: int) -> int:
    """An axis whose elements are compared each with each."""
    axis = at.axis(dim, rank_of(x))
    size = dims_of(x)[axis]
    if (size.is_static and int(size) > MAX_RANKED) or dtype_of(x) == "i1":
        at.refuse(f"ranking {size} elements of {dtype_of(x)} is not supported", f"{MAX_RANKED} are")
    return axis


def place_of(kind: str) -> Translation:
    """Where the largest or smallest element of an axis stands, the first of equals; of all
    elements where no axis is named"""

    def translate(at: Site, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        b = at.b
        flat = dim is None or rank_of(x) == 0
        x = b.reshape(x, (product(dims_of(x)),)) if flat else x
        axis = 0 if dim is None or flat else at.axis(dim, rank_of(x))
        return b.reshape(extremum_place(b, b.cast(x, _number(x)), kind, axis), at.dims)

    return translate


def extreme_and_place(kind: str) -> Translation:
    """The largest or smallest element of an axis, and where it stands, the first of equals"""

    def translate(at: Site, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        if rank_of(x) == 0:
            return x, at.b.fill(0, (), "i64")
        b, axis = at.b, at.axis(dim, rank_of(x))
        place = extremum_place(b, b.cast(x, _number(x)), kind, axis)
        here = one_hot(b, place, dims_of(x)[axis], axis)
        chosen = b.select(here, b.cast(x, _number(x)), b.fill(0, (), _number(x)))
        value = b.cast(b.reduce("sum", chosen, [axis]), dtype_of(x))
        return b.reshape(value, at.dims), b.reshape(place, at.dims)

    return translate


def _number(x: Value) -> str:
    """An element type that can be compared and counted."""
    return "i32" if dtype_of(x) == "i1" else dtype_of(x)


def gather(at: Site, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """y[i, j] = x[index[i, j], j] along axis 0, and so on; numbers from 0"""
    if not all(d.is_static for d in dims_of(x)):
        at.refuse("gather from a tensor of open sizes is not supported", "index_select")
    if rank_of(x) == 0:
        return at.b.reshape(x, at.dims)
    return gather_elements(at.b, x, index, at.axis(dim, rank_of(x)))


def triangular(upper: bool) -> Translation:
    """The upper or lower triangle of the last two axes, zeros elsewhere"""

    def translate(at: Site, x: Value, diagonal: int = 0) -> Value:
        return triangle(at.b, x, diagonal, upper)

    return translate


def scatter(at: Site, x: Value, dim: int, index: Value, new: Value) -> Value:
    """x with new[i] at index[i], of vectors; of several for one place, the last"""
    if rank_of(x) != 1:
        at.refuse("only a vector can be scattered to")
    b, size, count = at.b, dims_of(x)[0], dims_of(index)[0]
    place = b.iota([size, count], 0, dtype_of(index))
    meant = b.compare("eq", b.broadcast(index, [size, count], [1]), place)
    number = b.iota([size, count], 1, "i64")
    last = b.reduce("max", b.select(meant, number, b.full_like(number, -1)), [1])
    first = b.full_like(last, 0)
    found = b.gather(b.slice(new, 0, 0, count), b.maximum(last, first), 0)
    return b.select(b.compare("lt", last, first), x, found)


OPERATORS: Table = {
    "embedding": embedding,
    "index_select": index_select,
    "index": index,
    "sort": sort,
    "topk": largest,
    "argmax": place_of("max"),
    "argmin": place_of("min"),
    "max.dim": extreme_and_place("max"),
    "min.dim": extreme_and_place("min"),
    "gather": gather,
    "triu": triangular(upper=True),
    "tril": triangular(upper=False),
    "scatter.src": scatter,
}
