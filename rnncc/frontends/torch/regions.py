# pyright: basic, reportMissingImports=false
"""Branches on a tensor's value in a graph that a trace has made: both ways stand in it, between
marks (`marks.py`), and behind them values are chosen. They become `torch.cond`, so that the way
that is not taken is not computed, and has no gradients."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of, held_graph
from rnncc.frontends.torch.marks import CHOICE, MARK
from rnncc.frontends.torch.merged import Merged
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import value_of

_NAME = "branch"


def settle_branches(module: GraphModule) -> None:
    """Write what stands between marks as calls of `torch.cond`, in place.

    Raises:
        CompileError: a way changes what it has not made, or leaves more than what is chosen.
    """
    for part in graphs_of(module):
        if branches := _branches_of(part):
            _refuse_changes_behind(part, branches)
            for branch in branches:
                branch.settle()
            part.recompile()


def _branches_of(module: GraphModule) -> list[_Branch]:
    """Those in a graph; those within others first."""
    open_marks, found = list[list[Node]](), list[_Branch]()
    for node in module.graph.find_nodes(op="call_function", target=MARK):
        place: Any = node.args[1]
        if place == 0:
            open_marks.append([])
        open_marks[-1].append(node)
        if place == 2:
            found.append(_Branch(module, open_marks.pop()))
    return found


def _refuse_changes_behind(module: GraphModule, branches: Sequence[_Branch]) -> None:
    """Refuse changes in place of what a branch may have given as it was, and of what that is."""
    passed = {choice: values for branch in branches for choice, values in branch.passing()}
    merged = Merged(module.graph)
    for node in module.graph.nodes:
        merged.check(node)
        for value in passed.get(node, ()):
            merged.join(value_of(node), value_of(value))


class _Branch:
    """What stands between three marks."""

    def __init__(self, module: GraphModule, marks: Sequence[Node]) -> None:
        self.module, self.marks = module, marks

    def _ways(self) -> list[list[Node]]:
        return [_between(*pair) for pair in zip(self.marks, self.marks[1:], strict=False)]

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        """The choices, and those of their values that a way has not made itself."""
        ways = [(set(way), _memories_read(way)) for way in self._ways()]
        for choice in self._choices():
            values = zip(choice.args[1:], ways, strict=True)
            yield choice, [x for x, (way, read) in values if x not in way or _is_of(x, read)]

    def _choices(self) -> list[Node]:
        """Between what both ways give."""
        users = self.marks[0].args[0].users  # pyright: ignore
        return sorted(n for n in users if n.target is CHOICE and n > self.marks[-1])

    def settle(self) -> None:
        """Put the call behind the ways, and take away what it replaces."""
        ways, choices = self._ways(), self._choices()
        for number, way in enumerate(ways):
            _check_changes(way)
            _check_uses(way, [choice.args[1 + number] for choice in choices], choices)
        if choices:
            self._call(ways, choices)
        for node in (*reversed([*ways[0], *ways[1]]), *self.marks):
            self.module.graph.erase_node(node)

    def _call(self, ways: Sequence[Sequence[Node]], choices: Sequence[Node]) -> None:
        results = [[choice.args[1 + n] for choice in choices] for n in range(2)]
        operands = _operands(ways, results)
        parts = [_part(*both, operands) for both in zip(ways, results, strict=True)]
        graph, cond = self.module.graph, torch.ops.higher_order.cond
        for number in (x for x in operands if x > choices[0]):  # which were made tensors there
            choices[0].prepend(number)
        with graph.inserting_before(choices[0]):
            held = [graph.get_attr(_added(self.module, part)) for part in parts]
            flag = self.marks[0].args[0]
            call = graph.call_function(cond, (flag, *held, tuple(operands)))  # pyright: ignore
        call.meta = {**choices[0].meta, "val": tuple(value_of(choice) for choice in choices)}
        for number, choice in enumerate(choices):
            with graph.inserting_before(choice):
                taken = graph.call_function(operator.getitem, (call, number))
            taken.meta, name = dict(choice.meta), choice.name
            choice.replace_all_uses_with(taken)
            graph.erase_node(choice)
            taken._rename(name)  # by which signatures know it


def _between(start: Node, end: Node) -> list[Node]:
    nodes, node = list[Node](), start.next
    while node is not end:
        nodes.append(node)
        node = node.next
    return nodes


def _read(way: Sequence[Node]) -> list[Node]:
    """What a way reads of others."""
    inside = set(way)
    return [x for node in way for x in node.all_input_nodes if x not in inside]


def _memories_read(way: Sequence[Node]) -> set[int]:
    return {key for node in _read(way) for key in memories_of(value_of(node))}


def _is_of(node: Node, memories: set[int]) -> bool:
    return not memories.isdisjoint(memories_of(value_of(node)))


def _check_changes(way: Sequence[Node]) -> None:
    """Refuse changes in place of what a way has not made."""
    read = _memories_read(way)
    for node in way:
        changed = changed_by(node)
        if changed is not None and (changed is node or _is_of(changed, read)):
            what = "a branch on a tensor's value changes a tensor in place that it has not made"
            raise CompileError(location(node), what, "torch.where")


def _check_uses(way: Sequence[Node], given: Sequence[Any], choices: Sequence[Node]) -> None:
    """Refuse a way of which something else is read than what is chosen."""
    inside = {*way, *choices}
    for node in way:
        others = [user for user in node.users if user not in inside]
        if others or (node not in given and any(user in choices for user in node.users)):
            what = "a branch on a tensor's value leaves more than its results"
            raise CompileError(location(node), what, "torch.where")


def _operands(ways: Sequence[Sequence[Node]], results: Sequence[Sequence[Any]]) -> list[Node]:
    """What ways read, or give as it is."""
    found = dict[Node, None]()
    for way, given in zip(ways, results, strict=True):
        inside = set(way)
        found |= dict.fromkeys((*_read(way), *(x for x in given if x not in inside)))
    return [node for node in found if held_graph(node) is None]


def _part(way: Sequence[Node], results: Sequence[Any], operands: Sequence[Node]) -> GraphModule:
    """A way as a graph of its own; its results share no memory with what it is given."""
    graph, known, held = Graph(), dict[Node, Node](), dict[str, Any]()
    for operand in operands:
        known[operand] = graph.placeholder(operand.name)
        known[operand].meta = dict(operand.meta)

    def copied(node: Node) -> Node:
        if node not in known:
            known[node] = graph.node_copy(node, copied)
            if node.op == "get_attr":  # a graph or a constant
                held[str(node.target)] = getattr(node.graph.owning_module, str(node.target))
        return known[node]

    for node in way:
        copied(node)
    given = list[Node]()
    for result in results:
        options: Any = {"memory_format": torch.contiguous_format}
        given.append(graph.call_function(torch.ops.aten.clone.default, (known[result],), options))
        given[-1].meta = dict(result.meta)
    graph.output(tuple(given))
    return GraphModule(held, graph)


def _added(module: GraphModule, part: GraphModule) -> str:
    """The name of an attribute that holds a graph from now on."""
    number = 0
    while hasattr(module, f"{_NAME}_{number}"):
        number += 1
    setattr(module, f"{_NAME}_{number}", part)
    return f"{_NAME}_{number}"
