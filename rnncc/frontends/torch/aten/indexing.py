"""Rows by number: embeddings and gathers of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Site, Table, Value, rank_of
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.indexing import ranks


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
    size = at.value(at.b.size(dims_of(x)[used[0]]), dtype_of(chosen))
    below = at.b.compare("lt", chosen, at.value(0, dtype_of(chosen)))
    return at.b.gather(x, at.b.select(below, at.b.add(chosen, size), chosen), used[0])


def sort(
    at: Site, x: Value, dim: int = -1, descending: bool = False, stable: bool = True
) -> tuple[Value, Value]:
    """Numbers of one axis in order, and where each was; equal ones stay in their order"""
    if rank_of(x) != 1:
        at.refuse("only a vector can be sorted")
    b, (size,) = at.b, dims_of(x)
    rank = b.broadcast(ranks(b, x, descending), [size, size], [1])
    at_rank = b.compare("eq", rank, b.iota([size, size], 0, "i32"))
    number = b.iota([size, size], 1, "i64")
    places = b.reduce("sum", b.select(at_rank, number, b.full_like(number, 0)), [1])
    return b.gather(x, places, 0), places


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
    "scatter.src": scatter,
}
