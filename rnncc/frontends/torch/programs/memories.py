# pyright: basic, reportMissingImports=false
"""Which tensors of an exported program share memory.

Its nodes' fakes tell. Those of a program that PyTorch exported do; of one that was saved and loaded
again, each has a memory of its own, so that a change of a view would be one of the view alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from rnncc.frontends.torch.graphs import fake_mode, graphs_of
from rnncc.frontends.torch.programs.apart import copied_program, signature_of
from rnncc.frontends.torch.trace import refused_by


def settle_memories(exported: ExportedProgram) -> None:
    """Let the fakes of a program share memory as its tensors do, where something is changed.

    Raises:
        CompileError: PyTorch cannot run the program, which was in a file that is damaged.
    """
    for part in graphs_of(exported.graph_module):
        if not all(map(_is_shared, part.graph.nodes)):
            _make_anew(part)


def merged_buffers(exported: ExportedProgram) -> ExportedProgram:
    """The program with one input for each buffer, which may have several names in the module.

    PyTorch takes no program apart that changes one of two inputs which are one tensor.
    """
    tensors: Any = {**exported.constants, **exported.state_dict}
    first, others = dict[int, str](), dict[str, str]()
    for spec in exported.graph_signature.input_specs:
        if spec.kind == InputKind.BUFFER and spec.target is not None:
            known = first.setdefault(id(tensors[spec.target]), spec.arg.name)
            if known != spec.arg.name:
                others[spec.arg.name] = known
    if not others:
        return exported
    program, module = copied_program(exported)
    places = {node.name: node for node in module.graph.find_nodes(op="placeholder")}
    for name, known in others.items():
        places[name].replace_all_uses_with(places[known])
        module.graph.erase_node(places[name])
    own: Any = program
    own._graph_signature = signature_of(module.graph, exported.graph_signature)
    return program


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
