# pyright: basic, reportMissingImports=false
"""Floats that TorchDynamo found to change from call to call, as tensors of rank 0.

    item = l_self_tau.item()
    mul = item * 0.99                     mul = l_self_tau * 0.99
    mul_1 = h * mul                  ->   mul_1 = h * mul

It passes them in tensors of float64, with which results have the types that numbers give them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import copy_of, fake_mode, graphs_of
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.view import name_of, parts_of, value_of, with_value


def with_tensors_of_floats(module: GraphModule) -> GraphModule:
    """A graph that computes with such tensors; the graph itself if no float in it changes.

    Raises:
        CompileError: a function takes no tensor in a float's place, or gives something else then.
    """
    if not any(map(_is_taken, module.graph.nodes)) or len(graphs_of(module)) > 1:
        return module
    own = copy_of(module)
    places = own.graph.find_nodes(op="placeholder")
    if any(getattr(value_of(place), "is_cuda", False) for place in places):
        return module  # float64 is for the CPU
    mode = fake_mode([value_of(place) for place in places])
    changed = set[Node]()
    for node in list(own.graph.nodes):
        if _is_taken(node):
            changed.add(node.args[0])
            node.replace_all_uses_with(node.args[0])
            own.graph.erase_node(node)
        elif node.op != "output" and not changed.isdisjoint(node.all_input_nodes):
            value = _computed(node, mode)
            if isinstance(value_of(node), torch.SymFloat):
                node.meta = with_value(node.meta, value)
                changed.add(node)
    own.recompile()
    return own


def _is_taken(node: Node) -> bool:
    """Whether a node takes a float out of the tensor in which it comes; the `item()` of other
    tensors has no gradient, and is as exact as float64."""
    if node.target != "item" or not isinstance(value_of(node), torch.SymFloat):
        return False
    source: Any = node.args[0]
    tensor = value_of(source)
    is_exact = tensor.dtype == torch.float64 and not tensor.dim()
    return source.op == "placeholder" and is_exact and not tensor.requires_grad


def _computed(node: Node, mode: Any) -> Any:
    """What a node gives, now that some of its operands are tensors."""
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value_of)
    own = value_of(node)
    try:
        if isinstance(own, torch.SymFloat):
            node.target = _of_tensors(node)
        target: Any = node.target
        with mode:
            if node.op == "call_method":
                value = getattr(args[0], target)(*args[1:], **kwargs)
            else:
                value = target(*args, **kwargs)
    except Exception as error:
        raise _refused(node) from error
    if isinstance(own, torch.SymFloat):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            raise _refused(node)
    elif list(map(_kind, parts_of(value))) != list(map(_kind, parts_of(own))):
        raise _refused(node)
    return value


def _of_tensors(node: Node) -> Callable[..., Any] | Any:
    """The function of tensors for one of floats: `torch.sqrt` for `torch.sym_sqrt`."""
    name = name_of(node).removeprefix("_")
    return getattr(torch, name.removeprefix("sym_")) if name.startswith("sym_") else node.target


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.requires_grad
    return value


def _refused(node: Node) -> CompileError:
    what = f"{name_of(node) or node.target} of a float that changes from call to call"
    return CompileError(location(node), what, "keep it in a buffer")
