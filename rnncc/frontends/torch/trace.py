# pyright: basic, reportMissingImports=false
"""From a graph of PyTorch calls to one of aten operators without side effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx

from rnncc.errors import CompileError
from rnncc.frontends.torch.site import location


def aten_graph(module: GraphModule, examples: Sequence[torch.Tensor]) -> GraphModule:
    """The same function over aten operators; nodes know the user's lines, and results' shapes.

    Args:
        examples: tensors as the module takes them; their values do not matter.
    """

    def run(*tensors: torch.Tensor) -> Any:
        return Interpreter(module).run(*tensors)

    with torch.no_grad(), fx_traceback.preserve_node_meta():
        made = make_fx(torch.func.functionalize(run), tracing_mode="fake")(*examples)
    _refuse_changes(made)
    made.graph.eliminate_dead_code()
    return made


def _refuse_changes(module: GraphModule) -> None:
    """What was changed in place has become a copy to an input, at the end."""
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.copy_.default:
            what = "a tensor that is given from outside is changed in place"
            hint = "return it as part of the state"
            raise CompileError(location(node.args[1]), what, hint)
