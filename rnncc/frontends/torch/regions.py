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
from rnncc.frontends.torch.marks import CHOICE, END, MARK
from rnncc.frontends.torch.merged import Merged, may_be_one
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import value_of

_HINTS = {"branch": "torch.where", "loop": "x = x + 1, not x += 1"}


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


def _branches_of(module: GraphModule) -> list[_Region]:
    """Those in a graph, and its loops; those within others first."""
    open_marks, found = list[list[Node]](), list[_Region]()
    for node in module.graph.find_nodes(op="call_function", target=MARK):
        place: Any = node.args[1]
        if place in (0, 3):
            open_marks.append([])
        open_marks[-1].append(node)
        if place in (2, 5):
            kind = _Branch if place == 2 else _Loop
            found.append(kind(module, open_marks.pop()))
    return found


def _refuse_changes_behind(module: GraphModule, branches: Sequence[_Region]) -> None:
    """Refuse changes in place of what a branch may have given as it was, and of what that is."""
    passed = {choice: values for branch in branches for choice, values in branch.passing()}
    merged = Merged(module.graph)
    for node in module.graph.nodes:
        merged.check(node)
        for value in passed.get(node, ()):
            merged.join(value_of(node), value_of(value))


class _Region:
    """What stands between three marks: two parts."""

    name = "branch"

    def __init__(self, module: GraphModule, marks: Sequence[Node]) -> None:
        self.module, self.marks = module, marks

    def parts(self) -> list[list[Node]]:
        """The nodes of each."""
        return [_between(*pair) for pair in zip(self.marks, self.marks[1:], strict=False)]

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        """Its results, and what each may be in Python, too."""
        raise NotImplementedError

    def settle(self) -> None:
        """Put a call in the place of the parts, and of what they give."""
        raise NotImplementedError

    def _check(self, results: Sequence[Sequence[Any]], ends: Sequence[Node]) -> None:
        """Refuse parts of which something else is read than results, by `ends`, and those that
        change what they have not made."""
        for part, values in zip(self.parts(), results, strict=True):
            _check_changes(part, self.name)
            _check_uses(part, values, [*ends, *self.marks], self.name)

    def _replace(self, target: Any, args: Sequence[Any], ends: Sequence[Node]) -> None:
        """Let a call with two graphs give what these nodes do."""
        graph = self.module.graph
        call = graph.call_function(target, tuple(args))
        call.meta = {**ends[0].meta, "val": tuple(value_of(end) for end in ends)}
        for number, end in enumerate(ends):
            with graph.inserting_before(end):
                taken = graph.call_function(operator.getitem, (call, number))
            taken.meta, name = dict(end.meta), end.name
            end.replace_all_uses_with(taken)
            graph.erase_node(end)
            taken._rename(name)  # by which signatures know it

    def _erase(self) -> None:
        for node in (*self.marks, *reversed([node for part in self.parts() for node in part])):
            self.module.graph.erase_node(node)

    def _held(self, graphs: Sequence[GraphModule]) -> list[Node]:
        return [self.module.graph.get_attr(_added(self.module, part)) for part in graphs]


class _Branch(_Region):
    """Both ways of a branch."""

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        """The choices, and those of their values that a way has not made itself."""
        ways = [(set(way), _memories_read(way)) for way in self.parts()]
        for choice in self._choices():
            values = zip(choice.args[1:], ways, strict=True)
            yield choice, [x for x, (way, read) in values if x not in way or _is_of(x, read)]

    def _choices(self) -> list[Node]:
        """Between what both ways give."""
        users = self.marks[0].args[0].users  # pyright: ignore
        return sorted(n for n in users if n.target is CHOICE and n > self.marks[-1])

    def settle(self) -> None:
        ways, choices = self.parts(), self._choices()
        results = [[choice.args[1 + n] for choice in choices] for n in range(2)]
        self._check(results, choices)
        if choices:
            operands = _operands(ways, results)
            parts = [_part(*both, operands) for both in zip(ways, results, strict=True)]
            for number in (x for x in operands if x > choices[0]):  # which were made tensors there
                choices[0].prepend(number)
            with self.module.graph.inserting_before(choices[0]):
                flag = self.marks[0].args[0]
                args = flag, *self._held(parts), _disjoint(operands)
                self._replace(torch.ops.higher_order.cond, args, choices)
        self._erase()


class _Loop(_Region):
    """The test and the body of a loop."""

    name = "loop"

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        """Its results; each may be what it began with, or another one."""
        ends = self._ends()
        for number, end in enumerate(ends):
            begun = [other.args[1].args[0] for other in ends]  # pyright: ignore
            alike = [x for x in (*begun, *ends[:number]) if may_be_one(x, end)]
            yield end, alike

    def _ends(self) -> list[Node]:
        """What there is behind it."""
        users = self.marks[1].args[0].users  # pyright: ignore
        return sorted(n for n in users if n.target is END and n > self.marks[-1])

    def settle(self) -> None:
        parts, ends = self.parts(), self._ends()
        begun: list[Any] = [end.args[1] for end in ends]
        results = [[self.marks[1].args[0]], [end.args[2] for end in ends]]
        self._check(results, ends)
        operands = [x for x in _operands(parts, results) if x not in begun]
        graphs = [_part(*both, [*begun, *operands]) for both in zip(parts, results, strict=True)]
        with self.module.graph.inserting_before(ends[0]):
            inits = tuple(_copy(x.args[0]) for x in begun)  # which may be one tensor
            args = *self._held(graphs), inits, _disjoint(operands)
            self._replace(torch.ops.higher_order.while_loop, args, ends)
        self._erase()
        for node in begun:
            self.module.graph.erase_node(node)


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


def _check_changes(part: Sequence[Node], name: str) -> None:
    """Refuse changes in place of what a part has not made."""
    read = _memories_read(part)
    for node in part:
        changed = changed_by(node)
        if changed is not None and (changed is node or _is_of(changed, read)):
            what = f"a {name} on a tensor's value changes a tensor in place that it has not made"
            raise CompileError(location(node), what, _HINTS[name])


def _check_uses(
    part: Sequence[Node], results: Sequence[Any], ends: Sequence[Node], name: str
) -> None:
    """Refuse a part of which something else is read than its results."""
    inside = {*part, *ends}
    for node in part:
        others = [user for user in node.users if user not in inside]
        if others or (node not in results and any(user in ends for user in node.users)):
            what = f"a {name} on a tensor's value leaves more than its results"
            raise CompileError(location(node), what, "torch.where")


def _operands(ways: Sequence[Sequence[Node]], results: Sequence[Sequence[Any]]) -> list[Node]:
    """What ways read, or give as it is."""
    found = dict[Node, None]()
    for way, values in zip(ways, results, strict=True):
        inside = set(way)
        found |= dict.fromkeys((*_read(way), *(x for x in values if x not in inside)))
    return [node for node in found if held_graph(node) is None]


def _disjoint(operands: Sequence[Node]) -> tuple[Node, ...]:
    """Operands, and copies of those that share memory with another, which PyTorch refuses."""
    known, found = set[int](), list[Node]()
    for operand in operands:
        found.append(_copy(operand) if _is_of(operand, known) else operand)
        known.update(memories_of(value_of(operand)))
    return tuple(found)


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
    graph.output(tuple(_copy(known[result]) for result in results))
    return GraphModule(held, graph)


def _copy(value: Any) -> Node:
    """A node that copies, behind all others of a graph or where such are put."""
    options: Any = {"memory_format": torch.contiguous_format}
    copy = value.graph.call_function(torch.ops.aten.clone.default, (value,), options)
    copy.meta = dict(value.meta)
    return copy


def _added(module: GraphModule, part: GraphModule) -> str:
    """The name of an attribute that holds a graph from now on."""
    number = 0
    while hasattr(module, f"branch_{number}"):
        number += 1
    setattr(module, f"branch_{number}", part)
    return f"branch_{number}"
