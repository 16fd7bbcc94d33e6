# pyright: basic, reportMissingImports=false
"""Tensors that a branch on a tensor's value gives as it finds them. In Python such a result is the
tensor itself, and each sees what is changed in the other; a graph has two. Changes are refused."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch._dynamo
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import held_graph
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import results_of, value_of

DECIDED = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)
"""What may give tensors as it found them."""


@torch._dynamo.allow_in_graph
def passed(x: torch.Tensor) -> torch.Tensor:
    """What a way of `torch.cond` gives, which may not share memory with what it is given."""
    return x.clone(memory_format=torch.contiguous_format)


class Merged:
    """Which tensors of a graph may be the same in Python."""

    def __init__(self, graph: Graph) -> None:
        self._with = dict[int, set[int]]()
        self._last_read = {
            key: node
            for node in graph.nodes
            for read in node.all_input_nodes
            for key in memories_of(value_of(read))
        }

    def _keys(self, value: Any) -> set[int]:
        own = set(memories_of(value))
        return own.union(*(self._with.get(key, set()) for key in own))

    def join(self, one: Any, other: Any) -> None:
        """Two may be one from here on."""
        keys = self._keys(one) | self._keys(other)
        for key in keys:
            self._with[key] = keys

    def are(self, one: Any, other: Any) -> bool:
        """Whether two may be one."""
        return not self._keys(one).isdisjoint(self._keys(other))

    def check(self, node: Node) -> None:
        """Refuse a node that changes in place what may be another one, too, which is read later."""
        changed = changed_by(node)
        keys = set() if changed is None else set(memories_of(value_of(changed)))
        same = set[int]().union(*(self._with.get(key, set()) for key in keys))
        if any(self._last_read.get(key, node) > node for key in same):
            what = "a tensor that a branch on a tensor's value may have given is changed in place"
            raise CompileError(location(node), what, "x = x + 1, not x += 1")


def refuse_changes_behind(module: GraphModule) -> list[set[int]]:
    """Refuse such changes in a graph of TorchDynamo's, which has called `torch.cond`.

    Returns:
        For each result the inputs that it may be.
    """
    merged = Merged(module.graph)
    for node in module.graph.nodes:
        merged.check(node)
        if node.target is torch.ops.higher_order.cond:
            for way in filter(None, map(held_graph, node.args[1:3])):
                origins, results = refuse_changes_behind(way), results_of(way)
                for user in (user for user in node.users if user.target is operator.getitem):
                    for number in origins[user.args[1]]:
                        merged.join(value_of(user), value_of(node.args[3][number]))
                    if _is_number(results[user.args[1]]):
                        merged.join(value_of(user), value_of(user))
        if node.target is torch.ops.higher_order.while_loop:
            _join_of_loop(merged, node)
    places = [value_of(place) for place in module.graph.find_nodes(op="placeholder")]
    return [_inputs_of(result, places, merged) for result in results_of(module)]


def may_be_one(one: Any, other: Any) -> bool:
    """Whether two values of a loop may be the same tensor, but for what the loop does."""
    kinds = [(x.dtype, x.shape) for x in map(value_of, (one, other))]
    return kinds[0] == kinds[1]


def _join_of_loop(merged: Merged, node: Node) -> None:
    """The results of a loop of Python's are what it began with, if it has no iteration."""
    parts = [part for part in map(held_graph, node.args[:2]) if part is not None]
    for part in parts:
        refuse_changes_behind(part)
    if not all(isinstance(x, Node) and x.target is passed for x in results_of(parts[1])):
        return
    users = [user for user in node.users if user.target is operator.getitem]
    begun: Any = [x.args[0] for x in node.args[2]]  # pyright: ignore
    for number, user in enumerate(users):
        for other in (*begun, *users[:number]):
            if may_be_one(user, other):
                merged.join(value_of(user), value_of(other))


def refuse_different_numbers(nodes: Iterable[Node]) -> None:
    """Refuse calls of `torch.cond` whose ways give different numbers of Python, which would be
    sizes that the run decides."""
    for node in nodes:
        if node.target is not torch.ops.higher_order.cond:
            continue
        ways = [results_of(way) for way in filter(None, map(held_graph, node.args[1:3]))]
        for both in zip(*ways, strict=True):
            if len({x for x in both if not isinstance(x, Node)}) > 1:
                what = "branches that give different numbers of Python are not supported here"
                raise CompileError(location(node), what)


def _is_number(result: Any) -> bool:
    """Whether a way gives a number of Python's, which nothing changes in place."""
    is_passed = isinstance(result, Node) and result.target is passed
    return is_passed and result.args[0].target is torch.full  # pyright: ignore


def _inputs_of(result: Any, places: list[Any], merged: Merged) -> set[int]:
    """Which inputs a result may be a copy of; none, if the user's code copies."""
    if not isinstance(result, Node) or result.target is not passed:
        return set()
    source = value_of(result.args[0])  # pyright: ignore
    return {number for number, place in enumerate(places) if merged.are(place, source)}
