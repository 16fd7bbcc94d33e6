"""Loop: a graph that runs again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.lists import Rows, refilled
from rnncc.frontends.onnx.node import STORED, Node, Operator
from rnncc.frontends.onnx.ops.control import (
    Inside,
    captures_of,
    inline,
    results_of,
    tensors_in,
    types_in,
)
from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.gates import repeat
from rnncc.ir.types import dims_of, tensor

if TYPE_CHECKING:
    from onnx import GraphProto

    from rnncc.frontends.onnx.scope import Scope

DEFAULT_LIMIT = 100_000
"""Turns of a loop that nothing bounds, where the user does not say."""
ENDLESS = 1 << 31
"""From here on a trip count says nothing."""
MAX_UNROLLED = 64
"""Turns that are built one after another, where a loop's values change their shapes."""


def _loop(n: Node) -> list[Any]:
    """Run a graph again and again: so often, or while its condition holds.

    Refused: scan outputs whose number of rows the run decides; values that change shape, type or
    length from turn to turn, but in 64 known turns; more turns than `--max-iterations`.
    """
    graph = n.graph("body")
    trips = _trip_count(n)
    always = _condition_is_constant(n, graph)
    first = bool(n.scalar(1)) if n.has(1) and n.value(1).numbers is not None else None
    if n.has(1) and first is False:
        trips = Dim.of(0)
    ends = n.has(1) and not (always and first is not None)
    carried = [n.value(i) for i in range(2, len(n.inputs))]
    if len(graph.input) != len(carried) + 2 or len(graph.output) < len(carried) + 1:
        what = f"has {len(carried)} carried values, its body {len(graph.input)} inputs"
        raise n.error(f"{what} and {len(graph.output)} outputs")
    if not ends and trips is not None:
        return _counted(n, graph, trips, carried)
    if not ends and (not n.has(0) or n.value(0).known is not None):
        raise n.error("has neither a trip count nor a condition that ends it")
    try:
        return _gated(n, graph, trips, carried)
    except NeedsValue:
        for index in (i for i in (0, 1) if always and n.has(i)):
            n.known(index)  # with a known count and first condition it could be built turn by turn
        raise


def _trip_count(n: Node) -> Dim | None:
    """How often at most, as a size; None where nothing known says."""
    known = n.value(0).known if n.has(0) else None
    if known is None:
        return None
    if known.size != 1:
        raise n.error(f"has {known.size} numbers for its trip count")
    count = Dim.of(known.reshape(-1)[0])
    if count.is_static and int(count) >= ENDLESS:
        return None
    return Dim.of(max(int(count), 0)) if count.is_static else count


def _condition_is_constant(n: Node, graph: GraphProto) -> bool:
    """Whether a body's condition is its own condition input, or true."""
    condition = graph.output[0].name
    given = graph.input[1].name if len(graph.input) > 1 else ""
    for _ in range(len(graph.node) + 1):
        if condition == given:
            return True
        made = next((op for op in graph.node if condition in op.output), None)
        if made is None:
            value = n.scope.find(condition)
            held = None if value is None else value.numbers
            tensor = next((t for t in graph.initializer if t.name == condition), None)
            if tensor is not None:
                held = n.scope.model.tensors.array(tensor, n.location)
            return held is not None and bool(np.all(held))
        if made.op_type == "Constant" and made.attribute:
            array = n.scope.model.tensors.array(made.attribute[0].t, n.location)
            return bool(np.all(array))
        if made.op_type not in ("Identity", "Cast") or not made.input:
            return False
        condition = made.input[0]
    return False


def _counted(n: Node, graph: GraphProto, trips: Dim, carried: list[Value]) -> list[Any]:
    """A loop of known number of turns: a scan, or built turn by turn where shapes change."""
    small = trips.is_static and int(trips) <= MAX_UNROLLED
    if trips == 0:
        return _unrolled(n, graph, 0, carried)
    try:
        found = _scanned(n, graph, trips, carried)
    except NeedsValue:
        if not small:
            raise
        found = None  # the number of the turn decides a shape
    if found is None and not small:
        what = f"carries values whose shapes, types or lengths change, over {trips} turns"
        raise n.unsupported(what, f"up to {MAX_UNROLLED} known turns are supported")
    return _unrolled(n, graph, int(trips), carried) if found is None else found


def _scanned(n: Node, graph: GraphProto, trips: Dim, carried: list[Value]) -> list[Any] | None:
    """A loop as a scan; None where its values do not keep their shapes, types and lengths.

    An empty list to which each turn appends one element becomes rows.
    """
    held = [t for v in carried for t in v.tensors()]
    if any(t.dtype not in STORED for t in held):
        return None
    captures, types = captures_of(n, graph), [tensor(t.dims, t.dtype) for t in held]
    inside = Inside(n, captures, [*types, tensor((), "i64")])
    *carry, number = inside.given
    grows = [isinstance(v, Rows) and v.is_empty for v in carried]
    filled = zip(refilled(carried, carry), grows, strict=True)
    given = [Rows.listing(earlier=object()) if grown else v for v, grown in filled]
    _bind(inside.scope, graph, number, inside.b.fill(1, (), "i1"), given)
    made = inside.scope.run(graph, n.inside)[1:]
    after, scans = made[: len(carried)], made[len(carried) :]
    rows = [_appended(*each) for each in zip(given, after, grows, strict=True)]
    kept = [new if row is None else old for old, new, row in zip(given, after, rows, strict=True)]
    if types_in(kept) != types_in(given):
        return None
    stacks = [row for row in rows if row is not None] + scans
    results = [*tensors_in(inside.scope, kept), *(inside.scope.ssa(v) for v in stacks)]
    inits, turns = tensors_in(n.scope, carried), n.b.iota((trips,), 0, "i64")
    finals, ys = n.b.scan_of(captures.consts, inits, [turns], inside.b, results, trips)
    stacked = iter(ys)
    first = [
        last if row is None else Rows.listing(stacked=Value.computed(next(stacked)))
        for last, row in zip(refilled(carried, finals), rows, strict=True)
    ]
    return [*first, *stacked]


def _appended(old: Value, new: Value, grows: bool) -> Value | None:
    """The one element that a turn appends to a list that may grow."""
    if not (grows and isinstance(old, Rows) and isinstance(new, Rows) and len(new.items) == 1):
        return None
    return new.items[0] if new.form == old.appended(new.items[0]).form else None


def _bind(
    scope: Scope,
    graph: GraphProto,
    number: SSAValue,
    condition: SSAValue,
    carry: Sequence[Value],
) -> None:
    """Give a loop's body its arguments."""
    for info, value in zip(graph.input, (number, condition, *carry), strict=True):
        if isinstance(value, Value):
            scope.names[info.name] = value
            continue
        dims = info.type.tensor_type.shape.dim
        one = len(dims) == 1 and not dims_of(value)
        value = scope.b.reshape(value, (1,)) if one else value
        scope.names[info.name] = Value.computed(value)


def _unrolled(n: Node, graph: GraphProto, trips: int, carried: list[Value]) -> list[Any]:
    rows, count = list[list[Value]](), len(carried)
    for turn in range(trips):
        names = [info.name for info in graph.input]
        arguments = [Value.of(np.array(turn, np.int64)), Value.of(np.array(True)), *carried]
        made = inline(n, graph, dict(zip(names, arguments, strict=True)))
        carried = made[1 : 1 + count]
        rows.append(made[1 + count :])
    scans = list[SSAValue]()
    for index in range(len(graph.output) - 1 - count):
        if not rows:
            scans.append(_no_rows(n, graph, 1 + count + index))
            continue
        parts = [n.scope.ssa(row[index]) for row in rows]
        scans.append(n.b.concat([n.b.reshape(p, (1, *dims_of(p))) for p in parts], 0))
    return [*carried, *scans]


def _no_rows(n: Node, graph: GraphProto, index: int) -> SSAValue:
    """A scan output of a loop without turns."""
    type_ = graph.output[index].type.tensor_type
    dims = [d.dim_value for d in type_.shape.dim]
    dtype = dtype_name(type_.elem_type)
    if dtype not in STORED:
        raise n.unsupported("takes no turn, and does not say what its rows would be")
    return n.b.fill(0, (0, *dims), dtype)


def _gated(n: Node, graph: GraphProto, trips: Dim | None, carried: list[Value]) -> list[Any]:
    """A loop that a condition may end."""
    if len(graph.output) > 1 + len(carried):
        raise _early(n, "has scan outputs, whose number of rows the run would decide")
    b, captures = n.b, captures_of(n, graph)
    consts, inits = list(captures.consts), tensors_in(n.scope, carried)
    number, gate = b.fill(0, (), "i64"), b.fill(1, (), "i1")
    gate = b.reshape(n.x(1, ("i1",)), ()) if n.has(1) else gate
    counted = n.has(0) and not (trips is not None and trips.is_static) and not _is_endless(n)
    if counted:
        consts.append(b.reshape(n.x(0, ("i64",)), ()))
        gate = b.logical("and", gate, b.compare("lt", number, consts[-1]))

    def turn(inner: Builder, given: list[SSAValue], carry: list[SSAValue]) -> Sequence[SSAValue]:
        scope = captures.inside(inner, given[: len(captures.consts)])
        _bind(scope, graph, carry[1], inner.fill(1, (), "i1"), refilled(carried, carry[2:]))
        condition, *results = results_of(n, scope, graph)
        if types_in(results) != types_in(carried):
            raise _early(n, "carries values whose shapes, types or lengths change")
        following = inner.add(carry[1], inner.fill(1, (), "i64"))
        goes_on = inner.reshape(scope.ssa(condition), ())
        if counted:
            goes_on = inner.logical("and", goes_on, inner.compare("lt", following, given[-1]))
        return [goes_on, following, *tensors_in(scope, results)]

    finals = repeat(b, consts, [gate, number, *inits], turn, *_limit(n, trips))[2:]
    return refilled(carried, finals)


def _early(n: Node, what: str) -> NeedsValue:
    return NeedsValue(
        n.location, f"may end early, and {what}", "a loop of a known number of turns may", []
    )


def _is_endless(n: Node) -> bool:
    numbers = n.value(0).numbers
    return numbers is not None and int(numbers.reshape(-1)[0]) >= ENDLESS


def _limit(n: Node, trips: Dim | None) -> tuple[int, bool]:
    """The most turns, and whether more are an error of the run."""
    model = n.scope.model
    if trips is not None and trips.is_static:
        return int(trips), False
    if model.training and model.max_iterations is None:
        what = "takes a number of turns that the run decides"
        raise n.unsupported(what, "training needs --max-iterations")
    return model.max_iterations or DEFAULT_LIMIT, True


OPERATORS: dict[str, Operator] = {
    "Loop": Operator(_loop),
}
