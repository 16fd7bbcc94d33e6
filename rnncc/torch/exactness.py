# pyright: basic, reportMissingImports=false
"""Numbers of Python's that a loop carries as tensors: what is computed of them is as exact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule


def let_numbers_be_exact(graph: GraphModule, counters: Iterable[int | None]) -> None:
    """Let a graph compute in float64 what it computes of counters alone, as Python does: PyTorch's
    quotients and powers of integers are float32.

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
        value: Any = node.meta.get("val")
        is_tensor = isinstance(value, torch.Tensor) and value.dim() == 0
        if is_tensor and value.dtype == torch.float32 and "dtype" not in node.kwargs:
            node.meta["val"] = value.new_empty((), dtype=torch.float64)
