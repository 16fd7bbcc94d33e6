"""Branches that go on: what reads the results of an `If` is done in each of its branches.

In: nodes, and names of results of which its branches give tensors of other ranks or types, as
`x.squeeze(1) if c else x` does. Out: nodes, of which those that read these are inside both
branches, where they may make the results meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rnncc.frontends.onnx.formulas.learning import Learnt
from rnncc.frontends.onnx.order import defined, in_order, reads
from rnncc.frontends.onnx.reading import onnx_package, place_of

if TYPE_CHECKING:
    from onnx import NodeProto

    from rnncc.frontends.onnx.scope import Scope

BRANCHES = ("then_branch", "else_branch")


def run_all(scope: Scope, nodes: Iterable[NodeProto], outputs: Sequence[str], where: str) -> None:
    """Build the nodes of a graph or function, behind branches that turn out to go on anew."""
    left = deque(in_order(_joined_where(list(nodes), outputs, where, scope)))
    while left:
        index, op = left[0]
        try:
            scope.run_node(op, index, where)
            left.popleft()
        except Learnt as learnt:
            if not scope.model.try_uneven(learnt):
                raise
            rest = _joined_where([node for _, node in left], outputs, where, scope)
            left = deque(in_order(rest))


def _joined_where(
    nodes: list[NodeProto], outputs: Iterable[str], where: str, scope: Scope
) -> list[NodeProto]:
    """Nodes of which each `If` that gives a result of which it was learnt that it is uneven goes on
    with what reads that, but where it is an output, or where a branch has another value of a name
    that a reader mentions."""
    uneven, ends = scope.model.known.uneven_results, set(outputs)
    if not any(place.startswith(where) for place, _ in uneven):
        return nodes
    while (growing := _next(nodes, where, uneven, ends)) is not None:
        choice, followers, names = growing
        gone = {id(choice), *map(id, followers)}
        nodes = [node for node in nodes if id(node) not in gone]
        joined = _joined(choice, followers, names, ends.union(*map(reads, nodes)))
        nodes += [joined] if joined.output else []
    return nodes


def _next(
    nodes: Sequence[NodeProto],
    where: str,
    uneven: Collection[tuple[str, str]],
    outputs: set[str],
) -> tuple[NodeProto, list[NodeProto], list[str]] | None:
    """An `If` that can go on, what it goes on with, and the results that these read."""
    for at, node in enumerate(nodes):
        if node.op_type != "If":
            continue
        place = where + place_of(node, at)
        names = [name for name in node.output if (place, name) in uneven]
        if names and outputs.isdisjoint(names):
            followers = _followers(nodes, node, names)
            if not _hidden(node, followers):
                return node, followers, names
    return None


def _followers(
    nodes: Sequence[NodeProto], choice: NodeProto, uneven: Iterable[str]
) -> list[NodeProto]:
    """The nodes that read some results of an `If`, and those between it and these."""
    behind = _behind(nodes, filter(None, choice.output))
    makers = {name: node for node in behind for name in node.output if name}
    read = set(uneven)
    waiting = [node for node in behind if not read.isdisjoint(reads(node))]
    followers = dict[int, Any]()
    while waiting:
        node = waiting.pop()
        if id(node) not in followers:
            followers[id(node)] = node
            waiting += [makers[name] for name in reads(node) if name in makers]
    return [node for node in behind if id(node) in followers]


def _behind(nodes: Sequence[NodeProto], names: Iterable[str]) -> list[NodeProto]:
    """The nodes that read some names, or what is computed of them."""
    reached, behind, before = set(names), dict[int, Any](), -1
    while before < len(behind):  # twice, where the nodes are in order
        before = len(behind)
        for node in nodes:
            if id(node) not in behind and not reached.isdisjoint(reads(node)):
                behind[id(node)] = node
                reached.update(name for name in node.output if name)
    return [node for node in nodes if id(node) in behind]


def _hidden(choice: NodeProto, followers: Sequence[NodeProto]) -> bool:
    """Whether a branch has a value of its own of a name that its followers mention."""
    mentioned = {name for node in followers for name in (*reads(node), *node.output) if name}
    mentioned |= {*choice.output}
    for graph in (a.g for a in choice.attribute if a.name in BRANCHES):
        passed = zip((o.name for o in graph.output), choice.output, strict=False)
        if not mentioned.isdisjoint({*defined(graph)} - {a for a, b in passed if a == b}):
            return True
    return False


def _joined(
    choice: NodeProto,
    followers: Sequence[NodeProto],
    names: Collection[str],
    read: Collection[str],
) -> NodeProto:
    """The `If` that goes on: it gives what its followers do in the place of what they read.

    Args:
        read: the names that something else reads.
    """
    helper = onnx_package().helper
    kept = [name for name in choice.output if name and name not in names]
    new = [name for node in followers for name in node.output if name in read]
    result = type(choice)()
    result.CopyFrom(choice)
    result.name = choice.name or next(filter(None, choice.output), "")  # as in messages
    del result.output[:]
    result.output.extend([*kept, *new])
    for attribute in result.attribute:
        if attribute.name not in BRANCHES:
            continue
        graph, inner = attribute.g, [output.name for output in attribute.g.output]
        passed = zip(inner, choice.output, strict=False)
        graph.node.extend(helper.make_node("Identity", [a], [b]) for a, b in passed if b and a != b)
        graph.node.extend(followers)
        del graph.output[:]
        graph.output.extend(helper.make_empty_tensor_value_info(n) for n in (*kept, *new))
    return result
