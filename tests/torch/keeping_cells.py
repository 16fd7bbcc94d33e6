"""Cells that keep tensors in objects of their own."""

from __future__ import annotations

from typing import Any

from tests.torch.cells import nn, torch
from tests.torch.functions import spike

XS = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(1))


class Membrane(nn.Module):
    """A buffer that is empty before the first step, and what is written before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.beta, self.layer = nn.Parameter(torch.tensor(0.8)), nn.Linear(4, 4)
        self.register_buffer("mem", torch.zeros(0), persistent=False)

    def forward(self, x: Any) -> Any:
        if self.mem.shape != x.shape:
            self.mem = torch.zeros_like(x)
        self.reset = spike(self.mem - 1).detach()
        self.mem = self.beta * self.mem + self.layer(x) - self.reset
        return spike(self.mem - 1)

    def clear(self) -> None:
        self.mem = torch.zeros(0)


class Plain:
    """No module."""

    def __init__(self) -> None:
        self.total = torch.zeros(3, 4)

    def step(self, x: Any, scale: Any) -> Any:
        self.total = self.total * scale + x
        return torch.sin(self.total), scale


class Caching(nn.Module):
    """Keeps what it holds by another name, which is no change after the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.full((4,), 0.5, requires_grad=True)
        self.cache: Any = torch.zeros(4)

    def forward(self, x: Any, h: Any) -> Any:
        h = h * self.cache + x
        self.cache = self.weight
        return h, h
