# pyright: basic, reportMissingImports=false
"""Graphs within graphs: branches, bodies of loops, custom Functions; what they are run with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

GRAD: Any = torch.autograd.grad
_NAMESPACES = ("aten", "prims", "rnncc")
_TRANSFORMS = ("torch._C._functorch", "torch._functorch")


def graphs_of(module: GraphModule) -> list[GraphModule]:
    """A graph, and those within it."""
    return [part for part in module.modules() if isinstance(part, GraphModule)]


def copied(graph: Graph) -> Graph:
    """A graph of its own, of the same nodes, which do not know the arguments they came from: weak
    references to these keep `torch.utils.swap_tensors` from them, and PyTorch frees its own ones.
    """
    copy = Graph()
    copy.output(copy.graph_copy(graph, {}))
    for node in copy.find_nodes(op="placeholder"):
        node.meta.pop("grapharg", None)
    return copy


def copy_of(module: GraphModule) -> GraphModule:
    """A module with a copy of a graph, whose code PyTorch writes when it is first called."""
    return _LazyGraphModule(module, copied(module.graph))


def held_graph(node: Any) -> GraphModule | None:
    """The graph that a node names."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    owner: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        owner = getattr(owner, part, None)
    return owner if isinstance(owner, GraphModule) else None


def is_transform(node: Node) -> bool:
    """Whether a call belongs to a transform of torch.func, or is `torch.autograd.grad`."""
    if node.target is GRAD:
        return True
    module = getattr(node.target, "__module__", None) or ""
    own = module.startswith(_TRANSFORMS) and not module.endswith("autograd_function")
    return own and node.op == "call_function"


def has_transforms(module: GraphModule) -> bool:
    """Whether a graph holds transforms of torch.func."""
    return any(is_transform(node) for part in graphs_of(module) for node in part.graph.nodes)


def has_operators_of_others(module: GraphModule) -> bool:
    """Whether a graph calls operators that are neither PyTorch's nor ours.

    They may consist of PyTorch's, which a trace shows.
    """
    targets = (node.target for part in graphs_of(module) for node in part.graph.nodes)
    called = (t for t in targets if isinstance(t, OpOverload | OpOverloadPacket))
    return any(str(t).partition(".")[0] not in _NAMESPACES for t in called)


def fake_mode(values: Sequence[Any]) -> FakeTensorMode | None:
    """The mode that the fakes among some values are of."""
    return next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)


def forget_tensors(program: ExportedProgram) -> None:
    """Clear the weak references to a module's tensors that PyTorch keeps beside their fakes: they
    would keep `torch.utils.swap_tensors` from these, as `load_state_dict` may use it."""
    mode = fake_mode([x.meta.get("val") for x in program.graph.find_nodes(op="placeholder")])
    if mode is not None:
        forget_tensors_of(mode)


def forget_tensors_of(mode: FakeTensorMode) -> None:
    """The same for the tensors whose fakes are of one mode."""
    describer: Any = mode.fake_tensor_converter.meta_converter.describer
    describer.lookup_tensor.clear()
    describer.lookup_storage.clear()


def drop_checks(module: GraphModule) -> None:
    """Take away checks, of types that hold and of matrices, whose results are NaN here.

    Calls without results would end a repeat of a loop, and cannot be exported within one.
    """
    ops = torch.ops.aten
    for check in (ops._assert_tensor_metadata.default, ops._linalg_check_errors.default):
        for node in list(module.graph.find_nodes(op="call_function", target=check)):
            module.graph.erase_node(node)
