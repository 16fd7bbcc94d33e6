"""How often a Loop runs, decided at import from its condition and its counters.

In: a Loop's body, and what its inputs start as. Out: which of the carried values never change or
count, and the number of iterations as a size.

The nodes that the condition and the counters are computed by are folded with a symbol for the
number of the iteration, so that sizes, casts and whatever else folds may stand there. The condition
becomes a conjunction of inequalities a + b·i >= 0; the loop ends with the first i at which one of
them fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Block, SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.conditions import (
    Conditions,
    Unproven,
    conditions_of,
    formula_of,
    iterations,
)
from rnncc.frontends.onnx.formulas.sizes import Undecided
from rnncc.frontends.onnx.node import INTEGERS, Node
from rnncc.frontends.onnx.reading import graphs_in
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.values import Value, is_step, size_value, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger
from rnncc.ir.types import tensor
from rnncc.records import record

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from rnncc.frontends.onnx.scope import Scope

ENDLESS = (1 << 31) - 1
"""From here on a trip count says nothing."""
MAX_DEPTH = 200
"""Nodes one behind the other that are followed to see when a loop ends."""
OF_SHAPES = ("Shape", "Size")
"""Operators that read no numbers of their input."""


@record
class Trips:
    """What is known of a loop.

    Attributes:
        step: the symbol of the iteration's number.
        fixed: carried values, by place, that no iteration changes.
        counters: carried values, by place, as formulas of the iteration's number.
        count: how many iterations there are, where that is a formula of sizes.
        always: whether the body's condition is known to hold.
        endless: whether the loop is known never to end.
        most: where there is no count, the most iterations that the condition allows if it has a
            part that is a formula.
    """

    step: str
    fixed: frozenset[int]
    counters: Mapping[int, Dim]
    count: Dim | None
    always: bool
    endless: bool
    most: Dim | None = None

    def counter(self, index: int, like: Value, step: Dim) -> Value:
        """A carried value that counts, as it is in an iteration."""
        return _one(self.counters[index].substitute({self.step: step}), like)


def trips_of(n: Node, graph: GraphProto, carried: Sequence[Value]) -> Trips:
    """What is known of a Loop whose body is a graph."""
    body = _Body(n, graph, carried)
    known = body.step, body.fixed, body.counters
    if not n.has(1):
        _check_ignored(n, body, graph.output[0].name)
    try:
        again = conditions_of(body, graph.output[0].name) if n.has(1) else Conditions()
    except Unproven:
        return Trips(*known, None, False, False, _bound(n, body, graph.output[0].name))
    always = not again.formulas
    try:
        count = _count(n, body, again)
    except (Unproven, Undecided):
        return Trips(*known, None, always, False, _bound(n, body, graph.output[0].name))
    return Trips(*known, count, always, count is None)


class _Around:
    """Names of the graph around a loop."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def value(self, name: str) -> Value | None:
        """What a name stands for, but for numbers that an outer loop's iteration decides."""
        value = self._scope.find(name)
        return None if value is None or value.varying else value

    def writer(self, name: str) -> NodeProto | None:
        """The node that writes a name."""
        return self._scope.writer(name)


class _Body:
    """Names of a loop's body, of whose nodes those are folded that decide when it ends.

    Attributes:
        rounded: as of `Conditions`, of what folding took for exact.

    The others: see `Trips`.
    """

    def __init__(self, n: Node, graph: GraphProto, carried: Sequence[Value]) -> None:
        self._n, self._graph, self._carried = n, graph, carried
        self._around, self.step = _Around(n.scope), n.scope.model.new_step()
        self._inputs = [info.name for info in graph.input]
        self._kept = [info.name for info in graph.output][1:]
        writers, self._held = _within_branches(graph, n.scope)
        own = {name: op for op in graph.node for name in op.output if name}
        self._nodes = {**writers, **own}
        self.fixed = frozenset(i for i in range(len(carried)) if self._is_fixed(i))
        self.counters = self._find_counters()
        self._check_counters()

    def _is_fixed(self, index: int) -> bool:
        """Whether each iteration hands a carried value on as it is."""
        name = self._kept[index]
        # As many steps as there are nodes at most: in a damaged graph Identities may lead in a
        # circle.
        for _ in self._nodes:
            op = self._nodes.get(name)
            if op is None or op.op_type != "Identity" or not op.input:
                break
            name = op.input[0]
        return name == self._inputs[2 + index] and self._carried[index].is_tensor

    def _find_counters(self) -> dict[int, Dim]:
        """Integers that each iteration adds the same size to, as formulas."""
        model, counters = self._n.scope.model, dict[int, Dim]()
        symbols = {
            i: Dim.of(model.new_step())
            for i, value in enumerate(self._carried)
            if i not in self.fixed and _is_integer(value)
        }
        self._start({i: _one(symbol, self._carried[i]) for i, symbol in symbols.items()})
        for i, symbol in symbols.items():
            before, after = self._carried[i], self.value(self._kept[i])
            if after is None or (after.dtype, after.dims) != (before.dtype, before.dims):
                continue
            added = None if after.known is None else formula_of(after) - symbol
            if added is not None and not varies(added):
                counters[i] = formula_of(before) + added * Dim.of(self.step)
        return counters

    def _check_counters(self) -> None:
        """Drop counters until the others follow from each other, from one iteration to the next.

        Symbols stand for 0 or more when they are found, which counters need not be.
        """
        wrong = [-1]
        while wrong:
            self._start({i: _one(f, self._carried[i]) for i, f in self.counters.items()})
            wrong = [i for i in self.counters if not self._counts(i)]
            self.counters = {i: f for i, f in self.counters.items() if i not in wrong}

    def _counts(self, index: int) -> bool:
        """Whether a carried value's formula holds in the next iteration if it does in this one."""
        after, following = self.value(self._kept[index]), Dim.of(self.step) + 1
        expected = self.counters[index].substitute({self.step: following})
        return after is not None and after.known is not None and formula_of(after) == expected

    def _start(self, counted: Mapping[int, Value]) -> None:
        """Forget what was folded; start from what the body's inputs are known to be."""
        n, block = self._n, Block(arg_types=[tensor((), "i64")])
        number: SSAValue = block.args[0]
        scope = Scope(n.scope.model, Builder(block, n.b.loc))
        scope.opsets = n.scope.opsets
        scope.steps[self.step] = number
        known = {i: self._carried[i] for i in self.fixed if not self._carried[i].varying}
        names = {self._inputs[2 + i]: value for i, value in {**known, **counted}.items()}
        formulas = [formula for value in counted.values() for formula in value.formulas()]
        steps = {symbol for formula in formulas for symbol in filter(is_step, formula.symbols)}
        scope.steps.update(dict.fromkeys(steps, number))  # what is built here is thrown away
        names[self._inputs[0]] = size_value(Dim.of(self.step))
        names[self._inputs[1]] = Value.of(np.array(True))
        scope.names, self._scope, self._tried = names, scope, set[str]()
        self.rounded = list[tuple[int, Dim]]()
        scope.initialise(self._graph, n.inside)
        for name in self._held.keys() - self._nodes.keys() - names.keys():
            names[name] = scope.constant(self._held[name], n.location)

    def writer(self, name: str) -> NodeProto | None:
        """The node that writes a name."""
        own = name in self._nodes or name in self._inputs
        return self._nodes.get(name) if own else self._around.writer(name)

    def value(self, name: str, depth: int = 0) -> Value | None:
        """What a name stands for, if folding shows that."""
        names, op = self._scope.names, self._nodes.get(name)
        if name in names or name in self._inputs:
            return names.get(name)
        if op is None:
            return self._around.value(name)
        if name not in self._tried and depth < MAX_DEPTH:
            self._tried.update(op.output)
            self._fold(op, depth)
        return names.get(name)

    def _fold(self, op: NodeProto, depth: int) -> None:
        """Run a node whose inputs are known; where it is wrong, its outputs stay unknown."""
        if any(a.HasField("g") for a in op.attribute):
            return
        for name in filter(None, op.input):
            value = self.value(name, depth + 1)
            if value is None or (value.known is None and op.op_type not in OF_SHAPES):
                return
            self._scope.names[name] = value
        model = self._n.scope.model
        model.waiting = self.rounded
        try:
            with suppress(CompileError):
                self._scope.run_node(op, 0, self._n.inside)
        finally:
            model.waiting = None


def _within_branches(
    graph: GraphProto, around: Scope
) -> tuple[dict[str, NodeProto], dict[str, Any]]:
    """The nodes that write names in branches of an `If`, and the initialisers there.

    Of names that stand for one thing alone; equal initialisers are one thing, as optimisers write
    a shared constant into each branch.
    """
    inner = [g for op in graph.node if op.op_type == "If" for g in graphs_in(op)]
    writers = [(name, op) for g in inner for op in g.node for name in op.output if name]
    tensors = [tensor for g in inner for tensor in g.initializer]
    held = [(t.name, t) for t in {t.SerializeToString(): t for t in tensors}.values()]
    times = Counter(name for name, _ in [*writers, *held])
    single = {name for name, count in times.items() if count == 1 and around.find(name) is None}
    return (
        {name: op for name, op in writers if name in single},
        {name: tensor for name, tensor in held if name in single},
    )


def _is_integer(value: Value) -> bool:
    """Whether a value is one integer that is known."""
    known = value.known
    return known is not None and value.dtype in INTEGERS and known.size == 1 and not value.varying


def _one(formula: Dim, like: Value) -> Value:
    """A number as one of another's type and shape."""
    assert like.known is not None
    return Value.of(np.full(like.known.shape, formula, object), dtype=like.dtype)


# The number of iterations


def _count(n: Node, body: _Body, again: Conditions) -> Dim | None:
    """How many iterations there are; None where nothing ends the loop.

    Raises:
        Unproven, Undecided: that is no formula of sizes.
    """
    model, most, step = n.scope.model, _most(n), body.step
    first = conditions_of(_Around(n.scope), n.op.input[1]) if n.has(1) else Conditions()
    count = iterations(first, again, step, most, model.bounds)
    if count is None:
        return None
    model.trip_counts[step] = count
    for limit, formula in (*first.rounded, *again.rounded, *body.rounded):
        if not model.within(limit, [formula]):
            raise Unproven
    return count


def _check_ignored(n: Node, body: _Body, condition: str) -> None:
    """Raise `Unsupported` where it matters whether a condition is read that has no first value.

    By the standard it is not; ONNX Runtime ends the loop by it.
    """
    try:
        again = conditions_of(body, condition)
        if not again.formulas:
            return
        count = iterations(Conditions(), again, body.step, _most(n), {})
    except (Unproven, Undecided):
        count = None
    if count is None or count != given_count(n):
        what = "has a condition without a first one, which the standard ignores, but readers do not"
        raise n.unsupported(what, "a first condition that is true says that it ends the loop")


def _bound(n: Node, body: _Body, condition: str) -> Dim | None:
    """The most iterations, by those parts of a condition that are formulas."""
    again, model = conditions_of(body, condition, comparisons_only=True), n.scope.model
    try:
        count = iterations(Conditions(), again, body.step, None, {})
    except (Unproven, Undecided):
        return None
    if count is None or varies(count):
        return None
    most = larger(count, Dim.of(1))  # the first one may start
    model.trip_counts[body.step] = most
    rounded = (*again.rounded, *body.rounded)
    exact = all(model.within(limit, [formula]) for limit, formula in rounded)
    return most if exact else None


def _most(n: Node) -> Dim | None:
    """The most iterations; None where nothing known limits them."""
    if n.has(0) and not is_endless(n) and given_count(n) is None:
        raise Unproven
    return given_count(n)


def given_count(n: Node) -> Dim | None:
    """The trip count that a Loop is given, as a size; None where it is none that says something."""
    known = n.value(0).known if n.has(0) else None
    if known is None or n.value(0).varying or is_endless(n):
        return None
    if known.size != 1:
        raise n.error(f"has {known.size} numbers for its trip count")
    count = formula_of(n.value(0))
    return Dim.of(max(int(count), 0)) if count.is_static else count


def is_endless(n: Node) -> bool:
    """Whether the trip count is so large that it is none."""
    numbers = n.value(0).numbers if n.has(0) else None
    return numbers is not None and numbers.size == 1 and int(numbers.reshape(-1)[0]) >= ENDLESS
