# pyright: basic, reportMissingImports=false
"""What is changed in a graph of calls, and refused, before it is traced."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.fx import GraphModule, Node

from rnncc.frontends.torch.graphs import graphs_of, is_transform
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.own_operators.recurrent_op import CELLS
from rnncc.frontends.torch.readings import refuse


def call_instead(module: GraphModule) -> None:
    """Keep cells whole; let `x.data` be seen to share the memory of x, changes be operators' that
    functionalization knows, and constants be copies."""
    for part in graphs_of(module):
        for function, replacement in {**CELLS, **_INSTEAD}.items():
            for node in list(part.graph.find_nodes(op="call_function", target=function)):
                node.target = replacement
        for node in list(part.graph.nodes):
            if node.op == "call_method" and node.target in _METHODS:
                node.op, node.target = "call_function", _METHODS[node.target]
            if node.target in _WRITTEN_DOWN:
                with part.graph.inserting_after(node):
                    copy = part.graph.call_method("clone", (node,))
                copy.meta = dict(node.meta)
                node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
        part.recompile()


def _fill_diagonal_(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """The method, which functionalization does not take, of a matrix."""
    if wrap or x.dim() != 2:
        return x.fill_diagonal_(fill_value, wrap)
    x.diagonal().fill_(fill_value)
    return x


_METHODS: dict[Any, Any] = {
    "fill_diagonal_": _fill_diagonal_,
    "stft": torch.functional.stft,
    "istft": torch.istft,
}
"""Methods that are functions here."""
_WRITTEN_DOWN = (torch.tensor, torch.Tensor.new_tensor, "new_tensor")
"""They detach what they make: functionalization would detach what is written there later, too."""

_INSTEAD: dict[Any, Any] = {
    torch._C._autograd._get_data_attr: torch.Tensor.detach,  # pyright: ignore
    operator.iand: torch.Tensor.bitwise_and_,
    operator.ior: torch.Tensor.bitwise_or_,
    operator.ixor: torch.Tensor.bitwise_xor_,
    operator.ilshift: torch.Tensor.bitwise_left_shift_,
    operator.irshift: torch.Tensor.bitwise_right_shift_,
}
"""Functionalization takes none of `&=` and its like as Python calls them."""
_FORGOTTEN = {
    "inference_mode": ("torch.inference_mode() is not supported here", "x.detach()"),
    "requires_grad_": ("requires_grad_() is not supported here", None),
    "register_hook": ("hooks within compiled code are not supported", None),
    "bw_hooks": ("hooks within compiled code are not supported", None),
    "autograd.grad": ("torch.autograd.grad is not supported here", None),
}
"""Parts of the names of calls whose effect on gradients a trace would not show."""


def refuse_forgotten(module: GraphModule) -> None:
    """Refuse calls whose effect on gradients a trace would not show.

    Raises:
        CompileError: there is one, in the graph or one within it.
    """
    for part in graphs_of(module):
        for node in part.graph.nodes:
            if is_transform(node):
                continue
            reason = next((r for word, r in _FORGOTTEN.items() if word in _called(node)), None)
            if node.target is tag_activation_checkpoint and node.kwargs.get("use_reentrant", True):
                reason = "a checkpoint with use_reentrant is not supported", "use_reentrant=False"
            if reason is not None:
                placed = node if node.meta.get("stack_trace") else node.next
                what, hint = reason
                refuse(location(placed), what, hint)


def without_checkpoints(module: GraphModule) -> None:
    """Let checkpointed parts be called as others are, in the graph and those within it.

    What backward keeps is not for a graph to say, and PyTorch exports no such call within a loop.

    Raises:
        CompileError: something acts on gradients.
    """
    refuse_forgotten(module)
    for part in graphs_of(module):
        for node in part.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
            with part.graph.inserting_before(node):
                held, *args = node.args
                call = part.graph.call_module(held.target, tuple(args))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            part.graph.erase_node(node)
        part.recompile()


def _called(node: Node) -> str:
    """The name of what a node calls, with its module."""
    target: Any = node.target
    if node.op != "call_function":
        return target if node.op == "call_method" else ""
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
