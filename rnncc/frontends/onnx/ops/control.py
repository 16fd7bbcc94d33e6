"""If and Scan: graphs inside, as gated loops and loops of `rnn.scan`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Block, Operation, SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.captures import Captures
from rnncc.frontends.onnx.errors import NeedsValue, Uneven
from rnncc.frontends.onnx.formulas.learning import Fork, Learnt
from rnncc.frontends.onnx.lists import refilled, types_in
from rnncc.frontends.onnx.node import STORED, TEXT, Node, OnnxOperator
from rnncc.frontends.onnx.ops.appending import aligned
from rnncc.frontends.onnx.ops.branch_sizes import Choice, choice_of, of_one_bound, of_one_shape
from rnncc.frontends.onnx.ops.indexing import reversed_along
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.values import Value
from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Body, Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Compare
from rnncc.ir.ops.shape import Broadcast, Reshape
from rnncc.ir.ops.source import Fill, Size
from rnncc.ir.types import dims_of, dtype_of, shape_text, tensor
from rnncc.nn.axes import move_axis

if TYPE_CHECKING:
    from onnx import GraphProto

    from rnncc.frontends.onnx.captures import Captures
    from rnncc.frontends.onnx.scope import Scope


def _if(n: Node) -> list[Any]:
    """The outputs of one of two graphs; of the other nothing is built where the condition is known,
    or where the rest of the model can only be built if an open size is equal to a number, or only
    if it is larger: calls check that. Where the condition compares sizes, those of branches'
    results may differ; else those along one axis, of which the run then decides how many rows
    count. Where they differ in rank, type or length of lists, both branches go on with the nodes
    that read them, as `x.squeeze(1) if c else x` and a Reshape of it.

    Refused: other conditions where branches' results differ in size along several axes; in rank,
    type or length of lists, where nodes behind them do not make them meet, but of lists to which a
    loop around appends; in training, in size.
    """
    known = n.value(0).numbers
    if known is not None:
        chosen_branch = n.graph("then_branch" if bool(n.scalar(0)) else "else_branch")
        return inline(n, chosen_branch, {})
    model, condition = n.scope.model, n.value(0).made
    sizes, choice = _equal_sizes(condition), choice_of(condition)
    if sizes is not None and model.known.is_more(*sizes):
        return inline(n, n.graph("else_branch"), {})
    for which, facts in () if choice is None else choice.ways:
        if facts and model.known.facts_hold(facts):
            return inline(n, n.graph(f"{which}_branch"), {})
    try:
        return _either(n, choice)
    except NeedsValue as error:
        fork = None
        if sizes is not None:
            fork = model.fork(error, *sizes)
        elif choice is not None and not model.branches:
            fork = Fork(error, *(Learnt(*facts) for _, facts in choice.ways))
        if fork is None:
            raise
        raise fork from error


def _equal_sizes(condition: SSAValue | None) -> tuple[Dim, Dim] | None:
    """The open size and the number that a condition says are equal."""
    compared = None if condition is None else _plain(condition)
    if not isinstance(compared, Compare) or compared.kind.data != "eq":
        return None
    sides = [_plain(side) for side in compared.operands]
    size = next((get_dim(side.dim) for side in sides if isinstance(side, Size)), None)
    other = next((side.value.value.data for side in sides if isinstance(side, Fill)), None)
    if size is None or other is None or other != int(other):
        return None
    return size, Dim.of(int(other))


def _plain(value: SSAValue) -> Operation | Block:
    """What computes a number, whatever its shape and type."""
    while isinstance(value.owner, Reshape | Cast | Broadcast):
        value = value.owner.x
    return value.owner


def _either(n: Node, choice: Choice | None) -> list[Any]:
    """The outputs of the branch that the run chooses."""
    (one, first), (other, second) = _branch(n, "then"), _branch(n, "else")
    if len(first) != len(second):
        raise n.error(f"has branches with {len(first)} and {len(second)} results")
    first, second = aligned((one.scope, first), (other.scope, second))
    if choice is not None:
        first, second = of_one_shape(choice, (one.scope, first), (other.scope, second))
    first, second = of_one_bound((one.scope, first), (other.scope, second))
    _check_branches(n, first, second)
    gate = n.b.reshape(n.x(0, ("i1",)), ())
    tensors = tensors_in(one.scope, first), tensors_in(other.scope, second)
    # The branch that does not run hands on what it starts from: zeros, or what the other one has
    # given.
    chosen = [n.b.fill(0, dims_of(v), dtype_of(v)) for v in tensors[0]]
    for inside, results in zip((one, other), tensors, strict=True):
        for value in chosen:
            inside.argument(value.type)
        consts = [*inside.consts, gate]
        last = len(consts) - 1
        chosen = n.b.scan_of(consts, chosen, [], inside.b, results, Dim.of(1), gate=last)[0]
        gate = n.b.logical_not(gate)
    return refilled(first, chosen)


def _branch(n: Node, which: str) -> tuple[Inside, list[Value]]:
    """A branch that the run may take, and its results."""
    graph = n.graph(f"{which}_branch")
    inside = Inside(n, captures_of(n, graph), [tensor((), "i1")])
    with _blamed(n, which):
        return inside, results_of(n, inside.scope, graph)


@contextmanager
def _blamed(n: Node, branch: str) -> Generator[None]:
    """Say of an error in a branch that it may be the one that is not meant."""
    n.scope.model.branches += 1
    try:
        yield
    except CompileError as error:
        inner = error.location.removeprefix(f"{n.location}: ")
        inner = f"{inner}: {error.what}" if inner != str(n.location) else error.what
        what = f"may take its {branch} branch, which cannot be built ({inner})"
        raise _undecided(n, what, error.hint) from error
    finally:
        n.scope.model.branches -= 1


def _undecided(n: Node, what: str, hint: str | None = None) -> NeedsValue:
    """An error that does not matter where the condition is known to choose the other branch."""
    inputs = n.scope.model.inputs_behind(n.value(0))
    more = [f"--bind {name}=VALUE" for name in inputs[:3]] or ["a size by --shape"]
    decides = f"{' and '.join(more)} may decide the condition"
    return NeedsValue(n.location, what, f"{hint}; {decides}" if hint else decides, inputs)


class Inside:
    """A body that is built before it is known what becomes of it.

    Attributes:
        b: its builder.
        consts: what it captures.
        given: its arguments behind those for what it captures.

    Args:
        numbered: whether the last of these is the number of a loop's iteration.
    """

    def __init__(
        self, n: Node, captures: Captures, types: Sequence[Attribute], numbered: bool = False
    ) -> None:
        self.consts = captures.consts
        block = Block(arg_types=[*(v.type for v in captures.consts), *types])
        self.b = Builder(block, n.b.loc)
        count = len(captures.consts)
        self.given: Sequence[SSAValue] = list(block.args)[count:]
        number = self.given[-1] if numbered else None
        self.scope = captures.inside(self.b, list(block.args)[:count], number)

    def argument(self, type_: Attribute) -> SSAValue:
        """One more argument."""
        return self.b.block.insert_arg(type_, len(self.b.block.args))


def results_of(n: Node, scope: Scope, graph: GraphProto) -> list[Value]:
    """Build a graph in a block of its own; its results, or what they hold, are computed with."""
    results = scope.run(graph, n.inside)
    for value in (t for v in results for t in v.tensors()):
        if value.dtype not in STORED:
            shown = TEXT.get(value.dtype, value.dtype)
            raise n.unsupported(f"has a result of type {shown}, which is not supported")
    return results


def tensors_in(scope: Scope, values: Sequence[Value]) -> list[SSAValue]:
    """Values, and what lists among them hold, in a block."""
    return [scope.ssa(tensor) for value in values for tensor in value.tensors()]


def captures_of(n: Node, graph: GraphProto, named: Mapping[str, Value] | None = None) -> Captures:
    """What a graph reads of those around it, and further values by their names in it."""
    return Captures(n.scope, [graph], named)


def inline(n: Node, graph: GraphProto, arguments: dict[str, Value]) -> list[Value]:
    """Build a graph where its node stands."""
    scope = Scope(n.scope.model, n.b, n.scope)
    scope.names.update(arguments)
    return scope.run(graph, n.inside)


def _check_branches(n: Node, one: Sequence[Value], other: Sequence[Value]) -> None:
    for name, a, b in zip(n.op.output, one, other, strict=False):
        if types_in([a]) != types_in([b]):
            what = f'has branches that give "{name}" as {_type_text(a)} and as {_type_text(b)}'
            error = _undecided(n, what)
            raise Uneven(n.location, error.what, error.hint or "", error.inputs, name)


def _type_text(value: Value) -> str:
    """A value's type in messages."""
    tensors = [f"{t.dtype} {shape_text(t.dims)}" for t in value.tensors()]
    if value.is_tensor:
        return tensors[0]
    return f"{value}: {', '.join(tensors)}" if tensors else str(value)


def _scan(n: Node) -> list[Any]:
    """Run a graph for each row of some sequences, along any axis and in either direction, with
    states.

    Refused: the sequence_lens of opset 8 beside sequences that it goes through backwards; values
    that change shape or type.
    """
    return _scan_8(n) if n.opset < 9 else _scan_9(n)


def _scan_9(n: Node) -> list[Any]:
    graph, count = n.graph("body"), n.integer("num_scan_inputs")
    states = len(n.inputs) - count
    if count < 1 or states < 0 or len(graph.input) != len(n.inputs):
        raise n.error(f"has {len(n.inputs)} inputs, {count} of them sequences")
    outputs = len(graph.output) - states
    if outputs < 0:
        raise n.error(f"has {states} states, its body {len(graph.output)} outputs")
    axes = _each(n, "scan_input_axes", count)
    backwards = _each(n, "scan_input_directions", count)
    out_axes = _each(n, "scan_output_axes", outputs)
    out_backwards = _each(n, "scan_output_directions", outputs)
    xs = list[SSAValue]()
    for index in range(count):
        x = n.x(states + index)
        x = move_axis(n.b, x, n.axis(axes[index], len(dims_of(x))), 0)
        xs.append(reversed_along(n, x, 0) if backwards[index] else x)
    inits, captures = [n.x(i) for i in range(states)], captures_of(n, graph)
    if captures.draws:
        xs.append(n.b.iota(dims_of(xs[0])[:1], 0, "i64"))
    finals, ys = n.b.scan(captures.consts, inits, xs, _step(n, graph, captures))
    stacked = list[SSAValue]()
    for y, axis, turned in zip(ys, out_axes, out_backwards, strict=True):
        y = reversed_along(n, y, 0) if turned else y
        stacked.append(move_axis(n.b, y, 0, n.axis(axis, len(dims_of(y)))))
    return [*finals, *stacked]


def _each(n: Node, name: str, count: int) -> list[int]:
    """A number for each of some sequences, 0 where none are given."""
    numbers = n.integers(name, [0] * count)
    if len(numbers) != count:
        raise n.error(f"attribute {name!r} holds {len(numbers)} numbers, expected {count}")
    return numbers


def _step(n: Node, graph: GraphProto, captures: Captures) -> Body:
    """A graph as the body of a loop: its inputs are the states and a row of each sequence, then,
    where it draws random numbers, the number of the iteration."""

    def body(inner: Builder, consts: Any, carry: Any, rows: Any) -> Any:
        arguments = [*carry, *rows]
        scope = captures.inside(inner, consts, arguments.pop() if captures.draws else None)
        for info, value in zip(graph.input, arguments, strict=True):
            scope.names[info.name] = Value.computed(value)
        results = [scope.ssa(value) for value in results_of(n, scope, graph)]
        return results[: len(carry)], results[len(carry) :]

    return body


def _scan_8(n: Node) -> list[Any]:
    """Every value has a batch in front, and each of it is scanned by itself."""
    graph, count = n.graph("body"), n.integer("num_scan_inputs")
    inputs = [n.x(i) for i in range(1, len(n.op.input))]
    states = len(inputs) - count
    backwards = _each(n, "directions", count)
    if count < 1 or states < 0 or len(graph.input) != len(inputs):
        raise n.error(f"has {len(inputs)} inputs, {count} of them sequences")
    if any(len(dims_of(x)) < 1 + (at >= states) for at, x in enumerate(inputs)):
        raise n.error("has an input without an axis for the batch, or for the sequence")
    captures = captures_of(n, graph)
    if captures.draws:
        raise n.unsupported("draws random numbers in a loop for each of a batch")
    if n.has(0) and any(backwards):
        raise n.unsupported("has sequence_lens and sequences that it goes through backwards")
    step = _step(n, graph, captures)
    xs = [
        reversed_along(n, x, 1) if turned else x
        for x, turned in zip(inputs[states:], backwards, strict=True)
    ]

    def each(outer: Builder, consts: Any, carry: Any, rows: Any) -> Any:
        if not n.has(0):
            finals, ys = outer.scan(consts, rows[:states], rows[states:], step)
            return [], [*finals, *ys]
        length, *rows = rows
        lasting = _up_to(outer, length, rows[states:])
        finals, ys = outer.scan(consts, rows[:states], lasting, _while_it_lasts(step))
        return [], [*finals, *ys]

    lengths = [n.b.cast(n.x(0, ("i32", "i64")), "i64")] if n.has(0) else []
    _, ys = n.b.scan(captures.consts, [], [*lengths, *inputs[:states], *xs], each)
    return list(ys)


def _up_to(b: Builder, length: SSAValue, sequences: Sequence[SSAValue]) -> list[SSAValue]:
    """Whether each step lies before the end of sequences of a length, and these with their last
    row again behind it: padding may be what the body cannot take, such as no index of its table,
    or the 0 of a logarithm, whose slope times 0 is NaN."""
    dims = dims_of(sequences[0])[:1]
    steps, one, none = b.iota(dims, 0, "i64"), b.fill(1, dims, "i64"), b.fill(0, dims, "i64")
    length = b.broadcast(length, dims, [])
    places = b.minimum(steps, b.maximum(b.sub(length, one), none))
    return [b.compare("lt", steps, length), *(b.gather(x, places, 0) for x in sequences)]


def _while_it_lasts(step: Body) -> Body:
    """A loop's body for the steps of a sequence: behind its end, where the first row is false,
    states stay as they are, and results are 0."""

    def body(b: Builder, consts: Any, carry: Any, rows: Any) -> Any:
        lasts, *rows = rows
        states, results = step(b, consts, carry, rows)

        def chosen(new: SSAValue, old: SSAValue) -> SSAValue:
            return b.select(b.broadcast(lasts, dims_of(new), []), new, old)

        kept = [chosen(new, old) for new, old in zip(states, carry, strict=True)]
        return kept, [chosen(y, b.full_like(y, 0)) for y in results]

    return body


OPERATORS: dict[str, OnnxOperator] = {
    "If": OnnxOperator(_if),
    "Scan": OnnxOperator(_scan),
}
