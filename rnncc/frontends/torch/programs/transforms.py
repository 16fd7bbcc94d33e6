# pyright: basic, reportMissingImports=false
"""`torch.func.vmap` in an exported program: the operators that it comes to.

PyTorch exports the calls that begin and end a transform, between operators on tensors that are no
ordinary ones there. Other transforms it does not export.
"""

from __future__ import annotations

from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import copied, fake_mode, graphs_of, has_transforms, is_transform
from rnncc.frontends.torch.node_context import EXPORTED_TRANSFORMS, location
from rnncc.frontends.torch.programs.apart import with_graph
from rnncc.frontends.torch.trace import KeepsTensors, aten_graph


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
    return with_graph(exported, places, traced)


def _erase_leftovers(module: GraphModule) -> None:
    """Erase what PyTorch leaves of the end of a transform within another: an operator on a tensor
    that was one of that transform's, and is a constant of the module now."""
    for node in reversed(module.graph.nodes):
        is_operator = isinstance(node.target, OpOverload) and not node.is_impure()
        is_escaped = node.op == "placeholder" and is_functorch_wrapped_tensor(node.meta["val"])
        if not node.users and (is_operator or is_escaped):
            module.graph.erase_node(node)
    module.recompile()
