"""What graphs inside of nodes read of the graphs around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.functions import function_key
from rnncc.frontends.onnx.node import STORED
from rnncc.frontends.onnx.reading import graphs_in
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.values import Value, is_step
from rnncc.ir.builder import Builder
from rnncc.nn.random import seed_within

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

CAPTURED = 64
"""Known numbers that a graph inside reads stay known up to so many."""
DRAWING = (
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
)
"""Operators that draw random numbers, besides `Dropout` in training mode."""


def captured(graphs: Sequence[GraphProto], defined: Sequence[str] = ()) -> list[str]:
    """The names of outer graphs that some graphs read, in order."""
    names = dict[str, None]()
    for graph in graphs:
        own = {*defined, *(i.name for i in graph.input), *(t.name for t in graph.initializer)}
        own |= {sparse.values.name for sparse in graph.sparse_initializer}
        for node in graph.node:
            read = [*node.input, *captured(list(graphs_in(node)))]
            names.update((name, None) for name in read if name and name not in own)
            own.update(node.output)
        names.update((o.name, None) for o in graph.output if o.name not in own)
    return list(names)


def names_read(graph: GraphProto) -> set[str]:
    """The names that a graph's nodes, those of graphs inside, and its outputs read."""
    read = {name for node in graph.node for name in (*node.input, *captured(list(graphs_in(node))))}
    return read | {output.name for output in graph.output}


def seed_of(scope: Scope) -> SSAValue | None:
    """The seed of random numbers, an i32 without axes; None where there is none to be had."""
    return scope.seed if scope.seed is not None else scope.model.seed(scope.b)


def any_draws(scope: Scope, graphs: Sequence[GraphProto]) -> bool:
    """Whether nodes of some graphs, or of graphs and functions inside, draw random numbers."""
    functions, waiting = dict(scope.model.functions), list[Any](graphs)
    while waiting:
        for op in waiting.pop().node:
            if op.op_type in DRAWING or (op.op_type == "Dropout" and _trains(scope, op)):
                return True
            called = functions.pop(function_key(op, op.op_type), None)
            waiting += [*graphs_in(op), *([] if called is None else [called])]
    return False


def _trains(scope: Scope, op: NodeProto) -> bool:
    """Whether a constant of the graph around says that a `Dropout` is in training mode."""
    mode = scope.find(op.input[2]) if len(op.input) > 2 else None
    return mode is not None and mode.numbers is not None and bool(mode.numbers.any())


class Captures:
    """What graphs inside read of the scope around: small known numbers stay known, the rest are
    values that the loop or branch is handed, as are the numbers of iterations in formulas, and the
    seed of those that draw random numbers.

    Args:
        named: further values, by their names inside.
    Attributes:
        consts: those values.
        draws: whether the seed is one.
    """

    def __init__(
        self,
        scope: Scope,
        graphs: Sequence[GraphProto],
        named: Mapping[str, Value] | None = None,
    ) -> None:
        self._scope = scope
        values = {name: scope.find(name) for name in captured(graphs)} | dict(named or {})
        self._values = {name: value for name, value in values.items() if value is not None}
        tensors = [tensor for value in self._values.values() for tensor in value.tensors()]
        formulas = [formula for tensor in tensors for formula in tensor.formulas()]
        self._steps = sorted({s for f in formulas for s in filter(is_step, f.symbols)})
        seed = seed_of(scope) if any_draws(scope, graphs) else None
        self.draws = seed is not None
        self.consts = [] if seed is None else [seed]
        self.consts += [scope.steps[step] for step in self._steps]
        self.consts += [scope.ssa(tensor) for tensor in tensors if not _stays_known(tensor)]

    def inside(
        self, b: Builder, consts: Sequence[SSAValue], iteration: SSAValue | None = None
    ) -> Scope:
        """The scope of a block that takes the consts.

        Args:
            iteration: the number of a loop's iteration, each of which draws others; i64.
        """
        inner = Scope(self._scope.model, b)
        inner.opsets = self._scope.opsets
        waiting = iter(consts)
        if self.draws:
            seed = next(waiting)
            inner.seed = seed if iteration is None else seed_within(b, seed, iteration)
        inner.steps.update({step: next(waiting) for step in self._steps})
        for name, value in self._values.items():
            held = [t if _stays_known(t) else self._held(t, next(waiting)) for t in value.tensors()]
            inner.names[name] = value.holding(held)
        self._scope.model.captured.update(zip(consts, self.consts, strict=True))
        return inner

    def _held(self, value: Value, const: SSAValue) -> Value:
        """The const that a value is inside; operators that need a constant's numbers find them."""
        model = self._scope.model
        numbers = model.numbers_behind(value)
        if numbers is not None:
            model.constants[const] = numbers
        return Value.computed(const)


def _stays_known(value: Value) -> bool:
    array = value.known
    small = array is not None and (array.dtype == object or array.size <= CAPTURED)
    # What has no element type in `rnn` can only be known.
    return small or value.dtype not in STORED
