# pyright: basic, reportMissingImports=false
"""Graphs within graphs: branches, bodies of loops, custom Functions."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node


def graphs_of(module: GraphModule) -> list[GraphModule]:
    """A graph, and those within it."""
    return [part for part in module.modules() if isinstance(part, GraphModule)]


def held_graph(node: Any) -> GraphModule | None:
    """The graph that a node names."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, GraphModule) else None
