# pyright: basic, reportMissingImports=false
"""Floats that code takes out of tensors, with `x.item()` and the like, and computes with.

A graph has no numbers that only the run knows. So the function that takes them is to be read again,
written anew with tensors in their place (`rnncc.torch.branching`).
"""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch
from torch.fx import GraphModule

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.node_context import TAKEN, location
from rnncc.frontends.torch.readings import is_users, readings
from rnncc.frontends.torch.unrolled.view import value_of

_TAKING = torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default
CALLS = "item", "tolist", "__float__"
"""Methods of tensors that give numbers."""


def note_taken(code: CodeType, span: Any) -> None:
    """Note where users' code takes a float out of a tensor; `span` as in `co_positions()`."""
    if is_users(code.co_filename):
        readings.taken = code, span, True


def refuse_taken(module: GraphModule) -> None:
    """Refuse a graph that computes with floats taken out of tensors, and say which code took one.

    Raises:
        CompileError: it does.
    """
    for node in (node for part in graphs_of(module) for node in part.graph.nodes):
        is_float = node.target in _TAKING and isinstance(value_of(node), torch.SymFloat)
        if is_float and node.users:
            readings.asked = readings.taken
            raise CompileError(location(node), TAKEN, "keep it a tensor: x.detach(), not x.item()")
