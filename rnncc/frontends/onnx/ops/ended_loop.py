"""A Loop that data may end: the run decides how many rows of its outputs count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rnncc.frontends.onnx.counted.rows import Partial, first_rows
from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.formulas.offsets import parted
from rnncc.frontends.onnx.lists import StackedRows, refilled
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.appending import Appended
from rnncc.frontends.onnx.ops.control import results_of, tensors_in
from rnncc.frontends.onnx.ops.loop_body import (
    GrownState,
    LoopBody,
    emptied,
    growing,
    kept_values,
    outputs_of,
    values_behind,
)
from rnncc.frontends.onnx.trips import given_count, is_endless
from rnncc.frontends.onnx.values import Value, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.gates import DEFAULT_LIMIT


def ended(loop: LoopBody) -> list[Any]:
    """A loop that a condition may end, whose lists may grow."""
    try:
        return _gated(loop, lambda value: False)
    except NeedsValue:
        if not any(map(StackedRows.may_grow_on, loop.starts)):
            raise
    try:
        return _gated(loop, StackedRows.may_grow_on)
    except NeedsValue:
        if not any(map(StackedRows.has_last, loop.starts)):
            raise
    return _gated(loop, StackedRows.may_grow_on, reads=True)


def _gated(loop: LoopBody, may_grow: Callable[[Value], bool], reads: bool = False) -> list[Any]:
    """A loop that a condition may end.

    Of scan outputs, and of lists that may grow, the run decides how many rows count.

    Args:
        reads: whether such a list's last elements are carried for the body to read.
    """
    n, most, grows = loop.n, given_count(loop.n), [may_grow(v) for v in loop.starts]
    starts = emptied(loop.starts, grows, reads)
    stacks = any(grows) or loop.grown or len(loop.graph.output) > 1 + len(loop.carried)
    length, limited = _row_limit(loop, most) if stacks else _limit(n, most)
    b, captures = n.b, loop.captures()
    consts, inits = list(captures.consts), tensors_in(n.scope, starts)
    number, gate = b.fill(0, (), "i64"), b.fill(1, (), "i1")
    gate = b.reshape(n.x(1, ("i1",)), ()) if n.has(1) else gate
    counted = n.has(0) and not (most is not None and most.is_static) and not is_endless(n)
    if counted:
        consts.append(b.reshape(n.x(0, ("i64",)), ()))
        gate = b.logical("and", gate, b.compare("lt", number, consts[-1]))
    appended = list[Appended | None]()

    def iteration(inner: Builder, held: Any, carry: Any, rows: Any) -> tuple[Any, Any]:
        scope = captures.inside(inner, held[: len(captures.consts)], carry[1])
        arguments = growing(refilled(starts, carry[2:]), grows)
        loop.bind(scope, Value.computed(carry[1]), arguments)
        condition, *results = results_of(n, scope, loop.graph)
        kept = kept_values(loop, scope, arguments, loop.chosen(results), grows, appended)
        if kept is None:
            raise _early(n, "carries values whose shapes, types or lengths change")
        following = inner.add(carry[1], inner.fill(1, (), "i64"))
        goes_on = inner.reshape(scope.ssa(condition), ())
        if counted:
            goes_on = inner.logical("and", goes_on, inner.compare("lt", following, held[-1]))
        scans = (scope.ssa(value) for value in results[len(loop.carried) :])
        return [goes_on, following, *tensors_in(scope, kept)], [*outputs_of(appended), *scans]

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
    last = values_behind(loop, ends, grows, appended, waiting, finals[1])
    return [*last, *(first_rows(b, y, finals[1]) for y in waiting)]


def with_room(state: GrownState) -> Partial:
    """What a loop carries, with room for all rows that its iterations may add."""
    n, start = state.loop.n, state.loop.carried[state.index]
    most = state.loop.trips.count or _row_limit(state.loop, given_count(n))[0]
    dims = [*start.dims]
    axis = state.growth.axis
    dims[axis] = most * state.growth.more
    room = n.b.concat([n.scope.ssa(start), n.b.fill(0, dims, start.dtype)], axis)
    count = n.b.size(start.dims[axis], "i64")
    return Partial.counted(Value.computed(room), axis, count)


def _row_limit(loop: LoopBody, most: Dim | None) -> tuple[Dim, bool]:
    """The rows of outputs of which the run decides how many count.

    And whether more iterations are an error of the run.
    """
    n, model = loop.n, loop.n.scope.model
    if model.training:
        what = "has outputs whose number of rows the run decides"
        raise n.unsupported(what, "for inference that is supported")
    if most is not None:
        return most, not most.is_static
    bound = loop.trips.most or model.max_iterations or _rows_read(loop)
    if bound is None:
        ends = "runs as often as the run decides" if loop.trips.always else "may end early"
        what = f"{ends}, and has scan outputs, whose number of rows the run would decide"
        inputs = model.inputs_behind(n.value(0)) if n.has(0) and not is_endless(n) else []
        raise NeedsValue(n.location, what, "--max-iterations bounds it", inputs)
    return bound, True


def _rows_read(loop: LoopBody) -> Dim | None:
    """The most iterations that there can be: as many as rows of a tensor count, or as there are
    elements along an axis of which each iteration reads the one of its number."""
    n = loop.n
    trips = n.value(0).made if n.has(0) else None
    base, more = (None, Dim.of(0)) if trips is None else parted(trips)
    if base is not None and base in n.scope.model.counts:
        return n.scope.model.counts[base] + more
    written = {name: node for node in loop.graph.node for name in node.output}
    inside = {*written, *(value.name for value in loop.graph.input)}
    for node in loop.graph.node:
        if node.op_type != "Gather" or node.input[1] != loop.graph.input[0].name:
            continue
        name = node.input[0]
        while name in written and written[name].op_type in ("Slice", "Identity"):
            name = written[name].input[0]  # which has no more elements along any axis
        value = None if name in inside else n.scope.find(name)
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if value is not None and -value.rank <= axis < value.rank and not varies(value.dims[axis]):
            return value.dims[axis]
    return None


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
    return model.max_iterations or Dim.of(DEFAULT_LIMIT), True
