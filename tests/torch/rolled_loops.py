"""Loops of several tests, rolled and compared with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch import loops
from tests.torch.cells import nn, torch

pytest.importorskip("rnncc.torch")
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.rolling import Rolled, roll_loops


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *given: Any) -> Any:
        return self.function(*self.parts, *given)


def rolled(module: Any, *given: Any) -> Rolled:
    """What is found in a module's graph, which computes the same without it."""
    graph, inputs = loops.captured(module, *given)
    assert without_changes(graph)
    found = roll_loops(graph, plain=False)
    with torch.no_grad():
        made = graph(*inputs)
    torch.testing.assert_close(list(made), torch.utils._pytree.tree_leaves(module(*given)))
    return found


def gradients(net: Any, module: Any, x: Any) -> list[Any]:
    module.zero_grad()
    x = x.detach().requires_grad_()
    ys = torch.utils._pytree.tree_leaves(net(x))
    torch.autograd.backward(ys, [torch.linspace(-1, 1, y.numel()).view(y.shape) for y in ys])
    grads = (torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters())
    return [*ys, x.grad, *grads]
