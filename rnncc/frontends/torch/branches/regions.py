# pyright: basic, reportMissingImports=false
"""Branches on a tensor's value in a graph that a trace has made: both ways stand in it, between
marks (`marks.py`), and behind them values are chosen. They become `torch.cond`, so that the way
that is not taken is not computed, and has no gradients."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.branches.marks import BEGIN, CHOICE, END, MARK
from rnncc.frontends.torch.branches.merged import Merged, may_be_one
from rnncc.frontends.torch.branches.region_changes import (
    changed_in,
    check_apart,
    copied_within,
    elsewhere,
    memories_read,
    name_changed,
    name_given,
    put_behind,
    reads_of,
    refuse_change,
    share,
)
from rnncc.frontends.torch.graphs import graphs_of, held_graph
from rnncc.frontends.torch.mark_places import (
    BRANCH_END,
    LOOP_END,
    LOOP_TEST,
    TRIAL,
    TRIAL_END,
    WAY_IF_TRUE,
)
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import name_of, value_of, with_value


def settle_branches(module: GraphModule) -> None:
    """Write what stands between marks as calls of `torch.cond`, in place.

    Raises:
        CompileError: a way changes what it has not made, or leaves more than what is chosen.
    """
    for part in graphs_of(module):
        if branches := _branches_of(part):
            for way in (way for branch in branches for way in branch.parts()):
                name_changed(way)
                name_given(way)
            _refuse_changes_behind(part, branches)
            for branch in branches:
                branch.settle()
            part.recompile()


def _branches_of(module: GraphModule) -> list[_Region]:
    """Those in a graph, and its loops; those within others first."""
    open_marks, regions = list[tuple[int, list[Node]]](), list[_Region]()
    for node in module.graph.find_nodes(op="call_function", target=MARK):
        place: Any = node.args[1]
        if place in _FIRST:
            open_marks.append((len(regions), []))
        open_marks[-1][1].append(node)
        if place in _LAST:
            known, marks = open_marks.pop()
            if _LAST[place] is _Trial:
                del regions[known:]
            regions.append(_LAST[place](module, marks))
    return regions


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
        """Refuse parts of which something else is read than results, by `ends`."""
        for part, values in zip(self.parts(), results, strict=True):
            _check_uses(part, values, [*ends, *self.marks], self.name)

    def _replace(
        self, target: Any, args: Sequence[Any], ends: Sequence[Node], changed: Mapping[Node, int]
    ) -> None:
        """Let a call with two graphs give what these nodes do, and then change tensors in place.

        Args:
            changed: the tensors, and by the number of which result.
        """
        graph, at = self.module.graph, ends[0] if ends else self.marks[-1]
        call = graph.call_function(target, tuple(args))
        more = [x for x, number in changed.items() if number >= len(ends)]
        results = *map(value_of, ends), *map(elsewhere, more)
        call.meta = with_value(at.meta, results)
        taken = [_taken(call, number, end) for number, end in enumerate(ends)]
        for number, node in enumerate(more, len(ends)):
            taken.append(graph.call_function(operator.getitem, (call, number)))
            taken[-1].meta = with_value(node.meta, results[number])
        for number, end in enumerate(ends):
            name = end.name
            end.replace_all_uses_with(taken[number])
            graph.erase_node(end)
            taken[number]._rename(name)  # by which signatures know it
        put_behind(call, [(taken[number], node) for node, number in changed.items()])

    def _erase(self) -> None:
        graph, nodes = self.module.graph, [node for part in self.parts() for node in part]
        for node in (*self.marks, *reversed(nodes)):
            graph.erase_node(node)
        for node in nodes:  # else PyTorch would look for its constants in the graph they stood in
            if node.op == "get_attr" and not graph.find_nodes(op="get_attr", target=node.target):
                delattr(self.module, str(node.target))

    def _held(self, graphs: Sequence[GraphModule]) -> list[Node]:
        return [self.module.graph.get_attr(_added(self.module, part)) for part in graphs]


class _Branch(_Region):
    """Both ways of a branch."""

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        """The choices, and those of their values that a way has not made itself."""
        ways = [(set(way), memories_read(way)) for way in self.parts()]
        for choice in self._choices():
            values = zip(choice.args[1:], ways, strict=True)
            yield choice, [x for x, (way, read) in values if x not in way or share(x, read)]

    def _choices(self) -> list[Node]:
        """Between what both ways give."""
        users = self.marks[0].args[0].users  # pyright: ignore
        return sorted(n for n in users if n.target is CHOICE and n > self.marks[-1])

    def settle(self) -> None:
        ways, choices = self.parts(), self._choices()
        changes = [changed_in(way, self.name) for way in ways]
        changed = changes[1] | changes[0]
        results: list[list[Any]] = [[x.args[1 + n] for x in choices] for n in range(2)]
        self._check(results, choices)
        results = [[*values, *changed] for values in results]
        if choices or changed:
            operands, at = _operands(ways, results), choices[0] if choices else self.marks[-1].next
            check_apart(changed, operands, self.name)
            parts = [
                _part(way, values, operands, own)
                for way, values, own in zip(ways, results, changes, strict=True)
            ]
            for number in (x for x in operands if x > at):  # which were made tensors there
                at.prepend(number)
            with self.module.graph.inserting_before(at):
                flag = self.marks[0].args[0]
                args = flag, *self._held(parts), _disjoint(operands)
                places = {x: len(choices) + n for n, x in enumerate(changed)}
                self._replace(torch.ops.higher_order.cond, args, choices, places)
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
        (test, body), ends = self.parts(), self._ends()
        begun: list[Any] = [end.args[1] for end in ends]
        values: list[Any] = [end.args[2] for end in ends]
        self._check([[self.marks[1].args[0]], values], ends)
        changes = changed_in(body, self.name)
        for node in changed_in(test, self.name).values():
            refuse_change(node, "loop's test", "hands it on")
        if not changes and begun == values:
            what = "a loop on a tensor's value changes nothing: it would not end"
            raise CompileError(location(self.marks[0]), what)
        for variable, now in zip(begun, values, strict=True):
            if variable in changes and now is not variable:
                refuse_change(changes[variable], self.name, "replaces it, too")
        more = [node for node in changes if node not in begun]
        results = [[self.marks[1].args[0]], [*values, *more]]
        carried = [*begun, *more]
        read = [x for x in _operands([test, body], results) if x not in begun]
        inits: list[Any] = [node.args[0] for node in begun]
        sources = [inits[begun.index(x)] if x in begun else x for x in changes]
        by = dict(zip(sources, changes.values(), strict=True))
        check_apart(by, [*inits, *read], self.name)
        operands = [x for x in read if x not in more]
        graphs = [
            _part(test, results[0], [*carried, *operands], []),
            _part(body, results[1], [*carried, *operands], changes),
        ]
        with self.module.graph.inserting_before(ends[0]):
            copies = tuple(_copy(x) for x in (*inits, *more))  # of what may be one tensor
            args = *self._held(graphs), copies, _disjoint(operands)
            changed = {x: carried.index(node) for x, node in zip(sources, changes, strict=True)}
            self._replace(torch.ops.higher_order.while_loop, args, ends, changed)
        self._erase()
        for node in begun:
            self.module.graph.erase_node(node)


class _Trial(_Region):
    """What was run to learn what it changes, or what it makes: zeros may be like that."""

    name = "loop"

    def passing(self) -> Iterator[tuple[Node, list[Any]]]:
        yield from ()

    def settle(self) -> None:
        (part,) = self.parts()
        inside = {*part}
        behind = {user for node in part for user in node.users} - inside
        _check_uses(part, part, [x for x in behind if name_of(x) == "zeros_like"], self.name)
        for node in self.marks:
            self.module.graph.erase_node(node)
        for node in reversed(part):
            if (alike := _same_kind(node)) is not None:
                node.replace_all_uses_with(alike)
            if not node.users:
                self.module.graph.erase_node(node)


def _same_kind(node: Node) -> Any:
    """An operand of the type and shape of what a node gives that is not to be run."""
    if node.target in (CHOICE, END):
        return node.args[1]
    return node.args[0] if node.target is BEGIN else changed_by(node)


_FIRST = WAY_IF_TRUE, LOOP_TEST, TRIAL
_LAST: dict[int, type[_Region]] = {BRANCH_END: _Branch, LOOP_END: _Loop, TRIAL_END: _Trial}
"""The marks that begin a region, and those that end one, with its kind."""


def _between(start: Node, end: Node) -> list[Node]:
    nodes, node = list[Node](), start.next
    while node is not end:
        nodes.append(node)
        node = node.next
    return nodes


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
    reads = dict[Node, None]()
    for way, values in zip(ways, results, strict=True):
        inside = set(way)
        reads |= dict.fromkeys((*reads_of(way), *(x for x in values if x not in inside)))
    return [node for node in reads if held_graph(node) is None]


def _disjoint(operands: Sequence[Node]) -> tuple[Node, ...]:
    """Operands, and copies of those that share memory with another, which PyTorch refuses."""
    known, operands_apart = set[int](), list[Node]()
    for operand in operands:
        operands_apart.append(_copy(operand) if share(operand, known) else operand)
        known.update(memories_of(value_of(operand)))
    return tuple(operands_apart)


def _taken(call: Node, number: int, end: Node) -> Node:
    """A result of a call, in the place of another node."""
    with call.graph.inserting_before(end):
        taken = call.graph.call_function(operator.getitem, (call, number))
    taken.meta = dict(end.meta)
    return taken


def _part(
    way: Sequence[Node],
    results: Sequence[Any],
    operands: Sequence[Node],
    changed: Collection[Node],
) -> GraphModule:
    """A way as a graph of its own; its results share no memory with what it is given.

    Args:
        changed: which of the operands it may change in place.
    """
    graph, known, held = Graph(), dict[Node, Node](), dict[str, Any]()
    for operand in operands:
        known[operand] = graph.placeholder(operand.name)
        known[operand].meta = dict(operand.meta)
    for operand in changed:
        known[operand] = copied_within(graph, known[operand])

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
