# pyright: basic, reportMissingImports=false
"""Regions of an exported graph that switch gradients or autocast: what they mean, said by ops."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.site import location


def settle_modes(exported: ExportedProgram) -> None:
    """What leaves a region without gradients is detached there, which changes nothing in PyTorch.

    Without it, taking the regions apart would forget them.

    Raises:
        CompileError: autocast is switched on, or gradients within a region without them.
    """
    higher = torch.ops.higher_order
    for module in exported.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.find_nodes(op="call_function", target=higher.wrap_with_autocast):
            if node.args[2]:
                what = "autocast is switched on, and compiled nets compute in float32"
                raise CompileError(location(node), what)
        for node in module.graph.find_nodes(
            op="call_function", target=higher.wrap_with_set_grad_enabled
        ):
            if node.args[0]:
                raise CompileError(location(node), "torch.enable_grad() within torch.no_grad()")
            part: Any = node.args[1]
            _detach_results(getattr(module, str(part.target)))


def _detach_results(module: GraphModule) -> None:
    graph = module.graph
    output = graph.output_node()
    results: Any = output.args[0]
    with graph.inserting_before(output):
        output.args = (tuple(_detached(graph, result) for result in results),)
    module.recompile()


def _detached(graph: Graph, result: Any) -> Any:
    value = result.meta.get("val") if isinstance(result, Node) else None
    if not isinstance(value, torch.Tensor) or result.target is torch.ops.aten.detach.default:
        return result
    made = graph.call_function(torch.ops.aten.detach.default, (result,))
    made.meta = dict(result.meta)
    return made
