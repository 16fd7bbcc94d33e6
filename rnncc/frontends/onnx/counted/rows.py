"""Tensors of which the run decides how many rows count, along one axis or two: those of a bound are
there.

What the rows behind those that count hold means nothing, but may be computed with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record

MOST_COUNTED = 2
"""Axes along which the run decides how many rows count."""
READERS = "operators that compute row by row, Shape and outputs may"


@record(eq=False)
class Partial(Value):
    """A tensor whose size along an axis is a bound.

    Attributes:
        axis: of the rows.
        count: how many of them count, an int64 without axes.
    """

    axis: int = 0
    count: SSAValue | None = None

    @staticmethod
    def counted(value: Value, axis: int, count: SSAValue | None) -> Partial:
        """A computed value of which the first rows along an axis count."""
        assert not isinstance(value, Partial | Crossed), "all rows of a value are meant"
        return Partial(value.dtype, value.dims, made=value.made, axis=axis, count=count)

    @property
    def form(self) -> tuple[Any, ...]:
        """No tensor's."""
        return "partial", self.axis

    def tensors(self) -> list[Value]:
        """All rows, and how many count."""
        assert self.count is not None
        return [self.whole(), Value.computed(self.count)]

    def holding(self, tensors: Sequence[Value]) -> Partial:
        """Other rows, of which others count."""
        rows, count = tensors
        return Partial.counted(rows, self.axis, count.made)

    def whole(self) -> Value:
        """The rows of the bound."""
        return Value(self.dtype, self.dims, made=self.made)

    def __str__(self) -> str:
        return "a tensor whose number of rows the run decides"


@record(eq=False)
class Crossed(Value):
    """A tensor whose sizes along two axes are bounds.

    Attributes:
        axes: of the rows.
        counts: how many rows along each count, int64 without axes.
    """

    axes: tuple[int, int] = (0, 1)
    counts: tuple[SSAValue, ...] = ()

    @staticmethod
    def counted(tensor: Value, axes: tuple[int, int], counts: tuple[SSAValue, ...]) -> Crossed:
        """A tensor of whose rows along each of two axes so many count."""
        return Crossed(tensor.dtype, tensor.dims, made=tensor.made, axes=axes, counts=counts)

    @property
    def form(self) -> tuple[Any, ...]:
        """No tensor's."""
        return "crossed", *self.axes

    def tensors(self) -> list[Value]:
        """All rows, and how many count."""
        return [self.whole(), *map(Value.computed, self.counts)]

    def holding(self, tensors: Sequence[Value]) -> Crossed:
        """Other rows, of which others count."""
        rows, *counts = tensors
        computed = tuple(count.made for count in counts if count.made is not None)
        return Crossed.counted(rows, self.axes, computed)

    def whole(self) -> Value:
        """The rows of the bounds."""
        return Value(self.dtype, self.dims, made=self.made)

    def along(self) -> list[Partial]:
        """The same along each of the axes, all rows along the other one taken to count."""
        pairs = zip(self.axes, self.counts, strict=True)
        return [Partial.counted(self.whole(), axis, count) for axis, count in pairs]

    def __str__(self) -> str:
        return "a tensor whose numbers of rows along two axes the run decides"


def crossed(x: Partial, along: Partial) -> Crossed:
    """Rows that count along another axis too.

    Args:
        along: made of all rows of x.
    """
    assert x.count is not None and along.count is not None and x.axis != along.axis
    return Crossed.counted(along.whole(), (x.axis, along.axis), (x.count, along.count))


def counted_along(tensor: Value, counts: Mapping[int, SSAValue]) -> Value:
    """A tensor of whose rows along one axis or two so many count."""
    rows = [Partial.counted(tensor, axis, count) for axis, count in counts.items()]
    return crossed(*rows) if len(rows) == MOST_COUNTED else rows[0]


def parts_of(value: Value | None) -> list[Partial]:
    """A value along each of the axes along which the run decides how many rows count."""
    if isinstance(value, Crossed):
        return value.along()
    return [value] if isinstance(value, Partial) else []


def counting(b: Builder, count: SSAValue, dims: Sequence[Dim], axis: int) -> SSAValue:
    """Bools of a shape: whether an element lies in the first rows along an axis, which count."""
    counts = b.compare("lt", b.iota((dims[axis],), 0, "i64"), b.broadcast(count, (dims[axis],), []))
    return b.broadcast(counts, dims, [axis])


def filled(
    b: Builder, x: SSAValue, count: SSAValue, axis: int, other: float | SSAValue
) -> SSAValue:
    """x with another number behind the first rows along an axis that count."""
    dims = dims_of(x)
    counts = counting(b, count, dims, axis)
    other = other if isinstance(other, SSAValue) else b.fill(other, (), dtype_of(x))
    return b.select(counts, x, b.broadcast(other, dims, []))


def first_rows(b: Builder, rows: SSAValue, count: SSAValue) -> Partial:
    """Rows along axis 0, of which the first count; the others, which may be anything, become 0."""
    kept = filled(b, rows, count, 0, 0)
    return Partial.counted(Value.computed(kept), 0, count)
