"""What graphs inside of nodes read of the graphs around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import COMPUTED
from rnncc.frontends.onnx.reading import graphs_in
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.values import Rows, Value
from rnncc.ir.build import Build

if TYPE_CHECKING:
    from onnx import GraphProto

CAPTURED = 64
"""Known numbers that a graph inside reads stay known up to so many."""


def captured(graphs: Sequence[GraphProto], given: Sequence[str] = ()) -> list[str]:
    """The names of outer graphs that some graphs read, in order."""
    found = dict[str, None]()
    for graph in graphs:
        own = {*given, *(i.name for i in graph.input), *(t.name for t in graph.initializer)}
        for node in graph.node:
            read = [*node.input, *captured(list(graphs_in(node)))]
            found.update((name, None) for name in read if name and name not in own)
            own.update(node.output)
        found.update((o.name, None) for o in graph.output if o.name not in own)
    return list(found)


class Captures:
    """What graphs inside read of the scope around: small known numbers stay known, the rest are
    values that the loop or branch is handed.

    Attributes:
        consts: those values.
    """

    def __init__(self, scope: Scope, graphs: Sequence[GraphProto]) -> None:
        self._scope = scope
        self._known, self._names = dict[str, Value](), list[str]()
        self.consts = list[SSAValue]()
        for name in captured(graphs):
            value = scope.find(name)
            if value is None or isinstance(value, Rows):
                continue  # the node inside that reads it says so
            array = value.known
            small = array is not None and (array.dtype == object or array.size <= CAPTURED)
            if small or value.dtype not in COMPUTED:
                self._known[name] = value
            else:
                self._names.append(name)
                self.consts.append(scope.ssa(value))

    def inside(self, b: Build, consts: Sequence[SSAValue]) -> Scope:
        """The scope of a block that takes the consts."""
        inner = Scope(self._scope.model, b)
        inner.opsets = self._scope.opsets
        inner.names = dict(self._known)
        for name, value in zip(self._names, consts, strict=True):
            inner.names[name] = Value.computed(value)
        return inner
