# pyright: basic, reportMissingImports=false
"""Gradients within a cell: what transforms of torch.func compute becomes operators like any other.

`torch.func.grad(energy)(q)`, or `torch.autograd.grad` of tensors that the step makes, is PyTorch's
own backward of `energy`, traced. PyTorch's backward reads results by way of `detach`, since it
keeps no graph of itself; where the cell is differentiated in turn, these are the results
themselves. Those that the user's code detaches stay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import GRAD, graphs_of
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.own_operators.recurrent_op import recurrent_kind

_DETACHED = "rnncc_detached"
_RECURRENT: Any = torch.ops.rnncc.recurrent.default
_C: Any = torch._C
_DATA: Any = torch.Tensor.data
_DETACHING = (torch.Tensor.detach, torch.detach, _DATA.__get__, _C._autograd._get_data_attr)


def _refuse_own_gradients(module: GraphModule) -> None:
    """What PyTorch's backward does not see into."""
    for part in graphs_of(module):
        for node in part.graph.nodes:
            if recurrent_kind(node.target) is not None or node.target is _RECURRENT:
                what = "a recurrent layer beside torch.func is not supported"
                raise CompileError(location(node), what, "a cell, such as nn.LSTMCell")
            named = isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
            own = named and str(node.target).startswith("rnncc.")
            if own or node.target is autograd_function_apply:
                what = "a torch.autograd.Function beside torch.func is not supported"
                raise CompileError(location(node), what)


def _refuse_history(module: GraphModule) -> None:
    """In a loop of Python's, a tensor that all steps share has gradients by way of earlier steps,
    of which one step's graph has no trace."""
    for node in module.graph.find_nodes(op="call_function", target=GRAD):
        of: Any = node.args[1] if len(node.args) > 1 else node.kwargs["inputs"]
        inputs = of if isinstance(of, (list, tuple)) else [of]
        if any(place.op in ("placeholder", "get_attr") for place in inputs):
            what = "torch.autograd.grad of what a step is given is not supported"
            placed = node if node.meta.get("stack_trace") else node.next
            raise CompileError(location(placed), what, "torch.func.grad")


def without_transforms(
    module: GraphModule, traced: Callable[[Callable[..., Any]], GraphModule]
) -> GraphModule:
    """The same function with what the transforms compute in their place.

    Args:
        module: what is called.
        traced: gives the graph of aten operators that a call leaves.

    Raises:
        CompileError: something has a gradient of its own, which the transforms would not see.
    """
    _refuse_own_gradients(module)
    _refuse_history(module)

    def run(*tensors: Any) -> Any:
        with _Detaching():
            return _Runner(module).run(*tensors)

    with _left_as_found():
        plain = traced(run)
    for node in plain.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if _DETACHED not in node.meta:
            node.replace_all_uses_with(node.args[0])
            plain.graph.erase_node(node)
    plain.recompile()
    return plain


class _Runner(Interpreter):
    """Runs `torch.autograd.grad`; gradients that have no gradients of their own are detached."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        results = super().call_function(target, args, kwargs)
        if target is torch.ops.aten.detach.default:  # of an exported graph
            _mark_detached()
        if target is not GRAD or kwargs.get("create_graph", args[4:5] == (True,)):
            return results
        return tuple(None if x is None else x.detach() for x in results)


class _Detaching(TorchFunctionMode):
    """Marks what the user's code detaches in the graph that is being made."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _DETACHING:
            _mark_detached()
        return result


def _mark_detached() -> None:
    """Say that the user's code has just detached a tensor."""
    mode: Any = get_proxy_mode()
    for node in reversed(mode.tracer.graph.nodes):
        if node.target is not torch.ops.aten.detach.default:
            return
        node.meta[_DETACHED] = True


@contextmanager
def _left_as_found() -> Generator[None]:
    """Where tracing fails, leave no transform under way, which would turn gradients off."""
    depth: Any = getattr(_C._functorch.peek_interpreter_stack(), "level", lambda: 0)()
    try:
        yield
    except BaseException:
        _C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        _C._autograd._saved_tensors_hooks_enable()
        raise
