"""Loop: a graph that runs again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.lists import StackedRows, refilled
from rnncc.frontends.onnx.node import STORED, Node, OnnxOperator
from rnncc.frontends.onnx.ops.control import (
    Inside,
    captures_of,
    inline,
    results_of,
    tensors_in,
    types_in,
)
from rnncc.frontends.onnx.partial import first_rows
from rnncc.frontends.onnx.trips import Trips, given_count, is_endless, trips_of
from rnncc.frontends.onnx.values import Value, size_value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.gates import DEFAULT_LIMIT
from rnncc.ir.types import dims_of, tensor

if TYPE_CHECKING:
    from onnx import GraphProto

    from rnncc.frontends.onnx.captures import Captures
    from rnncc.frontends.onnx.scope import Scope

MAX_UNROLLED = 64
"""Iterations that are built one after another, where a loop's values change their shapes."""


def _loop(n: Node) -> list[Any]:
    """Run a graph again and again: so often, or while its condition holds.

    Refused: values that change shape, type or length from one iteration to the next, but in 64
    known iterations; more than `--max-iterations`; scan outputs of a loop that data ends where
    nothing bounds it.
    """
    graph = n.graph("body")
    carried = [n.value(i) for i in range(2, len(n.inputs))]
    if len(graph.input) != len(carried) + 2 or len(graph.output) < len(carried) + 1:
        what = f"has {len(carried)} carried values, its body {len(graph.input)} inputs"
        raise n.error(f"{what} and {len(graph.output)} outputs")
    trips = trips_of(n, graph, carried)
    if trips.count is not None:
        return _counted(_Parts.of(n, graph, trips, carried), trips.count)
    if trips.endless:
        raise n.error("has neither a trip count nor a condition that ends it")
    parts = _Parts.of(n, graph, trips, carried)
    try:
        return _ended(parts)
    except NeedsValue:
        for index in (i for i in (0, 1) if trips.always and n.has(i)):
            n.known(index)  # with a known count and first condition it could be unrolled
        raise


@dataclass(frozen=True)
class _Parts:
    """A loop, and what its body may know of the values that it carries.

    Attributes:
        carried: all values, as they are before the loop.
        moving: the numbers of those whose values the body computes; the others never change, or
            are formulas of the iteration's number.
    """

    n: Node
    graph: GraphProto
    trips: Trips
    carried: Sequence[Value]
    moving: Sequence[int]

    @staticmethod
    def of(n: Node, graph: GraphProto, trips: Trips, carried: Sequence[Value]) -> _Parts:
        """The parts of a Loop."""
        known = {*trips.fixed, *(trips.counters if trips.count is not None else ())}
        return _Parts(n, graph, trips, carried, [i for i in range(len(carried)) if i not in known])

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

    def chosen(self, made: Sequence[Value]) -> list[Value]:
        """The moving ones among values for all that are carried."""
        return [made[index] for index in self.moving]

    def finals(self, values: Sequence[Value]) -> list[Value]:
        """All carried values behind the loop, of what the moving ones are there."""
        made = list(self.carried)
        for index, value in zip(self.moving, values, strict=True):
            made[index] = value
        for index in set(self.trips.counters).difference(self.moving):
            assert self.trips.count is not None
            made[index] = self.trips.counter(index, self.carried[index], self.trips.count)
        return made


def _as_declared(scope: Scope, info: Any, value: Value) -> Value:
    """A number or bool with one axis, if the graph says that it has one."""
    if len(info.type.tensor_type.shape.dim) != 1 or value.dims:
        return value
    if value.known is not None:
        return Value.of(value.known.reshape(1), dtype=value.dtype)
    return Value.computed(scope.b.reshape(scope.ssa(value), (1,)))


def _counted(loop: _Parts, count: Dim) -> list[Any]:
    """A loop of known trip count: a scan, or one iteration after another where shapes change."""
    small = count.is_static and int(count) <= MAX_UNROLLED
    if count == 0:
        return _never(loop)
    try:
        found = _scanned(loop, count, StackedRows.may_grow)
        if found is None and any(map(StackedRows.may_grow_on, loop.starts)):
            found = _scanned(loop, count, StackedRows.may_grow_on)
    except NeedsValue:
        if not small:
            raise
        found = None  # the number of the iteration decides a shape
    if found is None and not small:
        what = f"carries values whose shapes, types or lengths change, over {count} iterations"
        raise loop.n.unsupported(what, f"up to {MAX_UNROLLED} known iterations are supported")
    if found is None:
        return _unrolled(loop.n, loop.graph, int(count), list(loop.carried))
    return found


def _scanned(loop: _Parts, count: Dim, may_grow: Callable[[Value], bool]) -> list[Any] | None:
    """A loop as a scan; None where its values do not keep their shapes, types and lengths.

    A list that may grow, to which each iteration appends one element, becomes rows.
    """
    n, grows = loop.n, [may_grow(v) for v in loop.starts]
    starts = [
        StackedRows.listing() if grown else v for v, grown in zip(loop.starts, grows, strict=True)
    ]
    held = [t for v in starts for t in v.tensors()]
    if any(t.dtype not in STORED for t in held):
        return None
    captures, types = loop.captures(), [tensor(t.dims, t.dtype) for t in held]
    inside = Inside(n, captures, [*types, tensor((), "i64")])
    *carry, number = inside.given
    inside.scope.steps[loop.trips.step] = number
    given, rows = _growing(refilled(starts, carry), grows), list[Value | None]()
    loop.bind(inside.scope, size_value(Dim.of(loop.trips.step)), given)
    made = inside.scope.run(loop.graph, n.inside)[1:]
    scans = made[len(loop.carried) :]
    kept = _kept(loop, given, loop.chosen(made), grows, rows)
    if kept is None:
        return None
    stacks = [row for row in rows if row is not None] + scans
    results = [*tensors_in(inside.scope, kept), *(inside.scope.ssa(v) for v in stacks)]
    inits, iterations = tensors_in(n.scope, starts), n.b.iota((count,), 0, "i64")
    finals, ys = n.b.scan_of(captures.consts, inits, [iterations], inside.b, results, count)
    stacked = iter(ys)
    last = [
        _behind(n, first, next(stacked) if row is not None else None) if grown else last
        for first, last, row, grown in zip(
            loop.starts, refilled(starts, finals), rows, grows, strict=True
        )
    ]
    return [*loop.finals(last), *stacked]


def _growing(values: Sequence[Value], grows: Sequence[bool]) -> list[Value]:
    """What the body is given: lists that may grow are others than those it appends to."""
    pairs = zip(values, grows, strict=True)
    return [StackedRows.listing(earlier=object()) if grown else value for value, grown in pairs]


def _kept(
    loop: _Parts,
    given: Sequence[Value],
    after: Sequence[Value],
    grows: Sequence[bool],
    rows: list[Value | None],
) -> list[Value] | None:
    """The values that go on to the next iteration; None where shapes, types or lengths change.

    Without the elements that this one appends, which `rows` gets.
    """
    rows[:] = [_appended(*each) for each in zip(given, after, grows, strict=True)]
    kept = [new if row is None else old for old, new, row in zip(given, after, rows, strict=True)]
    fits = types_in(kept) == types_in(given) and all(map(_fits, loop.starts, rows))
    return kept if fits else None


def _fits(start: Value, row: Value | None) -> bool:
    """Whether the elements that a list begins with are like those that are appended to it."""
    if row is None:
        return True
    assert isinstance(start, StackedRows)
    first = [] if start.stacked is None else [(start.stacked.dtype, start.stacked.dims[1:])]
    first += [(item.dtype, item.dims) for item in start.items]
    return all(each == (row.dtype, row.dims) for each in first)


def _behind(n: Node, start: Value, rows: SSAValue | None) -> Value:
    """A list of the elements that it began with and of rows, if iterations append some."""
    assert isinstance(start, StackedRows)
    if rows is None:
        return start
    first = [] if start.stacked is None else [n.scope.ssa(start.stacked)]
    for item in start.items:
        first.append(n.b.reshape(n.scope.ssa(item), (1, *item.dims)))
    joined = n.b.concat([*first, rows], 0) if first else rows
    return StackedRows.listing(stacked=Value.computed(joined))


def _appended(old: Value, new: Value, grows: bool) -> Value | None:
    """The one element that an iteration appends to a list that may grow."""
    if not (
        grows
        and isinstance(old, StackedRows)
        and isinstance(new, StackedRows)
        and len(new.items) == 1
    ):
        return None
    return new.items[0] if new.form == old.appended(new.items[0]).form else None


def _never(loop: _Parts) -> list[Any]:
    """A loop without iterations: the values as they are, and no rows of its scan outputs.

    What shape such rows would have is what the graph says, else what its nodes would make. Where
    these do not tell either, sizes that are not declared are 0, as ONNX Runtime has them.
    """
    n, infos = loop.n, loop.graph.output[1 + len(loop.carried) :]
    if not all(map(_has_known_shape, infos)):
        try:
            found = _scanned(loop, Dim.of(0), StackedRows.may_grow)
        except CompileError:
            found = None
        if found is not None:
            return [*loop.carried, *found[len(loop.carried) :]]
    return [*loop.carried, *(_no_rows(n, info) for info in infos)]


def _has_shape(info: Any) -> bool:
    """Whether a graph declares the rank of an output."""
    return info.type.tensor_type.HasField("shape")


def _has_known_shape(info: Any) -> bool:
    """Whether it declares the output's sizes as numbers."""
    sizes = info.type.tensor_type.shape.dim
    return _has_shape(info) and all(size.HasField("dim_value") for size in sizes)


def _no_rows(n: Node, info: Any) -> SSAValue:
    """A scan output of a loop without iterations, as it is declared."""
    dtype = dtype_name(info.type.tensor_type.elem_type)
    if dtype not in STORED or not _has_shape(info):
        raise n.unsupported("takes no iteration, and does not say what its rows would be")
    return n.b.fill(0, (0, *(d.dim_value for d in info.type.tensor_type.shape.dim)), dtype)


def _unrolled(n: Node, graph: GraphProto, trips: int, carried: list[Value]) -> list[Any]:
    rows, count = list[list[Value]](), len(carried)
    for iteration in range(trips):
        names = [info.name for info in graph.input]
        arguments = [Value.of(np.array(iteration, np.int64)), Value.of(np.array(True)), *carried]
        made = inline(n, graph, dict(zip(names, arguments, strict=True)))
        carried = made[1 : 1 + count]
        rows.append(made[1 + count :])
    scans = list[SSAValue]()
    for index in range(len(graph.output) - 1 - count):
        parts = [n.scope.ssa(row[index]) for row in rows]
        scans.append(n.b.concat([n.b.reshape(p, (1, *dims_of(p))) for p in parts], 0))
    return [*carried, *scans]


def _ended(loop: _Parts) -> list[Any]:
    """A loop that a condition may end, whose lists may grow."""
    try:
        return _gated(loop, lambda value: False)
    except NeedsValue:
        if not any(map(StackedRows.may_grow_on, loop.starts)):
            raise
    return _gated(loop, StackedRows.may_grow_on)


def _gated(loop: _Parts, may_grow: Callable[[Value], bool]) -> list[Any]:
    """A loop that a condition may end.

    Of scan outputs, and of lists that may grow, the run decides how many rows count.
    """
    n, most, grows = loop.n, given_count(loop.n), [may_grow(v) for v in loop.starts]
    starts = [
        StackedRows.listing() if grown else v for v, grown in zip(loop.starts, grows, strict=True)
    ]
    stacks = any(grows) or len(loop.graph.output) > 1 + len(loop.carried)
    length, limited = _row_limit(loop, most) if stacks else _limit(n, most)
    b, captures = n.b, loop.captures()
    consts, inits = list(captures.consts), tensors_in(n.scope, starts)
    number, gate = b.fill(0, (), "i64"), b.fill(1, (), "i1")
    gate = b.reshape(n.x(1, ("i1",)), ()) if n.has(1) else gate
    counted = n.has(0) and not (most is not None and most.is_static) and not is_endless(n)
    if counted:
        consts.append(b.reshape(n.x(0, ("i64",)), ()))
        gate = b.logical("and", gate, b.compare("lt", number, consts[-1]))
    appended = list[Value | None]()

    def iteration(inner: Builder, held: Any, carry: Any, rows: Any) -> tuple[Any, Any]:
        scope = captures.inside(inner, held[: len(captures.consts)])
        given = _growing(refilled(starts, carry[2:]), grows)
        loop.bind(scope, Value.computed(carry[1]), given)
        condition, *made = results_of(n, scope, loop.graph)
        kept = _kept(loop, given, loop.chosen(made), grows, appended)
        if kept is None:
            raise _early(n, "carries values whose shapes, types or lengths change")
        following = inner.add(carry[1], inner.fill(1, (), "i64"))
        goes_on = inner.reshape(scope.ssa(condition), ())
        if counted:
            goes_on = inner.logical("and", goes_on, inner.compare("lt", following, held[-1]))
        stacked = [row for row in appended if row is not None] + made[len(loop.carried) :]
        values = tensors_in(scope, kept)
        return [goes_on, following, *values], [scope.ssa(row) for row in stacked]

    finals, ys = b.scan(
        consts,
        [gate, number, *inits],
        [],
        iteration,
        length=length,
        gate=len(consts),
        limited=limited,
    )
    waiting = iter(ys)
    ends = refilled(starts, finals[2:])
    last = [
        _partly(n, first, next(waiting), finals[1]) if row is not None else first if grown else end
        for first, end, row, grown in zip(loop.starts, ends, appended, grows, strict=True)
    ]
    return [*loop.finals(last), *(first_rows(b, y, finals[1]) for y in waiting)]


def _partly(n: Node, start: Value, rows: SSAValue, count: SSAValue) -> Value:
    """A list of the elements that it began with and of rows, of which the first count."""
    behind = _behind(n, start, rows)
    assert isinstance(behind, StackedRows) and behind.stacked is not None
    joined = n.scope.ssa(behind.stacked)
    first = dims_of(joined)[0] - dims_of(rows)[0]
    together = n.b.add(count, n.b.size(first, "i64"))
    return StackedRows.listing(stacked=first_rows(n.b, joined, together))


def _row_limit(loop: _Parts, most: Dim | None) -> tuple[Dim, bool]:
    """The rows of outputs of which the run decides how many count.

    And whether more iterations are an error of the run.
    """
    n, model = loop.n, loop.n.scope.model
    if model.training:
        what = "has outputs whose number of rows the run decides"
        raise n.unsupported(what, "for inference that is supported")
    if most is not None:
        return most, not most.is_static
    if model.max_iterations is None and loop.trips.most is None:
        what = "may end early, and has scan outputs, whose number of rows the run would decide"
        inputs = model.inputs_behind(n.value(0)) if n.has(0) and not is_endless(n) else []
        raise NeedsValue(n.location, what, "--max-iterations bounds it", inputs)
    return loop.trips.most or Dim.of(model.max_iterations or 0), True


def _early(n: Node, what: str) -> NeedsValue:
    return NeedsValue(
        n.location, f"may end early, and {what}", "a loop of a known number of iterations may", []
    )


def _limit(n: Node, trips: Dim | None) -> tuple[Dim, bool]:
    """The most iterations, and whether more are an error of the run."""
    model = n.scope.model
    if trips is not None and trips.is_static:
        return trips, False
    if model.training and model.max_iterations is None:
        what = "takes a number of iterations that the run decides"
        raise n.unsupported(what, "training needs --max-iterations")
    return Dim.of(model.max_iterations or DEFAULT_LIMIT), True


OPERATORS: dict[str, OnnxOperator] = {
    "Loop": OnnxOperator(_loop),
}
