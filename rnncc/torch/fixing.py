# pyright: basic, reportMissingImports=false
"""Fixes the sizes that TorchDynamo left open in a graph, where there is no formula for them.

    n = sym_sqrt(s0)      n = 3.0        for s0 = 9, which TorchDynamo is told to guard
    return y / n     ->   return y / n

A graph of other sizes is then another graph, which TorchDynamo asks for when they come.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import copy_of, graphs_of
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.view import value_of
from rnncc.records import record


@record
class FixedSizes:
    """A graph without open sizes.

    Attributes:
        module: the graph; its inputs are those of the open one.
        sizes: those of the open graph.
    """

    module: GraphModule
    sizes: list[torch.SymInt]

    def guard(self) -> None:
        """Let TorchDynamo guard the sizes."""
        for size in self.sizes:
            int(size)


def with_fixed_sizes(module: GraphModule) -> FixedSizes | None:
    """The graph at the sizes at hand; None if it has no open ones, some that only a run tells, or
    graphs within it.

    Raises:
        CompileError: PyTorch cannot run it by shapes alone.
    """
    values = [value_of(place) for place in module.graph.find_nodes(op="placeholder")]
    sizes = [size for value in values for size in _open_sizes(value)]
    known = all(size.node.has_hint() for size in sizes)
    if not sizes or not known or len(graphs_of(module)) > 1:
        return None
    own, mode = copy_of(module), FakeTensorMode()
    _Shapes(own, mode).run(*(_at_hand(value, mode) for value in values))
    return FixedSizes(own, sizes)


class _Shapes(Interpreter):
    """Finds all shapes again, and writes down the numbers that come of sizes."""

    def __init__(self, module: GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.mode = mode

    def run_node(self, n: Node) -> Any:
        try:
            with self.mode:
                result = super().run_node(n)
        except Exception as error:
            raise CompileError(location(n), f"PyTorch, at fixed sizes: {error}") from error
        if n.op == "output":
            return result
        n.meta["example_value"] = result
        if isinstance(result, (int, float, bool)):
            n.replace_all_uses_with(result)  # pyright: ignore
        return result


def _open_sizes(value: Any) -> list[torch.SymInt]:
    parts = value.shape if isinstance(value, torch.Tensor) else [value]
    return [x for x in parts if isinstance(x, torch.SymInt)]


def _at_hand(value: Any, mode: FakeTensorMode) -> Any:
    """An input at the sizes of this call."""
    if not isinstance(value, torch.Tensor):
        return _number(value)
    shape, strides = ([_number(size) for size in sizes] for sizes in (value.shape, value.stride()))
    with mode:
        fake = torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(fake, value.requires_grad)
    return fake.requires_grad_(value.requires_grad)


def _number(size: Any) -> Any:
    return size.node.hint if isinstance(size, torch.SymInt) else size
