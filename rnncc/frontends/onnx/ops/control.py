"""If, Loop and Scan: graphs inside, as gated loops and loops of `rnn.scan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.node import COMPUTED, Node, Operator
from rnncc.frontends.onnx.ops.indexing import reversed_along
from rnncc.frontends.onnx.values import Value
from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text

if TYPE_CHECKING:
    from onnx import GraphProto

    from rnncc.frontends.onnx.scope import Captures, Scope

DEFAULT_LIMIT = 100_000
"""Turns of a loop that nothing bounds, where the user does not say."""
ENDLESS = 1 << 31
"""From here on a trip count says nothing."""
MAX_UNROLLED = 64
"""Turns that are built one after another, where a loop's values change their shapes."""


def _if(n: Node) -> list[Any]:
    """The outputs of one of two graphs; of the other nothing is built where the condition is known.

    Refused: branches whose results differ in shape or type.
    """
    branches = [n.graph("then_branch"), n.graph("else_branch")]
    known = n.value(0).numbers
    if known is not None:
        taken = branches[0] if bool(known.reshape(-1)[0]) else branches[1]
        return _inline(n, taken, {})
    gate = n.b.reshape(n.x(0, ("i1",)), ())
    captures = [_captures(n, graph) for graph in branches]
    shapes = [_results(n, graph, c) for graph, c in zip(branches, captures, strict=True)]
    _check_branches(n, shapes)
    values = [n.b.fill(0, dims, dtype) for dims, dtype in shapes[0]]
    for graph, capture in zip(branches, captures, strict=True):

        def body(
            inner: Build, consts: Any, carry: Any, graph: Any = graph, capture: Any = capture
        ) -> list[SSAValue]:
            scope = capture.inside(inner, consts)
            return [scope.ssa(v) for v in scope.run(graph, f"{n.location.node}: ")]

        values = n.b.when(gate, capture.consts, values, body)
        gate = n.b.logical_not(gate)
    return values


def _captures(n: Node, graph: GraphProto) -> Captures:
    from rnncc.frontends.onnx.scope import Captures

    return Captures(n.scope, [graph])


def _inline(n: Node, graph: GraphProto, arguments: dict[str, Value]) -> list[Value]:
    """Build a graph where its node stands."""
    from rnncc.frontends.onnx.scope import Scope

    scope = Scope(n.scope.model, n.b, n.scope)
    scope.names.update(arguments)
    return scope.run(graph, f"{n.location.node}: ")


Shape = tuple[tuple[Dim, ...], str]


def _results(n: Node, graph: GraphProto, captures: Captures) -> list[Shape]:
    """Shapes and types of a graph's results, found by building it apart."""
    from xdsl.ir import Block

    block = Block(arg_types=[v.type for v in captures.consts])
    arrays, taken = dict(n.scope.model.arrays), set(n.scope.model.taken)
    scope = captures.inside(Build(block, n.b.loc), list(block.args))
    found = [(v.dims, v.dtype) for v in scope.run(graph, f"{n.location.node}: ")]
    n.scope.model.arrays, n.scope.model.taken = arrays, taken
    for _, dtype in found:
        if dtype not in COMPUTED:
            raise n.unsupported(f"has a result of type {dtype}, which is not supported")
    return found


def _check_branches(n: Node, shapes: Sequence[Sequence[Shape]]) -> None:
    if len(shapes[0]) != len(shapes[1]):
        raise n.error(f"has branches with {len(shapes[0])} and {len(shapes[1])} results")
    for name, one, other in zip(n.op.output, *shapes, strict=False):
        if one != other:
            texts = [f"{dtype} {shape_text(dims)}" for dims, dtype in (one, other)]
            what = f'has branches that give "{name}" as {texts[0]} and as {texts[1]}'
            raise n.unsupported(what, "--shape gives open sizes, which may decide the condition")


# Loop


def _loop(n: Node) -> list[Any]:
    """Run a graph again and again: so often, or while its condition holds.

    Refused: scan outputs whose number of rows the run decides; values that change shape or type
    from turn to turn, but in 64 known turns; more turns than `--max-iterations`.
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
    return _gated(n, graph, trips, carried, always)


def _trip_count(n: Node) -> Dim | None:
    """How often at most, as a size; None where nothing known says."""
    known = n.value(0).known if n.has(0) else None
    if known is None:
        return None
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
        if made.op_type not in ("Identity", "Cast"):
            return False
        condition = made.input[0]
    return False


def _counted(n: Node, graph: GraphProto, trips: Dim, carried: list[Value]) -> list[Any]:
    """A loop of known number of turns: a scan, or built turn by turn where shapes change."""
    if trips.is_static and _needs_unrolling(n, graph, int(trips), carried):
        return _unrolled(n, graph, int(trips), carried)
    captures, b = _captures(n, graph), n.b
    inits = [n.scope.ssa(v) for v in carried]

    def body(inner: Build, consts: Any, carry: Any, rows: Any) -> Any:
        scope = captures.inside(inner, consts)
        _bind(scope, graph, rows[0], inner.fill(1, (), "i1"), carry)
        made = [scope.ssa(v) for v in scope.run(graph, f"{n.location.node}: ")]
        return made[1 : 1 + len(carry)], made[1 + len(carry) :]

    number = b.iota((trips,), 0, "i64")
    finals, ys = b.scan(captures.consts, inits, [number], body)
    return [*finals, *ys]


def _needs_unrolling(n: Node, graph: GraphProto, trips: int, carried: list[Value]) -> bool:
    """Whether there is no turn, or each has shapes of its own."""
    if trips == 0:
        return True
    try:
        return _changes(n, graph, carried)
    except NeedsValue:
        if trips > MAX_UNROLLED:
            raise
        return True  # the number of the turn decides a shape


def _bind(
    scope: Scope,
    graph: GraphProto,
    number: SSAValue,
    condition: SSAValue,
    carry: Sequence[SSAValue],
) -> None:
    """Give a loop's body its arguments."""
    for info, value in zip(graph.input, (number, condition, *carry), strict=True):
        dims = info.type.tensor_type.shape.dim
        one = len(dims) == 1 and not dims_of(value)
        value = scope.b.reshape(value, (1,)) if one else value
        scope.names[info.name] = Value.computed(value)


def _changes(n: Node, graph: GraphProto, carried: list[Value]) -> bool:
    """Whether a turn gives carried values another shape or type than they had."""
    from xdsl.ir import Block

    from rnncc.ir.types import tensor

    if any(v.dtype not in COMPUTED for v in carried):
        return True
    captures = _captures(n, graph)
    types = [tensor((), "i64"), tensor((), "i1"), *(tensor(v.dims, v.dtype) for v in carried)]
    block = Block(arg_types=[*(v.type for v in captures.consts), *types])
    count = len(captures.consts)
    arrays, taken = dict(n.scope.model.arrays), set(n.scope.model.taken)
    scope = captures.inside(Build(block, n.b.loc), list(block.args)[:count])
    number, condition, *carry = list(block.args)[count:]
    _bind(scope, graph, number, condition, carry)
    made = scope.run(graph, f"{n.location.node}: ")
    n.scope.model.arrays, n.scope.model.taken = arrays, taken
    after = [(v.dims, v.dtype) for v in made[1 : 1 + len(carried)]]
    return after != [(v.dims, v.dtype) for v in carried]


def _unrolled(n: Node, graph: GraphProto, trips: int, carried: list[Value]) -> list[Any]:
    if trips > MAX_UNROLLED:
        what = f"carries values whose shapes change, over {trips} turns"
        raise n.unsupported(what, f"up to {MAX_UNROLLED} are supported")
    rows, count = list[list[Value]](), len(carried)
    for turn in range(trips):
        names = [info.name for info in graph.input]
        arguments = [Value.of(np.array(turn, np.int64)), Value.of(np.array(True)), *carried]
        made = _inline(n, graph, dict(zip(names, arguments, strict=True)))
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
    from rnncc.frontends.onnx.inputs import dtype_name

    type_ = graph.output[index].type.tensor_type
    dims = [d.dim_value for d in type_.shape.dim]
    dtype = dtype_name(type_.elem_type)
    if dtype not in COMPUTED:
        raise n.unsupported("takes no turn, and does not say what its rows would be")
    return n.b.fill(0, (0, *dims), dtype)


def _gated(
    n: Node, graph: GraphProto, trips: Dim | None, carried: list[Value], always: bool
) -> list[Any]:
    """A loop that a condition may end."""
    if len(graph.output) > 1 + len(carried):
        if always:
            for index in (i for i in (0, 1) if n.has(i)):
                n.known(index)
        what = "may end early, and has scan outputs, whose number of rows the run would decide"
        raise n.unsupported(what)
    if _changes(n, graph, carried):
        raise n.unsupported("may end early, and carries values whose shapes or types change")
    b, captures = n.b, _captures(n, graph)
    inits = [n.scope.ssa(v) for v in carried]
    limit, limited = _limit(n, trips)
    number = b.fill(0, (), "i64")
    gate = b.reshape(n.x(1, ("i1",)), ()) if n.has(1) else b.fill(1, (), "i1")
    consts = list(captures.consts)
    if n.has(0) and not (trips is not None and trips.is_static) and not _is_endless(n):
        consts.append(b.reshape(n.x(0, ("i64",)), ()))
        gate = b.logical("and", gate, b.compare("lt", number, consts[-1]))

    def body(inner: Build, given: Any, carry: Any) -> list[SSAValue]:
        scope = captures.inside(inner, given[: len(captures.consts)])
        _bind(scope, graph, carry[1], inner.fill(1, (), "i1"), carry[2:])
        made = [scope.ssa(v) for v in scope.run(graph, f"{n.location.node}: ")]
        following = inner.add(carry[1], inner.fill(1, (), "i64"))
        goes_on = inner.reshape(made[0], ())
        if len(given) > len(captures.consts):
            below = inner.compare("lt", following, given[-1])
            goes_on = inner.logical("and", goes_on, below)
        return [goes_on, following, *made[1:]]

    finals = b.repeat(consts, [gate, number, *inits], body, limit, limited)
    return list(finals[2:])


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


# Scan


def _scan(n: Node) -> list[Any]:
    """Run a graph for each row of some sequences, along any axis and in either direction, with
    states.

    Refused: the sequence_lens of opset 8; values that change shape or type.
    """
    return _scan_8(n) if n.opset < 9 else _scan_9(n)


def _scan_9(n: Node) -> list[Any]:
    graph, count = n.graph("body"), n.integer("num_scan_inputs")
    states = len(n.inputs) - count
    if count < 1 or states < 0 or len(graph.input) != len(n.inputs):
        raise n.error(f"has {len(n.inputs)} inputs, {count} of them sequences")
    outputs = len(graph.output) - states
    axes = _each(n, "scan_input_axes", count, 0)
    backwards = _each(n, "scan_input_directions", count, 0)
    out_axes = _each(n, "scan_output_axes", outputs, 0)
    out_backwards = _each(n, "scan_output_directions", outputs, 0)
    xs = list[SSAValue]()
    for index in range(count):
        x = n.x(states + index)
        axis = n.axis(axes[index], len(dims_of(x)))
        x = n.b.transpose(x, [axis, *(a for a in range(len(dims_of(x))) if a != axis)])
        xs.append(reversed_along(n, x, 0) if backwards[index] else x)
    inits = [n.x(i) for i in range(states)]
    finals, ys = _rows(n, graph, inits, xs)
    made = list[SSAValue]()
    for y, axis, turned in zip(ys, out_axes, out_backwards, strict=True):
        y = reversed_along(n, y, 0) if turned else y
        rank = len(dims_of(y))
        to = n.axis(axis, rank)
        order = [*range(1, rank)]
        order.insert(to, 0)
        made.append(n.b.transpose(y, order))
    return [*finals, *made]


def _each(n: Node, name: str, count: int, default: int) -> list[int]:
    found = n.integers(name, [default] * count)
    if len(found) != count:
        raise n.error(f"attribute {name!r} holds {len(found)} numbers, expected {count}")
    return found


def _rows(
    n: Node, graph: GraphProto, inits: Sequence[SSAValue], xs: Sequence[SSAValue]
) -> tuple[list[SSAValue], list[SSAValue]]:
    captures = _captures(n, graph)

    def body(inner: Build, consts: Any, carry: Any, rows: Any) -> Any:
        scope = captures.inside(inner, consts)
        for info, value in zip(graph.input, (*carry, *rows), strict=True):
            scope.names[info.name] = Value.computed(value)
        made = [scope.ssa(v) for v in scope.run(graph, f"{n.location.node}: ")]
        return made[: len(carry)], made[len(carry) :]

    return n.b.scan(captures.consts, inits, xs, body)


def _scan_8(n: Node) -> list[Any]:
    """Every value has a batch in front, and each of it is scanned by itself."""
    graph, count = n.graph("body"), n.integer("num_scan_inputs")
    if n.has(0):
        raise n.unsupported("has sequence_lens, which are not supported")
    given = [n.x(i) for i in range(1, len(n.op.input))]
    states = len(given) - count
    backwards = _each(n, "directions", count, 0)
    captures, b = _captures(n, graph), n.b
    xs = [
        reversed_along(n, x, 1) if turned else x
        for x, turned in zip(given[states:], backwards, strict=True)
    ]

    def each(outer: Build, consts: Any, carry: Any, rows: Any) -> Any:
        def body(inner: Build, known: Any, held: Any, row: Any) -> Any:
            scope = captures.inside(inner, known)
            for info, value in zip(graph.input, (*held, *row), strict=True):
                scope.names[info.name] = Value.computed(value)
            made = [scope.ssa(v) for v in scope.run(graph, f"{n.location.node}: ")]
            return made[:states], made[states:]

        finals, ys = outer.scan(consts, rows[:states], rows[states:], body)
        return [], [*finals, *ys]

    _, ys = b.scan(captures.consts, [], [*given[:states], *xs], each)
    return list(ys)


OPERATORS: dict[str, Operator] = {
    "If": Operator(_if),
    "Loop": Operator(_loop),
    "Scan": Operator(_scan),
}
