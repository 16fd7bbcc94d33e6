"""Cells that no library has, in plain PyTorch, and the loop that they are compared with."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional
leaves_of: Any = torch.utils._pytree.tree_leaves
WIDTH, UNITS = 8, 8
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def zeros(count: int, batch: int, units: int) -> tuple[Any, ...]:
    return tuple(torch.zeros(batch, units) for _ in range(count))


def lstm_states(z: Any, c: Any, axis: int = -1) -> tuple[Any, Any]:
    i, f, g, o = z.chunk(4, axis)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class MultiplicativeLstm(nn.Module):
    def __init__(self, width: int, units: int, batch: int) -> None:
        super().__init__()
        self.w = nn.Linear(width, 4 * units, bias=False)
        self.u = nn.Linear(units, 4 * units, bias=False)
        self.factors = nn.Parameter(torch.full((3, 4 * units), 0.7))
        self.bias = nn.Parameter(torch.zeros(4 * units))
        self.start = zeros(2, batch, units)

    def forward(self, x: Any, state: Any) -> Any:
        u, v = self.w(x), self.u(state[0])
        alpha, beta, gamma = self.factors
        h, c = lstm_states(alpha * u * v + beta * u + gamma * v + self.bias, state[1])
        return h, (h, c)


class NormalisedLstm(nn.Module):
    def __init__(self, width: int, units: int, batch: int) -> None:
        super().__init__()
        self.w = nn.Linear(width, 4 * units, bias=False)
        self.u = nn.Linear(units, 4 * units, bias=False)
        self.norm = nn.LayerNorm(4 * units)
        self.start = zeros(2, batch, units)

    def forward(self, x: Any, state: Any) -> Any:
        h, c = lstm_states(self.norm(self.w(x) + self.u(state[0])), state[1])
        return h, (h, c)


class MinimalGated(nn.Module):
    def __init__(self, width: int, units: int, batch: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width + units, units)
        self.new = nn.Linear(width + units, units)
        self.start = zeros(1, batch, units)[0]

    def forward(self, x: Any, h: Any) -> Any:
        f = torch.sigmoid(self.gate(torch.cat([x, h], -1)))
        h = (1 - f) * h + f * torch.tanh(self.new(torch.cat([x, f * h], -1)))
        return h, h


class ExponentialLstm(nn.Module):
    """Exponential gates, held by a running maximum."""

    def __init__(self, width: int, units: int, batch: int) -> None:
        super().__init__()
        self.w = nn.Linear(width, 4 * units)
        self.u = nn.Linear(units, 4 * units, bias=False)
        self.start = zeros(4, batch, units)

    def forward(self, x: Any, state: Any) -> Any:
        h, c, n, m = state
        z, i, f, o = (self.w(x) + self.u(h)).chunk(4, -1)
        kept = F.logsigmoid(f) + m
        most = torch.maximum(kept, i)
        i, f = torch.exp(i - most), torch.exp(kept - most)
        c, n = f * c + i * torch.tanh(z), f * n + i
        h = torch.sigmoid(o) * c / n
        return h, (h, c, n, most)


class Attention(nn.Module):
    """Looks up a memory at each step."""

    def __init__(self, width: int, units: int, batch: int) -> None:
        super().__init__()
        self.w = nn.Linear(width, 4 * units)
        self.u = nn.Linear(2 * units, 4 * units, bias=False)
        self.memory = nn.Parameter(torch.randn(6, batch, units))
        self.start = zeros(2, batch, units)

    def forward(self, x: Any, state: Any) -> Any:
        weights = torch.softmax(torch.einsum("snh,nh->sn", self.memory, state[0]), 0)
        read = torch.einsum("sn,snh->nh", weights, self.memory)
        z = self.w(x) + self.u(torch.cat([state[0], read], 1))
        h, c = lstm_states(z, state[1])
        return h, (h, c)


CELLS = [MultiplicativeLstm, NormalisedLstm, MinimalGated, ExponentialLstm, Attention]


def loop(cell: Any, xs: Any, state: Any, reverse: bool = False) -> tuple[Any, Any]:
    """What `scan` computes, one step after another."""
    ys: list[Any] = []
    for x in reversed(xs) if reverse else xs:
        y, state = cell(x, state)
        ys.append(y)
    return torch.stack(ys[::-1] if reverse else ys), state


def make_cell(kind: Any, batch: int = 3) -> Any:
    torch.manual_seed(0)
    return kind(WIDTH, UNITS, batch)


def sequence(steps: int, batch: int = 3) -> Any:
    return torch.randn(steps, batch, WIDTH, generator=torch.Generator().manual_seed(1))


def _weights_of(output: Any) -> Any:
    """What an output's numbers count in a sum that is differentiated."""
    count, options = output.numel(), {"dtype": output.dtype, "device": output.device}
    return torch.linspace(-1, 1, count, **options).view(output.shape)


def with_gradients(outputs: Any, sources: list[Any]) -> list[Any]:
    """The tensors of outputs, and what sources have of a weighted sum of them: zeros, or more."""
    leaves = leaves_of(outputs)
    weights = [_weights_of(o) for o in leaves]
    total: Any = sum((o * w).sum() for o, w in zip(leaves, weights, strict=True))
    grads = [None] * len(sources)
    if total.requires_grad:
        grads = torch.autograd.grad(total, sources, allow_unused=True)
    zeros = (torch.zeros_like(s) if g is None else g for s, g in zip(sources, grads, strict=True))
    return [*(o.detach() for o in leaves), *zeros]


def results(run: Any, cell: Any, xs: Any, state: Any, **options: Any) -> list[Any]:
    """Outputs, then the gradients of xs, the state and all parameters."""
    xs = xs.clone().requires_grad_()
    state = torch.utils._pytree.tree_map(lambda s: s.clone().requires_grad_(), state)
    cell.zero_grad()
    ys, finals = run(cell, xs, state, **options)
    outputs = [ys, *leaves_of(finals)]
    weights = [_weights_of(o) for o in outputs]
    torch.autograd.backward(outputs, weights)
    return [*outputs, *(t.grad for t in (xs, *leaves_of(state), *cell.parameters()))]


class Labelled(nn.Module):
    """Words in, a score for each place out, batch first."""

    def __init__(self, layers: int = 2, both: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4, padding_idx=2)
        options = {"batch_first": True, "bidirectional": both, "proj_size": 3}
        self.lstm = nn.LSTM(4, 6, layers, **options)
        width = 6 if both else 3
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 3)

    def forward(self, words: Any) -> Any:
        y, (h, c) = self.lstm(self.words(words))
        return {"scores": F.log_softmax(self.out(self.norm(y)), -1), "last": (h, c)}
