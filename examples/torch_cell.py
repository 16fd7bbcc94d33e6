# pyright: reportMissingImports=false
"""Trains a cell that no library has with Adam: compiled, and as the plain loop in Python.

python examples/torch_cell.py --updates 60
python examples/torch_cell.py --device cuda --units 256 --batch 32

The cell is an LSTM with multiplicative integration (Wu et al., 2016), in ordinary PyTorch. Both
ways start alike and see the same sequences, so the losses are the same; the time is not. It needs
PyTorch: pip install 'rnncc[torch]'.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import rnncc.torch

State = tuple[torch.Tensor, torch.Tensor]
Scan = Callable[[nn.Module, torch.Tensor, State], tuple[torch.Tensor, State]]


class Cell(nn.Module):
    """z = alpha · Wx · Uh + beta · Wx + gamma · Uh + b, then the gates of an LSTM."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.w = nn.Linear(width, 4 * units, bias=False)
        self.u = nn.Linear(units, 4 * units, bias=False)
        self.alpha, self.beta, self.gamma = (
            nn.Parameter(torch.full((4 * units,), value)) for value in (1.0, 0.5, 0.5)
        )
        self.bias = nn.Parameter(torch.zeros(4 * units))

    def forward(self, x: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """One step: y and the next state."""
        h, c = state
        wx, uh = self.w(x), self.u(h)
        z = self.alpha * wx * uh + self.beta * wx + self.gamma * uh + self.bias
        i, f, g, o = z.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class Net(nn.Module):
    """The cell over time, and one number for each step."""

    def __init__(self, units: int, scan: Scan) -> None:
        super().__init__()
        self.cell, self.out, self.scan = Cell(2, units), nn.Linear(units, 1), scan
        self.units = units

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        """[T, N, 2] -> [T, N]"""
        start = xs.new_zeros(xs.shape[1], self.units)
        return self.out(self.scan(self.cell, xs, (start, start))[0]).squeeze(-1)


def plain_loop(cell: nn.Module, xs: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
    """What rnncc.torch.scan computes, one step after another."""
    ys: list[torch.Tensor] = []
    for x in xs:
        y, state = cell(x, state)
        ys.append(y)
    return torch.stack(ys), state


def sequences(steps: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers, some of them marked, and the mean of those marked so far."""
    values, marks = torch.rand(steps, batch), (torch.rand(steps, batch) < 0.2).float()
    count = marks.cumsum(0).clamp(min=1)
    return torch.stack([values, marks], -1), (values * marks).cumsum(0) / count


def train(net: Net, updates: int, steps: int, batch: int) -> tuple[list[float], float]:
    """The losses, and the seconds that the updates after the first took."""
    torch.manual_seed(1)
    device = next(net.parameters()).device
    optimiser, losses, begun = torch.optim.Adam(net.parameters(), 0.01), list[float](), 0.0
    for update in range(updates):
        xs, target = (tensor.to(device) for tensor in sequences(steps, batch))
        optimiser.zero_grad()
        loss = (net(xs) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if update == 0:  # compilation is told apart
            begun = time.perf_counter()
    return losses, time.perf_counter() - begun


def main(words: Sequence[str] | None = None) -> tuple[list[float], list[float]]:
    """Train both ways and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name, value in (("updates", 40), ("units", 64), ("steps", 100), ("batch", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for an NVIDIA GPU")
    options: Any = parser.parse_args(words)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compiled = Net(options.units, rnncc.torch.scan).to(options.device)
    plain = copy.deepcopy(compiled)
    plain.scan = plain_loop
    sizes = (options.updates, options.steps, options.batch)
    ours, fast = train(compiled, *sizes)
    theirs, slow = train(plain, *sizes)
    for update in range(0, options.updates, max(options.updates // 4, 1)):
        print(f"update {update}: loss {ours[update]:.5f}, in the plain loop {theirs[update]:.5f}")
    print(f"compiled: {fast:.2f} s, plain loop: {slow:.2f} s, {slow / fast:.1f} times as fast")
    return ours, theirs


if __name__ == "__main__":
    main()
