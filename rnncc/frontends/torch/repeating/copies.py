# pyright: basic, reportMissingImports=false
"""Copies of the nodes of a step, for the steps that follow it."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any

import torch
import torch._refs
from torch._dynamo.utils import get_fake_value, set_example_value
from torch._ops import HigherOrderOperator
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from rnncc.frontends.torch.repeating.fresh import Fresh, can_be_made
from rnncc.frontends.torch.unrolled.functional import memories_of
from rnncc.frontends.torch.unrolled.view import is_call, name_of, value_of

_ENTER, _EXIT = torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast
_FOR_EFFECT = frozenset({torch._C._set_grad_enabled, operator.setitem, _ENTER, _EXIT})
"""What a graph calls for its effect, which it has while the graph is read too."""
_TURNED: dict[Any, Any] = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}
"""Comparisons, by those with their sides turned."""
_OWN = frozenset({"example_value", "unbacked_bindings"})
"""What a node is told of its values, which are a copy's own."""
_SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool


def nodes_after(graph: Graph, last: Node) -> list[Node]:
    """The nodes that a graph has after one."""
    nodes, node = list[Node](), last.next
    while node.op != "root":
        nodes.append(node)
        node = node.next
    return nodes


def can_copy(node: Node, others: Collection[Node]) -> bool:
    """Whether a copy of a node does the same, and what stands for its value is known.

    Operators that have graphs, such as `torch.cond`, take no number in the place of a symbol.

    Args:
        others: the nodes among which it is copied.
    """
    is_tuple = isinstance(node.target, type) and issubclass(node.target, tuple)
    is_known = "example_value" in node.meta or node.target in _FOR_EFFECT or is_tuple
    if node.op == "placeholder" or not is_known or "unbacked_bindings" in node.meta:
        return False
    if is_call(node) and _changes_shapes(name_of(node)):  # of what the step was read with, too
        return False
    if not isinstance(node.target, HigherOrderOperator):
        return True
    return not any(source in others and _is_number(source) for source in node.all_input_nodes)


@cache
def _changes_shapes(name: str) -> bool:
    """Whether a function or method gives a tensor other sizes or strides in place; PyTorch tags
    `detach_` alike, which does not."""
    if name == "detach_":
        return False
    operators = getattr(torch.ops.aten, name) if hasattr(torch.ops.aten, name) else None
    overloads = operators.overloads() if operators is not None else ()
    return any(torch.Tag.inplace_view in getattr(operators, x).tags for x in overloads)


class Copier:
    """Copies the nodes of a step to the end of the graph, one time after another.

    Args:
        nodes: those of the step.
    """

    def __init__(self, tx: Any, nodes: Sequence[Node]) -> None:
        self._tx, self._nodes = tx, nodes
        self._alone = [*_alone(nodes)]
        self._regions = dict[Node, Any]()
        """The regions of autocast that a copy is in, by the nodes that enter them."""
        self._fresh = Fresh([x for node in self._alone for x in _tensors(node)])

    def copied(self, known: Mapping[Node, Any]) -> dict[Node, Any]:
        """One copy.

        Args:
            known: numbers and nodes that stand in the place of others.

        Returns:
            `known`, and for each node its copy, or the number that it gives.
        """
        values = dict(known)
        fakes = iter(self._fresh.made())
        examples = {node: _with_tensors(value_of(node), fakes) for node in self._alone}

        def value(node: Node) -> Any:
            return values.get(node, node)

        for node in self._nodes:
            if node not in known:
                args, kwargs = map_arg(node.args, value), map_arg(node.kwargs, value)
                values[node] = self._copy(node, args, kwargs, examples.get(node))
        return values

    def _copy(self, node: Node, args: Any, kwargs: Any, example: Any) -> Any:
        function: Any = node.target
        if _is_number(node) and not _has_nodes((args, kwargs)):
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return function(*args, **kwargs)
        graph, (target, args) = self._tx.output.graph, _without_symbols(node.target, args)
        new = graph.create_node(node.op, target, args, kwargs, type_expr=node.type)
        meta = {key: held for key, held in node.meta.items() if key not in _OWN}
        new.meta = {key: copy(held) if type(held) is dict else held for key, held in meta.items()}
        if node.target is torch._C._set_grad_enabled:
            function(*args)
        elif node.target is _ENTER:
            self._regions[new] = function(*args)
        elif node.target is _EXIT:
            function(self._regions.pop(args[0]))
        elif "example_value" in node.meta:
            set_example_value(new, self._example(node, new) if example is None else example)
        else:
            get_fake_value(new, self._tx)
        return new

    def _example(self, node: Node, new: Node) -> Any:
        """What stands for a copy's value, as it would be were it read."""
        held = node.meta["example_value"]
        if node.op == "get_attr":
            return held
        if new.target is operator.getitem:
            operands: Any = map_arg(new.args, lambda arg: arg.meta["example_value"])
            source, place = operands
            if isinstance(source, tuple | list):
                return source[place]
        return get_fake_value(new, self._tx, allow_non_graph_fake=True)


def _without_symbols(target: Any, args: Any) -> tuple[Any, Any]:
    """What TorchDynamo writes where it has numbers, for what it writes where it has symbols."""
    if target is torch.select and args[1] == 0 and type(args[2]) is int:
        return operator.getitem, (args[0], args[2])
    if target in _TURNED and isinstance(args[0], int | float) and isinstance(args[1], Node):
        return _TURNED[target], (args[1], args[0])
    return (torch.tensor if target is torch._refs.tensor else target), args


def _alone(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes whose tensors share memory with none before: copies of those stand for theirs."""
    outer = {source for node in nodes for source in node.all_input_nodes} - set(nodes)
    seen = {memory for node in outer for memory in memories_of(_tensors(node))}
    for node in nodes:
        tensors = _tensors(node)
        memories = memories_of(tensors)
        is_alone = len({*memories}) == len(tensors) > 0 and seen.isdisjoint(memories)
        if is_alone and node.op != "get_attr" and all(map(can_be_made, tensors)):
            yield node
        seen.update(memories)


def _tensors(node: Node) -> list[torch.Tensor]:
    """The tensors of a result, of nests in it, too."""
    return [x for x in pytree.tree_leaves(value_of(node)) if isinstance(x, torch.Tensor)]


def _with_tensors(value: Any, others: Iterator[torch.Tensor]) -> Any:
    """A result with other tensors in the places of its own."""
    if isinstance(value, torch.Tensor):
        return next(others)
    return pytree.tree_map_only(torch.Tensor, lambda _: next(others), value)


def _is_number(node: Node) -> bool:
    return is_call(node) and isinstance(value_of(node), _SYMBOLIC | int | float | bool)


def _has_nodes(arguments: Any) -> bool:
    nodes = list[Node]()
    map_arg(arguments, nodes.append)
    return bool(nodes)
