# pyright: basic, reportMissingImports=false
"""Tensors that a graph makes and marks as leaves: `torch.zeros(2, 3).requires_grad_()`.

What is marked so is new or detached: nobody sees its gradient but who holds the tensor itself.
TorchDynamo leaves such code to Python, since other back ends lose the mark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables import builtin
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import location

_MARK = "requires_grad_"
_functorch: Any = torch._C._functorch  # pyright: ignore
_TOGGLE = _functorch.set_inplace_requires_grad_allowed
_CHECK = "_check_requires_grad_intermediate_outputs"


def keep_marks(backend: Callable[..., Any]) -> None:
    """Let graphs for one back end have such marks, where this TorchDynamo reads any."""
    check, kind = (
        getattr(OutputGraph, _CHECK, None),
        getattr(builtin, "SetAttrBuiltinVariable", None),
    )
    put: Any = getattr(kind, "_call_setattr", None)
    if check is None or put is None:  # before PyTorch 2.13
        return

    @wraps(check)
    def check_outputs(graph: Any, *args: Any) -> None:
        if not is_for(backend, graph):
            check(graph, *args)

    @wraps(put)
    def put_attribute(variable: Any, tx: Any, owner: Any, name: Any, value: Any) -> Any:
        marks = _is_constant(name, "requires_grad") and _is_constant(value, True)
        is_new = isinstance(owner, TensorVariable) and owner.source is None
        if marks and is_new and is_for(backend, tx.output):
            owner.call_method(tx, _MARK, [], {})
            return value
        return put(variable, tx, owner, name, value)

    setattr(OutputGraph, _CHECK, check_outputs)
    setattr(kind, "_call_setattr", put_attribute)  # noqa: B010


def _is_constant(variable: Any, value: Any) -> bool:
    return variable.is_python_constant() and variable.as_python_constant() == value


def is_for(backend: Callable[..., Any], graph: Any) -> bool:
    """Whether a graph is made for a back end, around which others of PyTorch's may stand."""
    function = graph.compiler_fn
    for name in ("_torchdynamo_orig_backend", "compiler_fn"):
        while hasattr(function, name):
            function = getattr(function, name)
    return function is backend


def is_read_for(backend: Callable[..., Any]) -> bool:
    """Whether TorchDynamo reads for a back end in this thread, now."""
    translator = getattr(symbolic_convert.tls, "current_tx", None)
    return translator is not None and is_for(backend, translator.output)


def without_marks(module: GraphModule) -> None:
    """Take the marks away where they make no difference.

    Raises:
        CompileError: they make one: a result is such a tensor, or nothing else has gradients.
    """
    graph = module.graph
    marks = graph.find_nodes(op="call_method", target=_MARK)
    if not marks:
        return
    results = graph.output_node().all_input_nodes
    examples = (node.meta["example_value"] for node in graph.find_nodes(op="placeholder"))
    trained = any(isinstance(x, torch.Tensor) and x.requires_grad for x in examples)
    for mark in marks:
        leaf = mark.args[0]
        if not trained or leaf in results or mark in results:
            raise CompileError(
                location(mark), "a tensor that is made here is a result with a gradient"
            )
        mark.replace_all_uses_with(leaf)
        graph.erase_node(mark)
    for toggle in graph.find_nodes(op="call_function", target=_TOGGLE):
        graph.erase_node(toggle)
    module.recompile()
