"""Nodes in an order in which they can run.

The standard says that they stand in such an order; ONNX Runtime reads files in which they do not,
as its own conversion to float16 writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rnncc.frontends.onnx.reading import graphs_in

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

Numbered = tuple[int, "NodeProto"]


def in_order(graph: GraphProto) -> list[Numbered]:
    """Nodes and their numbers, each behind those whose results it reads.

    They stay where they are as far as that allows, and all of them where one reads its own results,
    by way of others.
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    nodes, pending = list(graph.node), list(reversed(range(len(graph.node))))
    order, seen = dict[int, None](), set[int]()
    while pending:
        index = pending[-1]
        before = [makers[name] for name in _reads(nodes[index]) if name in makers]
        missing = [other for other in before if other not in seen]
        seen.add(index)
        if missing:
            pending += reversed(missing)
            continue
        if not order.keys() >= {*before}:
            return list(enumerate(nodes))
        order[pending.pop()] = None
    return [(index, nodes[index]) for index in order]


def _reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, or that graphs inside mention."""
    yield from node.input
    for graph in graphs_in(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (output.name for output in graph.output)
