"""Elementwise operators on rows of which the run decides how many count, and on other tensors or
other such rows: as many must be there of each, and then the rows of all are brought to one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import one_that_fits
from rnncc.frontends.onnx.counted.rows import Crossed, Partial, crossed, parts_of
from rnncc.frontends.onnx.formulas.offsets import are_same
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import smaller
from rnncc.ir.types import dims_of

Operands = Sequence[Value | None]


def of_one_size(n: Node, inputs: Operands) -> list[Value | None]:
    """The inputs, such rows of them with the size of a tensor that they are combined with, which
    is how many must count, or one: if others do, the run fails; among themselves with the least
    bound, and of equal bounds, 1 apart, as many as of each that has not one.
    """
    places = {rows.axis - rows.rank for value in inputs for rows in parts_of(value)}
    return [*reduce(partial(_of_one_size, n), sorted(places), inputs)]


def _of_one_size(n: Node, inputs: Operands, place: int) -> Operands:
    """The same along one axis, counted from the last one."""
    views = [next((p for p in parts_of(v) if p.axis - p.rank == place), v) for v in inputs]
    return [*map(partial(_with_other_axis, place), inputs, _along_one(n, views, place))]


def _with_other_axis(place: int, value: Value | None, rows: Value | None) -> Value | None:
    """Rows along one axis, for those of a value: if its rows count along another one, too, so do
    they."""
    if not isinstance(value, Crossed) or rows is None or isinstance(rows, Crossed):
        return rows
    [other] = [part for part in value.along() if part.axis - part.rank != place]
    kept = Partial.counted(rows.whole(), other.axis, other.count)
    return crossed(kept, rows) if isinstance(rows, Partial) else kept


def _along_one(n: Node, inputs: Operands, place: int) -> Operands:
    """The same of values whose rows along other axes are all taken to count."""
    reaching = [value for value in inputs if value is not None and value.rank >= -place]
    rows = [value for value in reaching if _lies_along(value, place)]
    whole = [v.dims[place] for v in reaching if v not in rows and v.dims[place] != 1]
    bounds = [value.dims[place] for value in rows]
    if whole:
        return [_settled(n, v, whole[0]) if v in rows else v for v in inputs]
    many = {bound for bound in bounds if bound != 1}
    if len(many) < 2:
        size = many.pop() if many else Dim.of(1)
        return _spread(n, inputs, [v for v in rows if isinstance(v, Partial)], size)
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
    b, length = n.b, n.b.size(size, "i64")
    return _of_rows(value, _rows_of(n, value, size, _fitting(b, value.count, length))).whole()


def _spread(n: Node, inputs: Operands, rows: Sequence[Partial], size: Dim) -> Operands:
    """Rows of one bound, or of at most one row, of each that has but one as many as of the
    others."""
    b, counts = n.b, [value.count for value in rows if value.count is not None]
    if all(are_same(counts[0], count) for count in counts[1:]):
        return inputs
    one = n.full(1, counts[0])
    most = reduce(lambda x, y: b.select(b.compare("eq", x, one), y, x), counts)

    def spread(value: Value | None) -> Value | None:
        if not isinstance(value, Partial) or value not in rows or value.count is None:
            return value
        gathered = _rows_of(n, value, size, _fitting(b, value.count, most))
        return replace(_of_rows(value, gathered), count=most)

    return [spread(value) for value in inputs]


def _fitting(b: Builder, count: SSAValue, most: SSAValue) -> SSAValue:
    """By how many rows one goes on from an element to the next: by none, if there is one row for
    many; if others count than so many, the run fails."""
    one = b.fill(1, (), "i64")
    alone, as_many = b.compare("eq", count, one), b.compare("eq", count, most)
    step = b.select(as_many, one, b.fill(0, (), "i64"))
    return one_that_fits(b, step, b.logical("or", alone, as_many))


def _rows_of(n: Node, value: Partial, size: Dim, step: SSAValue) -> SSAValue:
    """So many rows, from the first one on."""
    b = n.b
    last = b.broadcast(b.size(value.dims[value.axis] - 1, "i64"), (size,), [])
    places = b.mul(b.iota((size,), 0, "i64"), b.broadcast(step, (size,), []))
    return b.gather(n.scope.ssa(value.whole()), b.minimum(places, last), value.axis)


def _of_rows(value: Partial, rows: SSAValue) -> Partial:
    return replace(value, dims=dims_of(rows), made=rows)
