# pyright: basic, reportMissingImports=false
"""`rnncc::constant`: numbers that a step writes down, as an operator of its graph.

`torch.tensor([0.5, 2.0])` in a step of a loop becomes an attribute of the step's graph, and an
exported program knows those of its outermost graph alone. The operator's arguments are numbers, so
constants go by the number under which they were first used. Only copies of programs hold it, since
a number says nothing to another process.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Hashable
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.node_context import NodeContext, Table, Value, location
from rnncc.frontends.torch.types import LARGEST_CONSTANT, as_computed

_library = torch.library.Library("rnncc", "FRAGMENT")
_library.define("constant(int number, Device device) -> Tensor")
CONSTANT = torch.ops.rnncc.constant.default
_lock = threading.Lock()
_constants: list[torch.Tensor] = []
_numbers: dict[Hashable, int] = {}


def write_constants(exported: ExportedProgram) -> ExportedProgram:
    """A program with the operator in the place of tensors that the graphs within its graph hold.

    Raises:
        CompileError: a tensor has too many numbers, or complex ones, or none that are known.
    """
    held = [(part, node) for part in _inner(exported.graph_module) for node in _held(part)]
    if not held:
        return exported
    for part, node in held:  # before a copy, which fakes do not let be made
        _check(node, getattr(part, str(node.target)))
    written: Any = copy.copy(exported)
    written._graph_module = copy.deepcopy(exported.graph_module)
    for part in _inner(written.graph_module):
        for node in _held(part):
            _write(part, node)
        part.recompile()
    return written


def _inner(module: GraphModule) -> list[GraphModule]:
    return [part for part in graphs_of(module) if part is not module]


def _held(part: GraphModule) -> list[Node]:
    """The nodes that stand for tensors of a graph's own."""
    nodes = part.graph.find_nodes(op="get_attr")
    return [n for n in nodes if isinstance(getattr(part, str(n.target), None), torch.Tensor)]


def _check(node: Node, held: torch.Tensor) -> None:
    if is_fake(held):  # PyTorch's trace lost where it comes from
        what = "what a step computes is taken for a constant by PyTorch's tracing"
        raise CompileError(location(next(iter(node.users), node)), what)
    if held.numel() > LARGEST_CONSTANT or held.is_complex():
        what = "a tensor that a step makes of so many, or complex, numbers"
        raise CompileError(location(node), what, "make it outside of the step")


def _write(part: GraphModule, node: Node) -> None:
    held = getattr(part, str(node.target))
    with part.graph.inserting_before(node):
        constant = part.graph.call_function(CONSTANT, (number_of(held), held.device))
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
    part.graph.erase_node(node)
    if not any(other.target == node.target for other in part.graph.find_nodes(op="get_attr")):
        delattr(part, str(node.target))


def share_constants(module: GraphModule) -> None:
    """Let equal constants be one, in a graph that changes none: each step of a loop that writes
    one down has its own."""
    known = dict[Hashable, Node]()
    for node in _held(module):
        tensor: torch.Tensor = getattr(module, str(node.target))
        if not is_fake(tensor) and tensor.numel() <= LARGEST_CONSTANT:
            first = known.setdefault((tensor.device, content_of(tensor)), node)
            if first is not node:
                node.replace_all_uses_with(first)
                module.graph.erase_node(node)


def content_of(held: torch.Tensor) -> Hashable:
    """What is equal of equal constants, on whatever device they are."""
    values = held.detach().cpu().reshape(-1)
    return held.dtype, held.shape, values.view(torch.uint8).numpy().tobytes()


def number_of(held: torch.Tensor) -> int:
    """What stands for a constant; it is kept."""
    values = held.detach().cpu().clone()
    key = content_of(values)
    with _lock:
        if key not in _numbers:
            _constants.append(values)
            _numbers[key] = len(_constants) - 1
        return _numbers[key]


@torch.library.register_fake("rnncc::constant", lib=_library)
def _shape(number: int, device: torch.device) -> torch.Tensor:
    known = _constants[number]
    return torch.empty(known.shape, dtype=known.dtype, device=device)


@torch.library.impl("rnncc::constant", "CompositeExplicitAutograd", lib=_library)
def _made(number: int, device: torch.device) -> torch.Tensor:
    return _constants[number].to(device, copy=True)


def _written(at: NodeContext, number: int, device: torch.device) -> Value:
    """The numbers themselves."""
    return at.b.constant(as_computed(_constants[number]).numpy(), at.dtype)


OPERATORS: Table = {"rnncc::constant": _written}
