"""Cells in plain loops, and the comparison of what is compiled of them with these."""

from __future__ import annotations

from typing import Any

import torch

import rnncc.torch


def name_of(cell: Any) -> str:
    return getattr(cell, "__name__", type(cell).__name__)


def loop(cell: Any, xs: Any, h: Any) -> Any:
    ys = []
    for x in xs:
        y, h = cell(x, h)
        ys.append(y)
    return torch.stack(ys), h


class Loop(torch.nn.Module):
    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, xs, h):
        return loop(self.cell, xs, h)


class Step(Loop):
    """The first step of a cell."""

    def forward(self, xs, h):
        return loop(self.cell, xs[:1], h)


class Scan(Loop):
    def forward(self, xs, h):
        return rnncc.torch.scan(self.cell, xs, h)


def read(cell: Any, way: str) -> None:
    """Have a cell read by `scan`, or in a module by `compile`."""
    xs, h = torch.ones(5, 3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    if way == "scan":
        rnncc.torch.scan(cell, xs, h)
    else:
        rnncc.torch.compile(Loop(cell), (xs, h))


def check(compiled: Any, plain: Any, shape: Any = (3,)) -> None:
    """Outputs and gradients over inputs of which some take each way."""
    for seed in range(2):
        torch.manual_seed(seed)
        xs = torch.randn(9, *shape, dtype=torch.float64, requires_grad=True)
        h = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        own, known = compiled(xs, h), plain(xs, h)
        torch.testing.assert_close(own, known, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(slopes(own, xs, h), slopes(known, xs, h), rtol=1e-8, atol=1e-8)


def check_module(module: Any, plain: Any) -> None:
    """`check` of a module that `compile` reads."""
    example = torch.zeros(9, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    check(rnncc.torch.compile(module, example), plain)


def slopes(ys: Any, *xs: Any) -> Any:
    sums = [y.sin().sum() for y in ys if y.requires_grad]
    return torch.autograd.grad(sums, xs, allow_unused=True, materialize_grads=True)
