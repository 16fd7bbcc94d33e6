# pyright: basic, reportMissingImports=false
"""Tensors that a branch on a tensor's value gives as it finds them. In Python such a result is the
tensor itself, and each sees what is changed in the other; a graph has two. Changes are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import held_graph
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import results_of, value_of


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


def may_be_one(one: Any, other: Any) -> bool:
    """Whether two values of a loop may be the same tensor, but for what the loop does."""
    kinds = [(x.dtype, x.shape) for x in map(value_of, (one, other))]
    return kinds[0] == kinds[1]


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
