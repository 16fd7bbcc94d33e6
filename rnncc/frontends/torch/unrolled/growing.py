# pyright: basic, reportMissingImports=false
"""Sequences that grow by a row in each step: their parts are joined once, behind the last one.

    y1 = cat([y0, a])
    y2 = cat([y1, b])       ->   y3 = cat([y0, a, b, c])
    y3 = cat([y2, c])

Each step joins tensors of another shape, so that no two of them are alike and none is a loop's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.frontends.torch.unrolled.view import arguments_of, is_call, name_of, value_of

JOINS = "cat", "concat", "concatenate"


def join_at_once(module: GraphModule) -> None:
    """Join what is joined and then read by another such call alone, in a graph without changes in
    place; nodes know their results as fakes."""
    erased = set[Node]()
    for node in reversed(module.graph.nodes):
        if node in erased or (axis := _axis(node)) is None:
            continue
        pending, parts, taken = _joined(node)[::-1], list[Any](), dict[Node, None]()
        while pending:
            part = pending.pop()
            if isinstance(part, Node) and len(part.users) == 1 and _is_like(part, node, axis):
                taken[part] = None
                pending += _joined(part)[::-1]
            else:
                parts.append(part)
        node.args = (parts, *node.args[1:])
        for part in taken:
            module.graph.erase_node(part)
        erased |= taken.keys()


def _axis(node: Node) -> int | None:
    """The axis along which a call joins tensors; None if it is another call."""
    result = value_of(node)
    if not is_call(node) or name_of(node) not in JOINS or not isinstance(result, torch.Tensor):
        return None
    listed = bool(node.args) and isinstance(node.args[0], (list, tuple))
    if not listed or node.kwargs.keys() - {"dim", "axis"}:
        return None
    axis = arguments_of(node, dim=0)["dim"]
    return axis % result.ndim if type(axis) is int and result.ndim else None


def _joined(node: Node) -> list[Any]:
    tensors: Any = node.args[0]
    return list(tensors)


def _is_like(part: Node, node: Node, axis: int) -> bool:
    """Whether a call joins along the same axis, and tensors of the type of the whole."""
    if _axis(part) != axis or value_of(part).ndim != value_of(node).ndim:
        return False
    values = [value_of(part), *map(value_of, _joined(part))]
    return all(value.dtype == value_of(node).dtype for value in values)
