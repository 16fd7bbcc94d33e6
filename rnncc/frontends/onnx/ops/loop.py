"""Loop: a graph that runs again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.counted.decided import where_equal
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.lists import StackedRows, refilled
from rnncc.frontends.onnx.node import STORED, Node, OnnxOperator
from rnncc.frontends.onnx.ops.appending import Appended
from rnncc.frontends.onnx.ops.branch_sizes import all_counted
from rnncc.frontends.onnx.ops.control import Inside, inline, tensors_in
from rnncc.frontends.onnx.ops.ended_loop import ended, with_room
from rnncc.frontends.onnx.ops.loop_body import (
    MAX_UNROLLED,
    CountedState,
    GrownState,
    Growth,
    LoopBody,
    UnreadState,
    emptied,
    growing,
    kept_values,
    outputs_of,
    values_behind,
)
from rnncc.frontends.onnx.trips import trips_of
from rnncc.frontends.onnx.values import Value, size_value
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, tensor

if TYPE_CHECKING:
    from onnx import GraphProto


def _loop(n: Node, grown: Mapping[int, Growth] | None = None) -> list[Any]:
    """Run a graph again and again: so often, or while its condition holds.

    Refused: values that change shape, type or length from one iteration to the next, but in 64
    known iterations, or by as many rows in each; more than `--max-iterations`; scan outputs of a
    loop that data ends where nothing bounds it.
    """
    graph = n.graph("body")
    carried = [n.value(i) for i in range(2, len(n.inputs))]
    if len(graph.input) != len(carried) + 2 or len(graph.output) < len(carried) + 1:
        what = f"has {len(carried)} carried values, its body {len(graph.input)} inputs"
        raise n.error(f"{what} and {len(graph.output)} outputs")
    try:
        return _run(n, graph, carried, grown or {})
    except GrownState as state:
        if state.loop.graph is not graph:
            raise
        carried[state.index] = with_room(state)
        grown = {**(grown or {}), state.index: state.growth}
    except CountedState as state:
        if state.graph is not graph:
            raise
        carried[state.index] = all_counted(n.scope, carried[state.index], state.axis)
    except UnreadState as state:
        if state.graph is not graph:
            raise
        n.b.require(state.count - 1)
        carried[state.index] = Value.computed(n.b.fill(0, state.like.dims, state.like.dtype))
    n.inputs = [*n.inputs[:2], *carried]
    return _loop(n, grown)


def _run(
    n: Node, graph: GraphProto, carried: list[Value], grown: Mapping[int, Growth]
) -> list[Any]:
    trips = trips_of(n, graph, carried)
    parts = LoopBody.of(n, graph, trips, carried, grown)
    if trips.count is not None:
        results = _counted(parts, trips.count)
        return [
            _full(n, v, grown[i], trips.count) if i in grown else v for i, v in enumerate(results)
        ]
    if trips.endless:
        raise n.error("has neither a trip count nor a condition that ends it")
    try:
        return ended(parts)
    except NeedsValue as error:
        for index in (i for i in (0, 1) if trips.always and n.has(i) and not error.inputs):
            n.known(index)  # with a known count and first condition it could be unrolled
        raise


def _full(n: Node, grown: Value, growth: Growth, trips: Dim) -> Value:
    """What a loop of known trip count has filled with as many rows as are known: others are an
    error of the run."""
    assert isinstance(grown, Partial) and grown.count is not None
    if growth.rows is None:
        return grown
    size = grown.dims[grown.axis] - trips * growth.more + growth.rows
    rows = n.b.slice(n.scope.ssa(grown.whole()), grown.axis, 0, size)
    count = n.b.reshape(grown.count, (1,))
    return Value.computed(where_equal(n.b, rows, count, [size]))


def _counted(loop: LoopBody, count: Dim) -> list[Any]:
    """A loop of known trip count: a scan, or one iteration after another where shapes change."""
    small = loop.is_unrolled
    if count == 0:
        return _never(loop)
    loop.n.scope.model.unrolled += small
    try:
        results = _as_scan(loop, count)
    except NeedsValue:
        if not small:
            raise
        results = None
    except UnreadState as state:
        if not small or state.graph is not loop.graph:
            raise
        results = None
    finally:
        loop.n.scope.model.unrolled -= small
    if results is None and not small:
        what = f"carries values whose shapes, types or lengths change, over {count} iterations"
        raise loop.n.unsupported(what, f"up to {MAX_UNROLLED} known iterations are supported")
    if results is None:
        return _unrolled(loop.n, loop.graph, int(count), list(loop.carried))
    return results


def _as_scan(loop: LoopBody, count: Dim) -> list[Any] | None:
    """A loop of one of the forms that may be scans, else what the last one comes to.

    Lists that have elements already, to which it appends, maybe under a condition, and those of
    which its body reads the last elements, or the length, come after all others.
    """
    forms = [partial(_scanned, may_grow=StackedRows.may_grow)]
    if any(map(StackedRows.may_grow_on, loop.starts)):
        forms.append(partial(_scanned, may_grow=StackedRows.may_grow_on))
        if not loop.is_unrolled:
            forms.append(partial(_scanned, may_grow=StackedRows.may_grow_on, reads=True))
            forms.append(partial(forms[-1], counts=True))
    for form in forms:
        try:
            results = form(loop, count)
        except NeedsValue:  # the number of the iteration decides a shape, or a list is read
            if form is forms[-1]:
                raise
        else:
            if results is not None:
                return results
    return None


def _scanned(
    loop: LoopBody,
    count: Dim,
    may_grow: Callable[[Value], bool],
    reads: bool = False,
    counts: bool = False,
) -> list[Any] | None:
    """A loop as a scan; None where its values do not keep their shapes, types and lengths.

    A list that may grow, to which each iteration appends one element, becomes rows.

    Args:
        reads: whether such a list's last elements are carried for the body to read.
        counts: whether it finds them by their places from the list's start.
    """
    n, grows = loop.n, [may_grow(v) for v in loop.starts]
    starts = emptied(loop.starts, grows, reads, counts)
    held = [t for v in starts for t in v.tensors()]
    if any(t.dtype not in STORED for t in held):
        return None
    captures, types = loop.captures(), [tensor(t.dims, t.dtype) for t in held]
    inside = Inside(n, captures, [*types, tensor((), "i64")], numbered=True)
    *carry, number = inside.given
    inside.scope.steps[loop.trips.step] = number
    step, rows = Dim.of(loop.trips.step), list[Appended | None]()
    arguments = growing(refilled(starts, carry), grows, step)
    loop.bind(inside.scope, size_value(step), arguments)
    outputs = inside.scope.run(loop.graph, n.inside)[1:]
    scans = outputs[len(loop.carried) :]
    kept = kept_values(loop, inside.scope, arguments, loop.chosen(outputs), grows, rows)
    if kept is None:
        return None
    stacks = [*outputs_of(rows), *(inside.scope.ssa(v) for v in scans)]
    results = [*tensors_in(inside.scope, kept), *stacks]
    inits, iterations = tensors_in(n.scope, starts), n.b.iota((count,), 0, "i64")
    finals, ys = n.b.scan_of(captures.consts, inits, [iterations], inside.b, results, count)
    stacked = iter(ys)
    last = values_behind(loop, refilled(starts, finals), grows, rows, stacked)
    return [*last, *stacked]


def _never(loop: LoopBody) -> list[Any]:
    """A loop without iterations: the values as they are, and no rows of its scan outputs.

    What shape such rows would have is what the graph says, else what its nodes would make. Where
    these do not tell either, sizes that are not declared are 0, as ONNX Runtime has them.
    """
    n, infos = loop.n, loop.graph.output[1 + len(loop.carried) :]
    if not all(map(_has_known_shape, infos)):
        try:
            results = _scanned(loop, Dim.of(0), StackedRows.may_grow)
        except CompileError:
            results = None
        if results is not None:
            return [*loop.carried, *results[len(loop.carried) :]]
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
        outputs = inline(n, graph, dict(zip(names, arguments, strict=True)))
        carried = outputs[1 : 1 + count]
        rows.append(outputs[1 + count :])
    scans = list[SSAValue]()
    for index in range(len(graph.output) - 1 - count):
        parts = [n.scope.ssa(row[index]) for row in rows]
        scans.append(n.b.concat([n.b.reshape(p, (1, *dims_of(p))) for p in parts], 0))
    return [*carried, *scans]


OPERATORS: dict[str, OnnxOperator] = {
    "Loop": OnnxOperator(_loop),
}
