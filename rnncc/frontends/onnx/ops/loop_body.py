"""The body of a Loop: the values that it carries, lists among them that iterations append to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.captures import names_read
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.lists import StackedRows, types_in
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.appending import Appended, appended_by
from rnncc.frontends.onnx.ops.control import captures_of
from rnncc.frontends.onnx.trips import Trips
from rnncc.frontends.onnx.values import Value, varies
from rnncc.ir.dims import Dim
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.size_proofs import is_natural
from rnncc.records import record

if TYPE_CHECKING:
    from onnx import GraphProto

    from rnncc.frontends.onnx.captures import Captures
    from rnncc.frontends.onnx.scope import Scope


MAX_UNROLLED = 64
"""Iterations that are built one after another, where a loop's values change their shapes."""


class CountedState(Exception):
    """A carried value, by its number, of which an iteration leaves rows along an axis whose number
    the run decides: it has such from the start on, as many as there are."""

    def __init__(self, loop: LoopBody, index: int, axis: int) -> None:
        super().__init__(index)
        self.graph, self.index, self.axis = loop.graph, index, axis


@record
class Growth:
    """Rows that iterations add to a carried value.

    Attributes:
        axis: along which they are added.
        more: how many each iteration adds at most.
        rows: how many all iterations add; None where the run decides it.
    """

    axis: int
    more: Dim
    rows: Dim | None


class GrownState(Exception):
    """A carried value, by its number, to which each iteration of a loop that is not unrolled adds
    rows along an axis: it has room for all from the start on, of which some count."""

    def __init__(self, loop: LoopBody, index: int, growth: Growth) -> None:
        super().__init__(index)
        self.loop, self.index, self.growth = loop, index, growth


class UnreadState(Exception):
    """A carried value, by its number, that no iteration reads, and that each makes anew, of another
    shape than it starts with, such as the number that Paddle writes for a name without a value:
    what it starts as matters to a loop without iterations alone, which calls refuse."""

    def __init__(self, loop: LoopBody, index: int, count: Dim, like: Value) -> None:
        super().__init__(index)
        self.graph, self.index, self.count, self.like = loop.graph, index, count, like


@record
class LoopBody:
    """A loop, and what its body may know of the values that it carries.

    Attributes:
        carried: all values, as they are before the loop.
        moving: the numbers of those whose values the body computes; the others never change, or
            are formulas of the iteration's number.
        grown: those that have room for the rows that iterations add -> these.
    """

    n: Node
    graph: GraphProto
    trips: Trips
    carried: Sequence[Value]
    moving: Sequence[int]
    grown: Mapping[int, Growth] = field(default_factory=dict[int, Growth])

    @staticmethod
    def of(
        n: Node,
        graph: GraphProto,
        trips: Trips,
        carried: Sequence[Value],
        grown: Mapping[int, Growth],
    ) -> LoopBody:
        """The parts of a Loop."""
        # Behind a loop that data may end, only a carried number says how far it came.
        known = {*trips.fixed, *(trips.counters if trips.count is not None else ())}
        moving = [i for i in range(len(carried)) if i not in known]
        return LoopBody(n, graph, trips, carried, moving, grown)

    @property
    def is_unrolled(self) -> bool:
        """Whether it is built one iteration after another where values change their shapes."""
        count = self.trips.count
        return count is not None and count.is_static and int(count) <= MAX_UNROLLED

    @property
    def starts(self) -> list[Value]:
        """What the moving values are before the loop."""
        return [self.carried[index] for index in self.moving]

    def captures(self) -> Captures:
        """What the body reads of the graph around, and the values that never change."""
        named = {self.graph.input[2 + i].name: self.carried[i] for i in self.trips.fixed}
        return captures_of(self.n, self.graph, named)

    def bind(self, scope: Scope, number: Value, values: Sequence[Value]) -> None:
        """Give the body its arguments: an iteration's number, and the moving values."""
        names, step = [info.name for info in self.graph.input], Dim.of(self.trips.step)
        arguments = [number, Value.of(np.array(True))]
        for info, value in zip(self.graph.input, arguments, strict=False):
            scope.names[info.name] = _as_declared(scope, info, value)
        scope.names.update((names[2 + i], v) for i, v in zip(self.moving, values, strict=True))
        for index in set(self.trips.counters).difference(self.moving):
            value = self.trips.counter(index, self.carried[index], step)
            scope.names[names[2 + index]] = value

    def chosen(self, values: Sequence[Value]) -> list[Value]:
        """The moving ones among values for all that are carried."""
        return [values[index] for index in self.moving]

    def finals(self, values: Sequence[Value]) -> list[Value]:
        """All carried values behind the loop, of what the moving ones are there."""
        carried = list(self.carried)
        for index, value in zip(self.moving, values, strict=True):
            carried[index] = value
        for index in set(self.trips.counters).difference(self.moving):
            assert self.trips.count is not None
            carried[index] = self.trips.counter(index, self.carried[index], self.trips.count)
        return carried


def _as_declared(scope: Scope, info: Any, value: Value) -> Value:
    """A number or bool with one axis, if the graph says that it has one."""
    if len(info.type.tensor_type.shape.dim) != 1 or value.dims:
        return value
    if value.known is not None:
        return Value.of(value.known.reshape(1), dtype=value.dtype)
    return Value.computed(scope.b.reshape(scope.ssa(value), (1,)))


def emptied(
    values: Sequence[Value], grows: Sequence[bool], reads: bool, counts: bool = False
) -> list[Value]:
    """What a loop carries first: of lists that may grow, none of what they hold already, or their
    last elements where the body reads such, and how many there are where it counts them."""
    pairs = zip(values, grows, strict=True)
    return [_emptied(value, reads, counts) if grown else value for value, grown in pairs]


def _emptied(value: Value, reads: bool, counts: bool) -> Value:
    empty = StackedRows.listing()
    if not (reads and isinstance(value, StackedRows)):
        return empty
    return replace(empty, latest=value.items, before=value.length if counts else None)


def growing(values: Sequence[Value], grows: Sequence[bool], step: Dim | None = None) -> list[Value]:
    """What the body is given: lists that may grow are others than those it appends to. Those that
    are counted get an element in each iteration, of which `step` is the number."""
    pairs = zip(values, grows, strict=True)
    return [
        replace(value, earlier=object(), before=value.before and value.before + (step or 0))
        if grown and isinstance(value, StackedRows)
        else value
        for value, grown in pairs
    ]


def kept_values(
    loop: LoopBody,
    scope: Scope,
    before: Sequence[Value],
    after: Sequence[Value],
    grows: Sequence[bool],
    rows: list[Appended | None],
) -> list[Value] | None:
    """The values that go on to the next iteration; None where shapes, types or lengths change.

    Without the elements that this one appends, which `rows` gets.
    """
    columns = zip(loop.starts, before, after, grows, strict=True)
    step = None if loop.trips.count is None else loop.trips.step
    rows[:] = [appended_by(scope, *values, step) for values in columns]
    columns = zip(before, after, rows, strict=True)
    kept = [new if row is None else _moved_on(old, new) for old, new, row in columns]
    for number, (old, new) in enumerate(zip(before, kept, strict=True)):
        if isinstance(new, Partial) and old.is_tensor and old.dims == new.dims:
            raise CountedState(loop, loop.moving[number], new.axis)
        count, index = loop.trips.count, loop.moving[number]
        if count is not None and count != 0 and _is_unread(loop, index, old, new):
            raise UnreadState(loop, index, count, new)
        grown = None if loop.is_unrolled else _rows_added(loop, old, new)
        if grown is not None and not isinstance(old, Partial):
            raise GrownState(loop, index, grown)
        room = loop.grown.get(index)
        if isinstance(new, Partial) and grown and room and grown.more == room.more:
            kept[number] = _within_room(scope, old, new)
    counted = all(map(_is_counted, before, rows))
    return kept if counted and types_in(kept) == types_in(before) else None


def _rows_added(loop: LoopBody, old: Value, new: Value) -> Growth | None:
    """What a tensor has along the one axis along which it has more elements than before."""
    counted = isinstance(new, Partial) and old.is_tensor
    same = (old.form == new.form or counted) and old.dtype == new.dtype and old.rank == new.rank
    if not same or not (old.is_tensor or isinstance(old, Partial)):
        return None
    pairs = enumerate(zip(old.dims, new.dims, strict=True))
    added = [(axis, after - before) for axis, (before, after) in pairs if before != after]
    if len(added) != 1 or not added[0][1].is_static or int(added[0][1]) < 0:
        return None
    [(axis, more)], count = added, loop.trips.count
    if isinstance(new, Partial) and counted:
        return None if new.axis != axis else Growth(axis, more, _chunks_added(loop, new, more))
    return Growth(axis, more, None if count is None else count * more)


def _chunks_added(loop: LoopBody, new: Partial, more: Dim) -> Dim | None:
    """The size of the axis that iterations cut into chunks, one of which each adds."""
    assert new.count is not None
    chunks, trips = loop.n.scope.model.chunks, loop.trips
    for operand in (new.count, *_operands(new.count)):
        step, size = chunks.get(operand, ("", Dim.of(0)))
        if step == trips.step and trips.count is not None:
            left = trips.count * more - size  # where chunks are added twice, this is more
            return size if is_natural(more - 1 - left) else None
    return None


def _operands(value: SSAValue) -> Sequence[SSAValue]:
    return value.owner.operands if isinstance(value.owner, Add) else ()


def _within_room(scope: Scope, old: Value, new: Partial) -> Partial:
    """Rows that count, in a tensor that has room for all that iterations add: more of them than
    that are an error of the run."""
    b, room, count = scope.b, old.dims[new.axis], new.count
    assert count is not None
    over = b.compare("gt", count, b.size(room, "i64"))
    row = b.select(over, b.fill(1, (), "i64"), b.fill(0, (), "i64"))  # of one, or beyond it
    count = b.reshape(b.gather(b.reshape(count, (1,)), b.reshape(row, (1,)), 0), ())
    rows = b.slice(scope.ssa(new.whole()), new.axis, 0, room)
    return Partial.counted(Value.computed(rows), new.axis, count)


def _is_unread(loop: LoopBody, index: int, old: Value, new: Value) -> bool:
    """Whether only the last iteration decides what a tensor is, and of what shape."""
    if loop.n.scope.model.branches or not (old.is_tensor and new.is_tensor):
        return False
    if isinstance(new, Partial):
        return False
    if old.dims == new.dims or old.dtype != new.dtype or any(map(varies, new.dims)):
        return False
    return loop.graph.input[2 + index].name not in names_read(loop.graph)


def _is_counted(old: Value, row: Appended | None) -> bool:
    """Whether a list that the body counted gets the one element that it takes for granted."""
    if not isinstance(old, StackedRows) or old.before is None:
        return True
    return row is not None and row.single and not row.in_front


def _moved_on(old: Value, new: Value) -> Value:
    """A list that grows, with the last elements that it has now."""
    assert isinstance(old, StackedRows) and isinstance(new, StackedRows)
    return replace(old, latest=new.ends[len(new.ends) - len(old.latest) :])


def outputs_of(rows: Sequence[Appended | None]) -> list[SSAValue]:
    """What a loop stacks of the elements that its iterations append."""
    return [value for row in rows if row is not None for value in row.outputs]


def values_behind(
    loop: LoopBody,
    finals: Sequence[Value],
    grows: Sequence[bool],
    rows: Sequence[Appended | None],
    ys: Iterator[SSAValue],
    iterations: SSAValue | None = None,
) -> list[Value]:
    """All carried values behind a loop, whose lists have what iterations have appended.

    Args:
        finals: the moving ones after the last iteration, without that.
        ys: what the loop has stacked, first of lists.
        iterations: as of `Appended.behind`.
    """
    ends = list[Value]()
    for start, final, grown, row in zip(loop.starts, finals, grows, rows, strict=True):
        if grown and row is not None:
            assert isinstance(start, StackedRows)
            ends.append(row.behind(loop.n, start, ys, iterations))
        else:
            ends.append(start if grown else final)
    return loop.finals(ends)
