# pyright: basic, reportMissingImports=false
"""Which tensors of an exported program share memory, told by the fakes that its nodes know.

Those of a program that PyTorch exported do; of one that was saved and loaded again, each has a
memory of its own, so that a change of a view would be one of the view alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from rnncc.frontends.torch.graphs import fake_mode, graphs_of
from rnncc.frontends.torch.trace import refused_by


def settle_memories(exported: ExportedProgram) -> None:
    """Let the fakes of a program share memory as its tensors do, where something is changed.

    Raises:
        CompileError: PyTorch cannot run the program, which was in a file that is damaged.
    """
    for part in graphs_of(exported.graph_module):
        if not all(map(_is_shared, part.graph.nodes)):
            _make_anew(part)


def _is_shared(node: Node) -> bool:
    """Whether a node that gives the tensor that it changed knows it as that."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return True
    first: Any = node.args[0] if node.args else None
    changed = first.meta.get("val") if isinstance(first, Node) else None
    if not isinstance(changed, torch.Tensor) or not target._schema.returns:
        return True
    result = node.meta.get("val")
    same = isinstance(result, torch.Tensor)
    return same and result.untyped_storage()._cdata == changed.untyped_storage()._cdata


def _make_anew(part: GraphModule) -> None:
    values = [node.meta.get("val") for node in part.graph.find_nodes(op="placeholder")]
    mode = fake_mode(values)
    if mode is not None:
        with refused_by("", "PyTorch"), torch.no_grad():
            FakeTensorProp(part, mode).propagate_dont_convert_inputs(*values)
