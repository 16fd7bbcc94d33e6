# pyright: basic, reportMissingImports=false
"""From a graph of PyTorch calls to one of aten operators without side effects."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
import torch._decomp
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx

from rnncc.errors import CompileError
from rnncc.frontends.torch.lower import translation_of
from rnncc.frontends.torch.recurrent_op import call_whole, recurrent_kind
from rnncc.frontends.torch.site import location


def aten_graph(
    module: GraphModule, examples: Sequence[Any], mode: FakeTensorMode | None = None
) -> GraphModule:
    """The same function over aten operators; nodes know the user's lines, and results' shapes.

    Args:
        examples: tensors and sizes as the module takes them; tensors' values do not matter.
        mode: where the examples are fakes, the mode that they are of.

    Raises:
        CompileError: an input is changed in place, or gradients are switched on or off.
    """

    _refuse_modes(module)
    made = _traced(module, examples, mode)
    if any(map(_changes, made.graph.nodes)):  # what a composite operator made, it changed
        made = _traced(made, examples, mode)
    made.graph.eliminate_dead_code()
    return made


def _traced(
    module: GraphModule, examples: Sequence[Any], mode: FakeTensorMode | None
) -> GraphModule:
    def run(*tensors: Any) -> Any:
        return _Whole(module).run(*tensors)

    tracing: Any = "fake" if mode is None else "real"
    inside = nullcontext() if mode is None else mode
    with inside, torch.no_grad(), fx_traceback.preserve_node_meta():
        made = make_fx(torch.func.functionalize(run), decompositions(), tracing)(*examples)
    _refuse_changes(made)
    return made


def fake_mode(values: Sequence[Any]) -> FakeTensorMode | None:
    """The mode that the fakes among some values are of."""
    return next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)


@cache
def decompositions() -> dict[Any, Any]:
    """How PyTorch takes operators apart, of those that have no translation."""
    known = torch._decomp.core_aten_decompositions().items()
    return {op: function for op, function in known if translation_of(op) is None}


class _Whole(Interpreter):
    """Recurrent layers become one operator each."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        kind = recurrent_kind(target)
        if kind is not None:
            return call_whole(kind, *args, **kwargs)
        return super().call_function(target, args, kwargs)


def _refuse_modes(module: GraphModule) -> None:
    """A trace would forget them."""
    for node in module.graph.nodes:
        if "set_grad_enabled" in str(node.target) or "autocast" in str(node.target):
            what = "gradients or autocast must not be switched on or off here"
            raise CompileError(location(node.next), what, "x.detach() stops a gradient")


def _changes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _refuse_changes(module: GraphModule) -> None:
    """What was changed in place has become a copy to an input, at the end."""
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.copy_.default:
            what = "a tensor that is given from outside is changed in place"
            hint = "return it as part of the state"
            raise CompileError(location(node.args[1]), what, hint)
