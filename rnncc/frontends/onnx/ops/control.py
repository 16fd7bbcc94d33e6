"""If, Loop and Scan: graphs inside, as gated loops and loops of `rnn.scan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.node import COMPUTED, Node, Operator
from rnncc.frontends.onnx.ops.indexing import reversed_along
from rnncc.frontends.onnx.values import Value
from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of, shape_text, tensor

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
    gate, values = n.b.reshape(n.x(0, ("i1",)), ()), list[SSAValue]()
    for graph in branches:
        captures = _captures(n, graph)
        inside = Inside(n, captures, [tensor((), "i1")])
        results = inside.run(graph)
        if not values:
            values = [n.b.fill(0, dims_of(v), dtype_of(v)) for v in results]
        _check_branches(n, values, results)
        for value in values:
            inside.argument(value.type)
        first = len(captures.consts)
        values = n.b.scan_of(
            [*captures.consts, gate], values, [], inside.b, results, Dim.of(1), gate=first
        )[0]
        gate = n.b.logical_not(gate)
    return values


class Inside:
    """A body that is built before it is known what becomes of it.

    Attributes:
        b: its builder.
        given: its arguments behind those for what it captures.
    """

    def __init__(self, n: Node, captures: Captures, types: Sequence[Attribute]) -> None:
        block = Block(arg_types=[*(v.type for v in captures.consts), *types])
        self._n, self.b = n, Build(block, n.b.loc)
        count = len(captures.consts)
        self.scope = captures.inside(self.b, list(block.args)[:count])
        self.given: Sequence[SSAValue] = list(block.args)[count:]

    def run(self, graph: GraphProto) -> list[SSAValue]:
        """Build a graph; its results."""
        found = self.scope.run(graph, f"{self._n.location.node}: ")
        for value in found:
            if value.dtype not in COMPUTED:
                what = f"has a result of type {value.dtype}, which is not supported"
                raise self._n.unsupported(what)
        return [self.scope.ssa(value) for value in found]

    def constant(self, index: int, value: SSAValue) -> SSAValue:
        """One more value of outside, as the argument of that number."""
        return self.b.block.insert_arg(value.type, index)

    def argument(self, type_: Any) -> SSAValue:
        """One more argument."""
        return self.b.block.insert_arg(type_, len(self.b.block.args))


def _captures(n: Node, graph: GraphProto) -> Captures:
    from rnncc.frontends.onnx.scope import Captures

    return Captures(n.scope, [graph])


def _inline(n: Node, graph: GraphProto, arguments: dict[str, Value]) -> list[Value]:
    """Build a graph where its node stands."""
    from rnncc.frontends.onnx.scope import Scope

    scope = Scope(n.scope.model, n.b, n.scope)
    scope.names.update(arguments)
    return scope.run(graph, f"{n.location.node}: ")


def _check_branches(n: Node, one: Sequence[SSAValue], other: Sequence[SSAValue]) -> None:
    if len(one) != len(other):
        raise n.error(f"has branches with {len(one)} and {len(other)} results")
    for name, a, b in zip(n.op.output, one, other, strict=False):
        if a.type != b.type:
            texts = [f"{dtype_of(v)} {shape_text(dims_of(v))}" for v in (a, b)]
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
        what = f"carries values whose shapes or types change, over {trips} turns"
        raise n.unsupported(what, f"up to {MAX_UNROLLED} known turns are supported")
    return _unrolled(n, graph, int(trips), carried) if found is None else found


def _scanned(n: Node, graph: GraphProto, trips: Dim, carried: list[Value]) -> list[SSAValue] | None:
    """A loop as a scan; None where its values do not keep their shapes and types."""
    if any(v.dtype not in COMPUTED for v in carried):
        return None
    captures, types = _captures(n, graph), [tensor(v.dims, v.dtype) for v in carried]
    inside = Inside(n, captures, [*types, tensor((), "i64")])
    *carry, number = inside.given
    _bind(inside.scope, graph, number, inside.b.fill(1, (), "i1"), carry)
    results = inside.run(graph)[1:]
    if [v.type for v in results[: len(carried)]] != types:
        return None
    inits, rows = [n.scope.ssa(v) for v in carried], n.b.iota((trips,), 0, "i64")
    finals, ys = n.b.scan_of(captures.consts, inits, [rows], inside.b, results, trips)
    return [*finals, *ys]


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


def _unrolled(n: Node, graph: GraphProto, trips: int, carried: list[Value]) -> list[Any]:
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
    b, captures = n.b, _captures(n, graph)
    inits = [n.scope.ssa(v) for v in carried]
    limit, limited = _limit(n, trips)
    number, gate = b.fill(0, (), "i64"), b.fill(1, (), "i1")
    gate = b.reshape(n.x(1, ("i1",)), ()) if n.has(1) else gate
    known = trips is not None and trips.is_static
    most = None
    if n.has(0) and not known and not _is_endless(n):
        most = b.reshape(n.x(0, ("i64",)), ())
        gate = b.logical("and", gate, b.compare("lt", number, most))
    types = [v.type for v in (gate, number, *inits)]
    inside = Inside(n, captures, types)
    return _repeated(n, graph, (captures, inside), (gate, number, most), inits, (limit, limited))


def _repeated(
    n: Node,
    graph: GraphProto,
    body: tuple[Captures, Inside],
    control: tuple[SSAValue, SSAValue, SSAValue | None],
    inits: list[SSAValue],
    limits: tuple[int, bool],
) -> list[SSAValue]:
    """A loop whose gate is carried, with the number of the turn."""
    (captures, inside), (gate, number, most) = body, control
    turn, *carry = inside.given[1:]
    inner = inside.b
    _bind(inside.scope, graph, turn, inner.fill(1, (), "i1"), carry)
    goes_on, *results = inside.run(graph)
    if [v.type for v in results] != [v.type for v in inits]:
        raise n.unsupported("may end early, and carries values whose shapes or types change")
    following = inner.add(turn, inner.fill(1, (), "i64"))
    goes_on, consts = inner.reshape(goes_on, ()), list(captures.consts)
    if most is not None:
        below = inner.compare("lt", following, inside.constant(len(consts), most))
        goes_on = inner.logical("and", goes_on, below)
        consts.append(most)
    results = [goes_on, following, *results]
    finals, _ = n.b.scan_of(
        consts,
        [gate, number, *inits],
        [],
        inner,
        results,
        Dim.of(limits[0]),
        gate=len(consts),
        limited=limits[1],
    )
    return finals[2:]


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
