# pyright: basic, reportMissingImports=false
"""Takes the switches of gradients out of a graph that TorchDynamo made.

Such a graph holds a call of `torch._C._set_grad_enabled` wherever the user's code switched. Where
gradients are off, calls are given detached tensors instead, which is the same: autograd sees
nothing of what is done to them. In place of

    with torch.no_grad():
        scale = h.abs().mean()

stands `scale = h.detach().abs().mean()`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of, has_transforms, held_graph
from rnncc.frontends.torch.node_context import location

SWITCH: Any = torch._C._set_grad_enabled


def without_switches(module: GraphModule, known: bool = False) -> None:
    """Replace switches, in the graph and those within it, which are changed.

    Args:
        known: whether fakes tell which tensors need no gradient: these are not detached.

    Gradients are on or off at its start as they are now. Within a `torch.autograd.Function`
    switches mean nothing. Transforms of torch.func have switches of their own, which stay where
    gradients are off anyway.

    Raises:
        CompileError: gradients are switched on where they are off for the whole graph, for what it
            is given, or within a graph (a branch, a loop's body, a checkpoint) that is used where
            they are off; or off beside transforms, whose results may have gradients all the same.
    """
    parts = graphs_of(module)
    if has_transforms(module):
        for part in parts:
            if torch.is_grad_enabled() and (switches := _switches(part)):
                placed = _user_node(switches[0])
                _refuse(placed, "torch.no_grad() beside torch.func is not supported", "x.detach()")
        return
    called = {g for part in parts for node in _applications(part) for g in _function_graphs(node)}
    inside = {inner for part in called for inner in graphs_of(part)}
    switching = {part for part in parts if part not in inside and _switches(part)}
    for part in parts:
        if part in inside:
            _erase(part)
        else:
            on = part is not module or torch.is_grad_enabled()
            _cut(part, switching - {part}, on, known and part is module)


def _applications(module: GraphModule) -> list[Node]:
    """Where a torch.autograd.Function is applied."""
    return module.graph.find_nodes(op="call_function", target=autograd_function_apply)


def _function_graphs(node: Node) -> list[GraphModule]:
    """The forward and the backward of a Function that is applied."""
    return [graph for x in node.args[:2] if (graph := held_graph(x)) is not None]


def _switches(module: GraphModule) -> list[Node]:
    return module.graph.find_nodes(op="call_function", target=SWITCH)


def _erase(module: GraphModule) -> None:
    for node in _switches(module):
        module.graph.erase_node(node)
    module.recompile()


def _cut(module: GraphModule, switching: Collection[GraphModule], on: bool, known: bool) -> None:
    """Detach what is given to calls where gradients are off, which they are at first if not `on`.

    Args:
        module: the graph.
        switching: graphs that switch gradients themselves.
        on: whether gradients are on at its start.
        known: whether fakes tell what needs none.
    """
    if not _switches(module):
        return
    was_on, inputs = on, _given(module)
    for node in module.graph.nodes:
        if node.target is SWITCH:
            on = bool(node.args[0])
        elif on and not was_on and any(_value(x) in inputs for x in node.all_input_nodes):
            if node.op.startswith("call"):
                _refuse(node, "torch.enable_grad() where gradients are off")
        elif not on and node.op.startswith("call"):
            if any(held_graph(x) in switching for x in node.all_input_nodes):
                _refuse(node, "gradients are switched within a graph that has none")
            _detach_inputs(node, known)
    _erase(module)


def _given(module: GraphModule) -> set[int]:
    """What may have gradients though they are off: nothing that is computed while they are."""
    nodes = (node for node in module.graph.nodes if node.op in ("placeholder", "get_attr"))
    return {_value(node) for node in nodes}


def _value(node: Node) -> int:
    """Which tensor a node stands for: a call may give back what it was given."""
    return id(node.meta.get("example_value", node))


def _user_node(node: Node) -> Node:
    """The next node whose line is known."""
    while node.op != "output" and not location(node).file:
        node = node.next
    return node


def _refuse(node: Node, what: str, hint: str | None = None) -> None:
    raise CompileError(location(node), what, hint)


def _detach_inputs(node: Node, known: bool) -> None:
    """What gives back what it was given, as `contiguous` may, leaves it as it was."""
    value = node.meta.get("example_value")
    for operand in node.all_input_nodes:
        fake = operand.meta.get("example_value")
        if not isinstance(fake, torch.Tensor) or (known and not fake.requires_grad):
            continue
        with node.graph.inserting_before(node):
            detached = node.graph.call_method("detach", (operand,))
        detached.meta = {**node.meta, "example_value": fake.detach()}
        node.replace_input_with(operand, detached)
        if value is fake:
            node.replace_all_uses_with(operand)
