"""Rows by number: embeddings and gathers of aten."""

from __future__ import annotations

from rnncc.frontends.torch.site import Site, Table, Value, rank_of
from rnncc.ir.types import dims_of, dtype_of


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


OPERATORS: Table = {
    "embedding": embedding,
    "index_select": index_select,
    "index": index,
}
