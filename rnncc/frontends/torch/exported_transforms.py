# pyright: basic, reportMissingImports=false
"""`torch.func.vmap` in an exported program: the operators that it comes to.

PyTorch exports the calls that begin and end a transform, between operators on tensors that are no
ordinary ones there. Other transforms it does not export.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, TensorArgument
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import fake_mode, graphs_of, has_transforms, is_transform
from rnncc.frontends.torch.node_context import EXPORTED_TRANSFORMS, location
from rnncc.frontends.torch.trace import KeepsTensors, aten_graph
from rnncc.frontends.torch.unrolled.rolling import copied


def settle_transforms(exported: ExportedProgram) -> ExportedProgram:
    """A program without transforms; itself, where it has none.

    Raises:
        CompileError: there are loops or regions without gradients, too, which a trace would undo;
            or recurrent layers, or buffers that change.
    """
    module = exported.graph_module
    if not has_transforms(module):
        return exported
    if len(graphs_of(module)) > 1:
        transform = next(node for node in module.graph.nodes if is_transform(node))
        raise CompileError(location(transform), *EXPORTED_TRANSFORMS)
    own = GraphModule(module, copied(module.graph))
    _erase_leftovers(own)
    places = own.graph.find_nodes(op="placeholder")
    inputs = [place.meta["val"] for place in places]
    try:
        traced = aten_graph(own, inputs, fake_mode(inputs))
    except KeepsTensors as error:
        what = "a buffer that changes beside torch.func is not supported in an exported module"
        raise CompileError(error.location, what, EXPORTED_TRANSFORMS[1]) from error
    traced.graph.set_codegen(module.graph._codegen)
    traced.meta.update(module.meta)
    program: Any = copy.copy(exported)
    program._graph_module = traced
    program._graph_signature = _renamed(exported.graph_signature, traced, places)
    return program


def _erase_leftovers(module: GraphModule) -> None:
    """Erase what PyTorch leaves of the end of a transform within another: an operator on a tensor
    that was one of that transform's, and is a constant of the module now."""
    for node in reversed(module.graph.nodes):
        is_operator = isinstance(node.target, OpOverload) and not node.is_impure()
        is_escaped = node.op == "placeholder" and is_functorch_wrapped_tensor(node.meta["val"])
        if not node.users and (is_operator or is_escaped):
            module.graph.erase_node(node)
    module.recompile()


def _renamed(
    signature: ExportGraphSignature, traced: GraphModule, places: list[Node]
) -> ExportGraphSignature:
    """What inputs and outputs are, by the names of their nodes in another graph."""
    new = traced.graph.find_nodes(op="placeholder")
    names = {old.name: node.name for old, node in zip(places, new, strict=True)}
    results: Any = traced.graph.output_node().args[0]
    outputs = zip(signature.output_specs, results, strict=True)
    return ExportGraphSignature(
        [
            _named(spec, names.get(spec.arg.name))
            for spec in signature.input_specs
            if spec.arg.name in names or not isinstance(spec.arg, TensorArgument)
        ],
        [_named(spec, getattr(result, "name", None)) for spec, result in outputs],
    )


def _named(spec: Any, name: str | None) -> Any:
    if name is None or not isinstance(spec.arg, TensorArgument):
        return spec
    return replace(spec, arg=TensorArgument(name=name))
