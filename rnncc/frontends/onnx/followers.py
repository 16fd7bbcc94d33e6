"""Branches that go on: what reads the results of an `If` is done in each of its branches.

In: nodes, and names of results of which its branches give tensors of other ranks or types, as
`x.squeeze(1) if c else x` does. Out: nodes, of which those that read these are inside both
branches, where they may make the results meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rnncc.frontends.onnx.order import Numbered, defined, in_order, reads
from rnncc.frontends.onnx.reading import onnx_package

if TYPE_CHECKING:
    from onnx import NodeProto

BRANCHES = ("then_branch", "else_branch")


def nodes_of(
    nodes: Iterable[NodeProto], outputs: Iterable[str], names: Collection[str]
) -> list[Numbered]:
    """The nodes of a graph or function and their numbers, in an order in which they can run; each
    `If` among them that gives one of some names goes on with what reads it, but where that name is
    an output, or where a branch has another value of a name that a reader mentions."""
    nodes, ends = list(nodes), set(outputs)
    while names and (growing := _next(nodes, names, ends)) is not None:
        choice, followers = growing
        gone = {id(choice), *map(id, followers)}
        nodes = [node for node in nodes if id(node) not in gone]
        nodes.append(_joined(choice, followers, names, ends.union(*map(reads, nodes))))
    return in_order(nodes)


def _next(
    nodes: Sequence[NodeProto], names: Collection[str], outputs: set[str]
) -> tuple[NodeProto, list[NodeProto]] | None:
    """An `If` that can go on, and what it goes on with."""
    for node in nodes:
        uneven = [name for name in node.output if name in names]
        if node.op_type != "If" or not uneven or not outputs.isdisjoint(uneven):
            continue
        followers = _followers(nodes, node, uneven)
        if followers and not _hidden(node, followers):
            return node, followers
    return None


def _followers(
    nodes: Sequence[NodeProto], choice: NodeProto, uneven: Iterable[str]
) -> list[NodeProto]:
    """The nodes that read some results of an `If`, and those between it and these."""
    behind = _behind(nodes, choice.output)
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
