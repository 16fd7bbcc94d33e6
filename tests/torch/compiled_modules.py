"""Modules of several tests, compiled and compared with PyTorch's."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
leaves_of: Any = torch.utils._pytree.tree_leaves
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


class Wrapped(nn.Module):
    """A layer that gives its y alone, and some arithmetic."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        y, last = self.layer(x * 0.5 + 1)
        return torch.cat([y, x.mean(-1, keepdim=True)], -1), last


def gradients(net: Any, *given: Any) -> list[Any]:
    """The first result, and the gradients of the parameters."""
    net.zero_grad()
    y = net(*given)[0]
    torch.autograd.backward(y, torch.linspace(-1, 1, y.numel()).view(y.shape))
    return [y, *(p.grad for p in net.parameters())]


def check(module: Any, make: Any, shapes: Any, sizes: list[tuple[int, int]]) -> None:
    """Compare for several sizes; the first are the example's."""
    compiled = rt.compile(module, make(*sizes[0]), dynamic_shapes=shapes)
    peer = copy.deepcopy(module)
    for size in sizes:
        given = make(*size)
        found = [outputs_and_gradients(net, given) for net in (compiled, peer)]
        torch.testing.assert_close(*found, **CLOSE)


def outputs_and_gradients(net: Any, given: Any) -> list[Any]:
    given = torch.utils._pytree.tree_map(leaf, given)
    net.zero_grad()
    outputs = leaves_of(net(*given))
    weights = [torch.linspace(-1, 1, o.numel()).view(o.shape) for o in outputs]
    floats = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    torch.autograd.backward(*zip(*floats, strict=True))
    sources = [*leaves_of(given), *net.parameters()]
    return [*outputs, *(s.grad for s in sources)]


def leaf(x: Any) -> Any:
    return x.clone().requires_grad_(x.is_floating_point())


def sequence(width: int) -> Any:
    return lambda t, n: (torch.randn(t, n, width),)


BUFFERS: dict[str, Any] = {
    "in place": lambda m, x: m.k.add_(1),
    "moved": lambda m, x: setattr(m, "k", m.k.to(x.device)),
    "reassigned": lambda m, x: setattr(m, "k", m.k * 0.5 + x.detach().mean(0)),
    "made anew": lambda m, x: setattr(m, "k", x.new_ones(2)),
}


class Buffered(nn.Module):
    """Does something to its buffer, or keeps an average of what it saw."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.weight = change, nn.Parameter(torch.ones(2))
        self.register_buffer("k", torch.ones(2))

    def forward(self, x: Any) -> Any:
        y, seen = x * self.weight, self.k.view(2)
        if self.change is None:
            with torch.no_grad():
                self.k.mul_(0.9).add_(y.mean(0))
        else:
            self.change(self, x)
        return y * self.k + seen


class Counting(nn.Module):
    """Counts its calls, and may compute with their number."""

    def __init__(self, use: Any) -> None:
        super().__init__()
        self.linear, self.use, self.calls, self.counts = nn.Linear(2, 2), use, 0, [0]

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.counts[0] += 1
        return self.linear(x) * self.use(self)


class Pair(NamedTuple):
    h: Any
    c: Any


class OfPairs(nn.Module):
    """A loop of a cell that writes numbers down, in named tuples."""

    def forward(self, x: Any) -> Any:
        def step(row: Any, state: Any) -> Any:
            new = state._replace(h=0.5 * state.h + row * torch.tensor([0.5, 2.0]), c=state.h)
            return new.h + new.c, new

        return rt.scan(step, x, Pair(x[0], x[0]))
