"""Elementwise operators on rows of which the run decides how many count, and on other tensors or
other such rows: as many must be there of each, and then the rows of all are brought to one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted import one_that_fits
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.partial import Partial
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import smaller
from rnncc.ir.types import dims_of

Operands = Sequence[Value | None]


def of_one_size(n: Node, inputs: Operands) -> list[Value | None]:
    """The inputs, such rows of them with the size of a tensor that they are combined with, which
    is how many must count: if others do, the run fails; among themselves with the least bound.
    """
    places = {value.axis - value.rank for value in inputs if isinstance(value, Partial)}
    return [*reduce(partial(_of_one_size, n), sorted(places), inputs)]


def _of_one_size(n: Node, inputs: Operands, place: int) -> Operands:
    """The same along one axis, counted from the last one."""
    reaching = [value for value in inputs if value is not None and value.rank >= -place]
    rows = [value for value in reaching if _lies_along(value, place)]
    whole = [v.dims[place] for v in reaching if v not in rows and v.dims[place] != 1]
    bounds = [value.dims[place] for value in rows]
    if whole:
        return [_settled(n, v, whole[0]) if v in rows else v for v in inputs]
    least = reduce(smaller, bounds)
    return [shortened(n, v, least) if v in rows and v.dims[place] != least else v for v in inputs]


def _lies_along(value: Value, place: int) -> bool:
    return isinstance(value, Partial) and value.axis - value.rank == place


def shortened(n: Node, value: Value | None, size: Dim) -> Partial:
    """The first rows, at least as many as count."""
    assert isinstance(value, Partial) and value.made is not None
    return _of_rows(value, n.b.slice(value.made, value.axis, 0, size))


def _settled(n: Node, value: Value | None, size: Dim) -> Value:
    """All of so many rows, which must count: else the run fails."""
    assert isinstance(value, Partial) and value.made is not None and value.count is not None
    b, zero = n.b, n.full(0, value.count)
    zero = one_that_fits(b, zero, b.compare("eq", value.count, b.size(size, "i64")))
    last = b.broadcast(b.size(value.dims[value.axis] - 1, "i64"), (size,), [])
    places = b.add(b.iota((size,), 0, "i64"), b.broadcast(zero, (size,), []))
    return _of_rows(value, b.gather(value.made, b.minimum(places, last), value.axis)).whole()


def _of_rows(value: Partial, rows: SSAValue) -> Partial:
    return replace(value, dims=dims_of(rows), made=rows)
