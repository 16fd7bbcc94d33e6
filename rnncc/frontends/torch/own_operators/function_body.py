# pyright: basic, reportMissingImports=false
"""From `rnncc::with_gradient` in a graph to `rnn.with_gradient`, whose body is the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch.fx import Graph, Node
from xdsl.ir import Block, SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import Value, location
from rnncc.frontends.torch.own_operators.function_op import GRADIENT_OF, WITH_GRADIENT
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of
from rnncc.nn.complex_numbers import Complex


class Environment(dict[Node, Any]):
    """What nodes have become."""

    def __missing__(self, node: Node) -> Any:
        what = "a gradient is read outside of the backward of its torch.autograd.Function"
        raise CompileError(location(node), what)


Lower = Callable[[Builder, Environment, Iterable[Node]], None]
"""Appends some nodes' ops to a builder, and their values to an environment."""


def backward_nodes(graph: Graph) -> set[Node]:
    """The nodes that depend on gradients that come from outside."""
    backward = set(graph.find_nodes(op="call_function", target=GRADIENT_OF))
    for node in graph.nodes if backward else ():
        ends = node.op == "output" or node.target is WITH_GRADIENT
        if not ends and not backward.isdisjoint(node.all_input_nodes):
            backward.add(node)
    return backward


def lower_function(
    b: Builder, node: Node, env: Environment, backward: set[Node], lower: Lower
) -> list[Value]:
    """The results of a `rnncc::with_gradient`.

    Args:
        env: the values of all other nodes; those of `backward` are lowered here.

    Raises:
        CompileError: a gradient that comes from outside is read outside of backward.
    """
    groups: Any = node.args
    values, inputs = ([env[n] for n in group] for group in groups[:2])
    grads, input_grads = groups[2:]
    if not inputs:
        return [b.stop_gradient(value) for value in values]
    joined = _joined(b, values)
    inner = Builder(Block(arg_types=[joined.type]), b.loc)
    known = Environment(zip(grads, _parts(inner, inner.block.args[0], values), strict=True))
    inside, reads = _leading_to(input_grads, backward), _Reads(inner.block)
    used = [*(n for one in inside for n in one.all_input_nodes), *input_grads]
    for n in dict.fromkeys(used):
        if n not in backward:
            known[n] = reads.of(env[n])
    lower(inner, known, inside)
    y = b.with_gradient(joined, inputs, list(reads.known), inner, [known[n] for n in input_grads])
    return _parts(b, y, values)


def _leading_to(ends: Sequence[Node], backward: set[Node]) -> list[Node]:
    """The nodes of backward that some values are computed by, in order."""
    leading, work = set[Node](), list(ends)
    while work:
        node = work.pop()
        if node in backward and node.target is not GRADIENT_OF and node not in leading:
            leading.add(node)
            work += node.all_input_nodes
    return sorted(leading)


class _Reads:
    """What a body reads of values outside of it: arguments of its block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.known: dict[SSAValue, SSAValue] = {}

    def of(self, value: Any) -> Any:
        """A node's value, as the body has it."""
        if isinstance(value, SSAValue):
            if value not in self.known:
                self.known[value] = self._block.insert_arg(value.type, len(self._block.args))
            return self.known[value]
        if isinstance(value, Complex):
            return Complex(self.of(value.re), self.of(value.im))
        if isinstance(value, (list, tuple)):
            return type(value)([self.of(part) for part in value])
        return value


def _joined(b: Builder, values: Sequence[SSAValue]) -> SSAValue:
    """Values that have their gradients in common, as one."""
    if len(values) == 1:
        return values[0]
    return b.concat([b.reshape(value, [_size(value)]) for value in values], 0)


def _parts(b: Builder, joined: SSAValue, values: Sequence[SSAValue]) -> list[SSAValue]:
    """What has been joined, or is of its shape, apart again."""
    if len(values) == 1:
        return [joined]
    parts, start = list[SSAValue](), Dim.of(0)
    for value in values:
        part = b.slice(joined, 0, start, _size(value))
        parts.append(b.reshape(part, dims_of(value)))
        start = start + _size(value)
    return parts


def _size(value: SSAValue) -> Dim:
    return product(dims_of(value))
