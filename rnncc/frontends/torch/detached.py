# pyright: basic, reportMissingImports=false
"""Refuses changes in place that autograd does not see.

`y.detach().mul_(2)` changes y's values and leaves its gradient as it was, and so does `y.mul_(2)`
without gradients. A graph without side effects has no such thing: there, y would come from the
product from then on, or from a tensor that is cut off.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.view import results_of

DETACH = torch.ops.aten.detach.default
_WITHOUT_GRADIENTS = torch.ops.higher_order.wrap_with_set_grad_enabled


def refuse_hidden_changes(module: GraphModule, plain: Collection[str] = ()) -> Collection[int]:
    """Check a graph of aten operators that change things in place, and those within it.

    Args:
        plain: inputs that are known to need no gradient.

    Returns:
        The numbers of the results that gradients flow through.

    Raises:
        CompileError: memory is changed where autograd does not see it, and gradients depend on it.
    """
    histories = _Histories(module, False)
    histories.walk(dict.fromkeys(plain, False))
    inner = {str(part.target) for part in histories.parts}
    for name, part in module.named_children():
        if isinstance(part, GraphModule) and name not in inner:
            refuse_hidden_changes(part)
    many = enumerate(results_of(module))
    return [i for i, result in many if histories.carries_gradients(result)]


class _Histories:
    """What autograd knows of a graph's tensors: the detached ones have a history of their own.

    Args:
        module: the graph.
        cut: whether it runs without gradients.
    """

    def __init__(self, module: GraphModule, cut: bool) -> None:
        self.module, self.cut = module, cut
        self.of: dict[Node, int] = {}
        """Which history a tensor has; views share one with what they are views of."""
        self.carries: dict[int, bool] = {}
        """Whether gradients flow through a history."""
        self.detached_from: dict[int, int] = {}
        self.stale: dict[int, Node] = {}
        """Histories of memory that was changed by way of another, and by what."""
        self.parts: list[Node] = []

    def walk(self, inputs: dict[str, bool]) -> None:
        """Follow all operators; `inputs` says which inputs carry gradients, by default all do."""
        for node in self.module.graph.nodes:
            for used in node.all_input_nodes:
                self._refuse_stale(used)
            if node.target is _WITHOUT_GRADIENTS:
                self._enter(node)
            self._give(node, inputs)
            for changed in _changed(node):
                self._change(node, changed)

    def _refuse_stale(self, used: Node) -> None:
        change = self.stale.get(self.of.get(used, -1))
        if change is not None:
            what = "a tensor is changed in place by way of its detached self or without gradients"
            raise CompileError(location(change), what, "x = x.detach().clone()")

    def _enter(self, node: Node) -> None:
        """A part that runs without gradients, and what it is given."""
        name: Any = node.args[1]
        self.parts.append(name)
        part: Any = getattr(self.module, str(name.target))
        places = [place.name for place in part.graph.find_nodes(op="placeholder")]
        carrying = (self.carries_gradients(value) for value in node.args[2:])
        _Histories(part, True).walk(dict(zip(places, carrying, strict=True)))

    def _give(self, node: Node, inputs: dict[str, bool]) -> None:
        """Give a node's result its history."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        same = [n for n in node.all_input_nodes if _memory(n) == _memory(node)]
        if same and node.target is not DETACH:
            self.of[node] = self.of[same[0]]
            return
        own = self.of[node] = len(self.carries)
        if node.op == "placeholder":
            carries = inputs.get(node.name, True)
        else:
            tracked = not self.cut and not _takes_only_shape(node)
            carries = tracked and any(map(self.carries_gradients, node.all_input_nodes))
        differentiable = value.is_floating_point() or value.is_complex()
        self.carries[own] = carries and differentiable and node.target is not DETACH
        if same:
            self.detached_from[own] = self.of[same[0]]

    def _change(self, node: Node, changed: Node) -> None:
        own = self.of[changed]
        bases, base = list[int](), self.detached_from.get(own)
        while base is not None:
            bases.append(base)
            base = self.detached_from.get(base)
        if self.cut:
            if any(self.carries[history] for history in (own, *bases)):
                what = "a tensor that has a gradient is changed in place without gradients"
                raise CompileError(location(node), what, "x = x.detach().clone()")
            return
        others = (n for n in node.all_input_nodes if n is not changed)
        self.carries[own] |= any(map(self.carries_gradients, others))
        for base in bases:
            if self.carries[base] or self.carries[own]:
                self.stale[base] = node

    def carries_gradients(self, value: Any) -> bool:
        """Whether a node's result has gradients."""
        return isinstance(value, Node) and self.carries.get(self.of.get(value, -1), False)


def _takes_only_shape(node: Node) -> bool:
    """Whether a node makes a tensor like another, whose numbers it does not read: no gradients."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    space, _, name = node.target._schema.name.partition("::")
    return space == "aten" and (name.endswith("_like") or name.startswith("new_"))


def _memory(node: Node) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return node
    if is_functorch_wrapped_tensor(value):
        raise CompileError(location(node), "torch.func is not supported here")
    if value.layout != torch.strided:
        place = location(node if node.op == "call_function" else next(iter(node.users)))
        what = f"a tensor of layout {value.layout} is not supported"
        raise CompileError(place, what, "to_dense()")
    return value.untyped_storage()._cdata


def _changed(node: Node) -> list[Node]:
    """The tensors that an operator changes."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return []
    changed: list[Any] = []
    for number, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value: Any = node.kwargs.get(argument.name)
            if value is None and number < len(node.args):
                value = node.args[number]
            changed += value if isinstance(value, (list, tuple)) else [value]
    return [value for value in changed if isinstance(value, Node) and _is_tensor(value)]


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
