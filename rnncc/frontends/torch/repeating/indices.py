# pyright: basic, reportMissingImports=false
"""Lets a step's number be an index: PyTorch would ask what it is, on which no type depends."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._dynamo import utils

_INDEXING = frozenset({operator.getitem, operator.setitem})


def take_symbols(applies: Callable[[Any], bool]) -> None:
    """Have indices that are symbols checked against sizes, and then taken for a number.

    Args:
        applies: whether a graph has a step that stands for others.
    """
    own = utils.run_node

    @wraps(own)
    def run_node(graph: Any, node: Any, args: Any, kwargs: Any, module: Any) -> Any:
        if node.target in _INDEXING and isinstance(args[0], torch.Tensor) and applies(graph):
            args = args[0], _with_numbers(args[0], args[1]), *args[2:]
        return own(graph, node, args, kwargs, module)

    utils.run_node = run_node


def _with_numbers(tensor: torch.Tensor, key: Any) -> Any:
    """An index with the numbers that its symbols have now.

    Raises:
        IndexError: one is outside of its axis, now. Elsewhere a guard is left.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    axes = [_axes_of(entry) for entry in entries]
    axis = 0
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            axis = tensor.ndim - sum(axes[place + 1 :])
            continue
        if isinstance(entry, torch.SymInt):
            size = tensor.shape[axis]
            if not (entry < size and entry >= -size):
                raise IndexError(f"index {entry} is out of bounds for dimension {axis}")
            entries[place] = entry.node.hint
        axis += axes[place]
    return tuple(entries) if isinstance(key, tuple) else entries[0]


def _axes_of(entry: Any) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8):
        return entry.ndim
    return 1
