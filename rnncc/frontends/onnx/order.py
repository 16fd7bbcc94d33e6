"""Nodes in an order in which they can run.

The standard says that they stand in such an order; ONNX Runtime reads files in which they do not,
as its own conversion to float16 writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rnncc.frontends.onnx.reading import graphs_in

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

Numbered = tuple[int, "NodeProto"]


def in_order(nodes: Sequence[NodeProto]) -> list[Numbered]:
    """Nodes and their numbers, each behind those whose results it reads.

    They stay where they are as far as that allows, and all of them where one reads its own results,
    by way of others.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    pending = list(reversed(range(len(nodes))))
    order, seen = dict[int, None](), set[int]()
    while pending:
        index = pending[-1]
        before = [makers[name] for name in reads(nodes[index]) if name in makers]
        missing = [other for other in before if other not in seen]
        seen.add(index)
        if missing:
            pending += reversed(missing)
            continue
        if not order.keys() >= {*before}:
            return list(enumerate(nodes))
        order[pending.pop()] = None
    return [(index, nodes[index]) for index in order]


def reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, or that graphs inside read of those around."""
    yield from filter(None, node.input)
    for graph in graphs_in(node):
        own = {*defined(graph), *(each.name for each in graph.input)}
        inside = [name for inner in graph.node for name in reads(inner)]
        yield from (n for n in (*inside, *(o.name for o in graph.output)) if n not in own)


def defined(graph: GraphProto) -> Iterator[str]:
    """The names that a graph's nodes and initialisers give."""
    yield from (name for node in graph.node for name in node.output if name)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
