# pyright: basic, reportMissingImports=false
"""Recurrent layers of programs that PyTorch exported by itself, as one operator each.

PyTorch takes its own operators apart into as many steps as the example has, and `nn.LSTM` into a
call of a library that has no translation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from rnncc.frontends.torch.graphs import fake_mode, graphs_of
from rnncc.frontends.torch.own_operators.recurrent_op import KINDS, arguments_of
from rnncc.frontends.torch.programs.apart import copied_program
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.unrolled.view import value_of

_LAYERS: dict[Any, str] = {getattr(torch.ops.aten, kind).input: kind for kind in KINDS}
"""PyTorch's operators of padded sequences: layer -> its kind."""


def with_whole_layers(exported: ExportedProgram) -> ExportedProgram:
    """A program in which `rnncc::recurrent` stands for layers; the same one where it has none.

    Raises:
        CompileError: a layer has other arguments than PyTorch's operators take.
    """
    if not any(map(_layers, graphs_of(exported.graph_module))):
        return exported
    program, module = copied_program(exported)
    with refused_by("", "PyTorch"):
        for part in graphs_of(module):
            for node in _layers(part):
                _replace(node)
            part.recompile()
    return program


def _layers(part: GraphModule) -> list[Node]:
    return [node for node in part.graph.nodes if node.target in _LAYERS]


def _replace(node: Node) -> None:
    """Let a layer be one of ours, which has a third result where PyTorch's has two."""
    ours: Any = torch.ops.rnncc.recurrent.default
    theirs: Any = node.args
    arguments: Any = arguments_of(_LAYERS[node.target], *theirs)
    with node.graph.inserting_before(node):
        whole = node.graph.call_function(ours, arguments)
    operands = map_arg(arguments, value_of)
    mode = fake_mode([operands[0]])
    assert mode is not None, "exported tensors are fakes"
    with mode:
        results = ours(*operands)
    whole.meta = {**node.meta, "val": results}
    node.replace_all_uses_with(whole)
    node.graph.erase_node(node)
