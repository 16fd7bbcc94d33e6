# pyright: basic, reportMissingImports=false
"""Numbers of Python's that a loop carries as tensors: where they are less exact than Python's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule


def rounds(graph: GraphModule, counters: Iterable[int | None]) -> bool:
    """Whether a graph computes floats of integer counters alone: float32, where Python's quotients
    and powers are float64.

    Args:
        counters: which of the graph's inputs are counters.
    """
    inputs = graph.graph.find_nodes(op="placeholder")
    known = {inputs[at] for at in counters if at is not None}
    for node in graph.graph.nodes:
        read = node.all_input_nodes
        if node.op != "call_function" or not read or not known.issuperset(read):
            continue
        known.add(node)
        made: Any = node.meta.get("val")
        if isinstance(made, torch.Tensor) and made.dtype == torch.float32:
            return True
    return False
