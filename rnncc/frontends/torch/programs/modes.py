# pyright: basic, reportMissingImports=false
"""Regions of an exported graph that switch gradients or autocast: what they mean, said by ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule

from rnncc.errors import CompileError
from rnncc.frontends.torch.detached import DETACH, refuse_hidden_changes
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.node_context import location


def settle_modes(exported: ExportedProgram) -> None:
    """What enters a region without gradients is detached there, which changes nothing in PyTorch.

    Without it, taking the regions apart would forget them.

    Raises:
        CompileError: gradients are within a region without them, or a
            tensor that has a gradient is changed there.
    """
    _refuse_changes(exported)
    higher = torch.ops.higher_order
    for module in graphs_of(exported.graph_module):
        for node in module.graph.find_nodes(
            op="call_function", target=higher.wrap_with_set_grad_enabled
        ):
            if node.args[0]:
                raise CompileError(location(node), "torch.enable_grad() within torch.no_grad()")
            part: Any = node.args[1]
            _detach_inputs(getattr(module, str(part.target)))


def _refuse_changes(exported: ExportedProgram) -> None:
    tensors: Mapping[str, Any] = {**exported.constants, **exported.state_dict}
    plain = [
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        and not tensors[str(spec.target)].requires_grad
    ]
    refuse_hidden_changes(exported.graph_module, plain)


def _detach_inputs(module: GraphModule) -> None:
    """What is changed in there then comes from detached tensors alone, too."""
    places = module.graph.find_nodes(op="placeholder")
    with module.graph.inserting_after(places[-1] if places else None):
        for place in places:
            if isinstance(place.meta.get("val"), torch.Tensor):
                detached = module.graph.call_function(DETACH, (place,))
                detached.meta = dict(place.meta)
                place.replace_all_uses_with(
                    detached, lambda user, detached=detached: user is not detached
                )
    module.recompile()
