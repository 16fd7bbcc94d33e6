"""What graphs inside of nodes read of the graphs around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import STORED
from rnncc.frontends.onnx.reading import graphs_in
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.values import Value, is_step
from rnncc.ir.builder import Builder

if TYPE_CHECKING:
    from onnx import GraphProto

CAPTURED = 64
"""Known numbers that a graph inside reads stay known up to so many."""


def captured(graphs: Sequence[GraphProto], defined: Sequence[str] = ()) -> list[str]:
    """The names of outer graphs that some graphs read, in order."""
    found = dict[str, None]()
    for graph in graphs:
        own = {*defined, *(i.name for i in graph.input), *(t.name for t in graph.initializer)}
        own |= {sparse.values.name for sparse in graph.sparse_initializer}
        for node in graph.node:
            read = [*node.input, *captured(list(graphs_in(node)))]
            found.update((name, None) for name in read if name and name not in own)
            own.update(node.output)
        found.update((o.name, None) for o in graph.output if o.name not in own)
    return list(found)


def names_read(graph: GraphProto) -> set[str]:
    """The names that a graph's nodes, those of graphs inside, and its outputs read."""
    read = {name for node in graph.node for name in (*node.input, *captured(list(graphs_in(node))))}
    return read | {output.name for output in graph.output}


class Captures:
    """What graphs inside read of the scope around: small known numbers stay known, the rest are
    values that the loop or branch is handed, as are the numbers of iterations in formulas.

    Args:
        named: further values, by their names inside.
    Attributes:
        consts: those values.
    """

    def __init__(
        self,
        scope: Scope,
        graphs: Sequence[GraphProto],
        named: Mapping[str, Value] | None = None,
    ) -> None:
        self._scope = scope
        found = {name: scope.find(name) for name in captured(graphs)} | dict(named or {})
        self._values = {name: value for name, value in found.items() if value is not None}
        tensors = [tensor for value in self._values.values() for tensor in value.tensors()]
        formulas = [formula for tensor in tensors for formula in tensor.formulas()]
        self._steps = sorted({s for f in formulas for s in filter(is_step, f.symbols)})
        self.consts = [scope.steps[step] for step in self._steps]
        self.consts += [scope.ssa(tensor) for tensor in tensors if not _stays_known(tensor)]

    def inside(self, b: Builder, consts: Sequence[SSAValue]) -> Scope:
        """The scope of a block that takes the consts."""
        inner = Scope(self._scope.model, b)
        inner.opsets = self._scope.opsets
        inner.steps.update(zip(self._steps, consts, strict=False))
        waiting = iter(consts[len(self._steps) :])
        for name, value in self._values.items():
            held = (
                t if _stays_known(t) else Value.computed(next(waiting)) for t in value.tensors()
            )
            inner.names[name] = value.holding(list(held))
        self._scope.model.captured.update(zip(consts, self.consts, strict=True))
        return inner


def _stays_known(value: Value) -> bool:
    array = value.known
    small = array is not None and (array.dtype == object or array.size <= CAPTURED)
    return small or value.dtype not in STORED
