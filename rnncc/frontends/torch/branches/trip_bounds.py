# pyright: basic, reportMissingImports=false
"""The most iterations of a `torch.while_loop`, from the counters among what it carries.

A tighter bound than the default one is memory in training, where values of all iterations are kept.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.frontends.torch.graphs import held_graph
from rnncc.frontends.torch.unrolled.view import results_of

_SAME = ("clone", "view", "reshape", "alias", "detach", "_unsafe_view", "expand")
_AND, _OR = ("logical_and", "bitwise_and"), ("logical_or", "bitwise_or")
_BELOW = {"lt": 0, "le": 1}
_OPPOSITE = {"ge": 0, "gt": 1}
"""Comparisons that end a loop where they hold; 1 where one that is equal goes on."""


def most_iterations(inits: Any, going: GraphModule, step: GraphModule) -> int | None:
    """The most iterations that there can be; None if that does not follow from a counter.

    Args:
        inits: the nodes of what is carried, before the loop.
    """
    loop = _LoopBody(step, len(inits))
    carried = dict(zip(going.graph.find_nodes(op="placeholder"), range(len(inits)), strict=False))
    bounds = list[int]()
    for part in loop.parts(results_of(going)[0], _AND):
        if part in carried:
            bounds += loop.bounds_by_flag(loop.results[carried[part]], inits)
        elif (limit := _limit(part, _BELOW)) is not None and (
            n := loop.origin(limit[0])
        ) in carried:
            bounds += loop.bound(inits, carried[n], 0, *limit[1:])
    return min(bounds, default=None)


class _LoopBody:
    """The body of a loop.

    Attributes:
        results: what an iteration gives.
    """

    def __init__(self, step: GraphModule, count: int) -> None:
        self.results = results_of(step)
        self._carried = step.graph.find_nodes(op="placeholder")[:count]
        self._outer = dict[Any, Any]()  # what branches are given, and where that is from
        self._taken = dict[Any, int]()  # ways of branches where the loop goes on

    def origin(self, node: Any) -> Any:
        """What a node is a copy or view of."""
        while isinstance(node, Node):
            if node in self._outer:
                node = self._outer[node]
            elif _name(node) in _SAME:
                node = node.args[0]
            else:
                break
        return node

    def parts(self, node: Any, names: Sequence[str]) -> Iterator[Any]:
        """Of which it consists, by `and` or by `or`."""
        node = self.origin(node)
        if _name(node) not in names:
            yield node
            return
        for part in node.args:
            yield from self.parts(part, names)

    def bounds_by_flag(self, flag: Any, inits: Any) -> list[int]:
        """By what makes a flag false, without which the loop goes on."""
        limits, branch = list[tuple[Any, Any, int]](), self._branch(flag)
        while branch is not None:
            call, number = branch
            if _number(self.origin(self._way(call, 0)[number])) != 0:
                break
            self._taken[call] = 1
            ends = list(self.parts(call.args[0], _OR))
            limits += [limit for end in ends if (limit := _limit(end, _OPPOSITE)) is not None]
            branch = self._branch(self._way(call, 1)[number])
        bounds = list[int]()
        for node, limit, equal in limits:
            for index, counter in enumerate(self._carried):
                if (offset := self._least(node, counter)) is not None:
                    bounds += [n + 1 for n in self.bound(inits, index, offset, limit, equal)]
        return bounds

    def bound(self, inits: Any, index: int, offset: Any, limit: Any, equal: int) -> list[int]:
        """While a carried counter, and so much more, is below a limit."""
        first = self._least(inits[index])
        added = self._least(self.results[index], self._carried[index])
        if first is None or added is None or added <= 0:
            return []
        count = (limit - offset - first) / added
        if not math.isfinite(count):
            return []
        exact = all(isinstance(x, int) for x in (limit, offset, first, added))
        most = math.floor(count) + 1 if equal else math.ceil(count)
        return [max(most, 0) + (not exact)]

    def _least(self, node: Any, counter: Node | None = None) -> Any:
        """The least that a number may be, or that is added to a counter."""
        node = self.origin(node)
        if counter is None and (known := _number(node)) is not None:
            return known
        if node is counter:
            return 0
        is_sum = _name(node) == "add" and not node.kwargs  # of no multiple of what is added
        if is_sum and (added := _number(node.args[1])) is not None:
            rest = self._least(node.args[0], counter)
            return None if rest is None else rest + added
        if (branch := self._branch(node)) is None:
            return None
        call, number = branch
        ways = [self._taken[call]] if call in self._taken else [0, 1]
        bounds = [self._least(self._way(call, way)[number], counter) for way in ways]
        return None if None in bounds else min(bounds)

    def _branch(self, node: Any) -> tuple[Any, Any] | None:
        """The branch, and which result of it, that a node is."""
        node = self.origin(node)
        is_part = isinstance(node, Node) and node.target is operator.getitem
        call: Any = node.args[0] if is_part else None
        is_branch = is_part and call.target is torch.ops.higher_order.cond
        return (call, node.args[1]) if is_branch else None

    def _way(self, call: Node, number: int) -> Sequence[Any]:
        graph: Any = held_graph(call.args[1 + number])
        operands: Any = call.args[3]
        self._outer.update(zip(graph.graph.find_nodes(op="placeholder"), operands, strict=True))
        return results_of(graph)


def _name(node: Any) -> str:
    """The name of an operator of aten."""
    target = getattr(node, "target", None)
    return target._opname if isinstance(target, torch._ops.OpOverload) else ""


def _limit(node: Any, kinds: dict[str, int]) -> tuple[Any, Any, int] | None:
    """What is compared with a number, that number, and whether one that is equal goes on."""
    if _name(node) not in kinds or (limit := _number(node.args[1])) is None:
        return None
    return node.args[0], limit, kinds[_name(node)]


def _number(node: Any) -> Any:
    """The number that a node is, if that is known."""
    if isinstance(node, (bool, int, float)):
        return node
    known = _name(node) == "full" and not node.args[0] and isinstance(node.args[1], (int, float))
    return node.args[1] if known else None
