"""Single integers of small tensors that are put together from others: where each comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from rnncc.frontends.onnx.formulas.sizes import Undecided, decide
from rnncc.ir.attributes import get_dim, get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Add, Compare, Mul, Select
from rnncc.ir.ops.indexing import Gather
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.ops.source import Constant, Fill, Iota, Size
from rnncc.ir.types import dims_of, dtype_of

MOST = 64
"""Ops that are looked through for one element."""
Place = tuple[int, ...]
Origin = tuple[SSAValue, Place]
"""A tensor and where in it an element stands."""


class _Search:
    """Where elements come from, in a limited number of steps: values may be read many times.

    Attributes:
        left: how many more ops are looked through.
    """

    def __init__(self) -> None:
        self.left = MOST

    def origin(self, value: SSAValue, place: Place) -> Origin:
        """Where an element comes from, through ops that move elements."""
        while (step := self._moved_from(value, place)) is not None:
            value, place = step
        return value, place

    def _moved_from(self, value: SSAValue, place: Place) -> Origin | None:
        op = value.owner
        if self.left == 0 or not isinstance(op, Operation):
            return None
        self.left -= 1
        if not all(size.is_static for x in op.operands for size in dims_of(x)):
            return None
        if isinstance(op, Gather):
            return self._gathered_from(op, place)
        move = _MOVES.get(type(op))
        return None if move is None else move(op, place)

    def _gathered_from(self, op: Gather, place: Place) -> Origin | None:
        axis, rank = op.axis.data, len(dims_of(op.index))
        index = self.formula(*self.origin(op.index, place[axis : axis + rank]))
        if index is None or not index.is_static or not 0 <= int(index) < int(dims_of(op.x)[axis]):
            return None
        return op.x, (*place[:axis], int(index), *place[axis + rank :])

    def formula(self, value: SSAValue, place: Place) -> Dim | None:
        """The formula of sizes that an element is."""
        op = value.owner
        if isinstance(op, Constant):
            return Dim.of(int(op.array()[place]))
        if isinstance(op, Fill):
            return Dim.of(int(op.value.value.data))
        if isinstance(op, Size):
            return get_dim(op.dim)
        if isinstance(op, Iota):
            return Dim.of(place[op.axis.data])
        if self.left == 0 or not isinstance(op, Add | Mul):
            return None
        self.left -= 1
        one, other = (self.formula(*self.origin(x, place)) for x in op.operands)
        if one is None or other is None:
            return None
        return one + other if isinstance(op, Add) else one * other


def element_at(b: Builder, vector: SSAValue, at: int) -> Dim | SSAValue:
    """An integer of a vector of known size: a formula, if it is one, or a computed number."""
    search = _Search()
    value, place = search.origin(vector, (at,))
    if (formula := search.formula(value, place)) is not None:
        return formula
    for axis, index in enumerate(place):
        value = b.slice(value, axis, index, 1)
    return b.cast(b.reshape(value, ()), dtype_of(vector))


def elements_of(b: Builder, vector: SSAValue) -> list[Dim | SSAValue]:
    """The integers of a vector of known size, one by one; those that are formulas are known."""
    op, (size,) = vector.owner, dims_of(vector)
    if isinstance(op, Concat):
        return [element for _, part in op.parts for element in elements_of(b, part)]
    if isinstance(op, Constant):
        return [Dim.of(int(number)) for number in op.array()]
    if isinstance(op, Fill):
        return [Dim.of(int(op.value.value.data))] * int(size)
    if isinstance(op, Slice) and isinstance(op.x.owner, Concat) and dims_of(op.x)[0].is_static:
        start = int(get_dim(op.start))
        return elements_of(b, op.x)[start : start + int(size)]
    if isinstance(op, Select) and _compares(op.condition.owner):
        return _chosen_elements(b, op)
    return [element_at(b, vector, at) for at in range(int(size))]


def _compares(op: Operation | Block) -> bool:
    return isinstance(op, Compare) and op.kind.data == "eq"


def _chosen_elements(b: Builder, op: Select) -> list[Dim | SSAValue]:
    """The elements of `where(x == y, a, b)`; those for which it is known are these themselves."""

    def number(element: Dim | SSAValue, dtype: str) -> SSAValue:
        return b.size(element, dtype) if isinstance(element, Dim) else element

    def chosen(x: Any, y: Any, if_equal: Any, other: Any) -> Dim | SSAValue:
        if isinstance(x, Dim) and isinstance(y, Dim):
            with suppress(Undecided):
                return if_equal if decide("eq", x, y) else other
        same = b.compare("eq", *(number(element, compared) for element in (x, y)))
        return b.select(same, number(if_equal, "i64"), number(other, "i64"))

    condition = op.condition.owner
    assert isinstance(condition, Compare)
    compared = dtype_of(condition.a)
    vectors = (condition.a, condition.b, op.a, op.b)
    return [chosen(*four) for four in zip(*(elements_of(b, v) for v in vectors), strict=True)]


def _concat(op: Concat, place: Place) -> Origin | None:
    axis = op.axis.data
    for start, x in op.parts:
        within = place[axis] - int(start)
        if within < int(dims_of(x)[axis]):
            return x, (*place[:axis], within, *place[axis + 1 :])
    return None


def _reshape(op: Reshape, place: Place) -> Origin:
    flat = np.ravel_multi_index(place, _sizes(op.y)) if place else 0
    return op.x, tuple(int(i) for i in np.unravel_index(flat, _sizes(op.x)))


def _transpose(op: Transpose, place: Place) -> Origin:
    source = [0] * len(place)
    for axis, index in zip(get_ints(op.perm), place, strict=True):
        source[axis] = index
    return op.x, tuple(source)


def _slice(op: Slice, place: Place) -> Origin | None:
    axis, start = op.axis.data, get_dim(op.start)
    if not start.is_static:
        return None
    return op.x, (*place[:axis], place[axis] + int(start), *place[axis + 1 :])


def _broadcast(op: Broadcast, place: Place) -> Origin:
    pairs = zip(get_ints(op.axes), _sizes(op.x), strict=True)
    return op.x, tuple(place[axis] if size > 1 else 0 for axis, size in pairs)


def _cast(op: Cast, place: Place) -> Origin | None:
    kinds = dtype_of(op.x), dtype_of(op.y)
    return (op.x, place) if kinds[0] == kinds[1] or kinds == ("i32", "i64") else None


def _sizes(value: SSAValue) -> Sequence[int]:
    return [int(size) for size in dims_of(value)]


_MOVES: dict[type, Callable[..., Origin | None]] = {
    Concat: _concat,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Broadcast: _broadcast,
    Cast: _cast,
}
