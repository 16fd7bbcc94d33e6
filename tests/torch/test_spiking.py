"""Nets of spiking neurons, whose loops are written in Python."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.functions import Spike

pytest.importorskip("rnncc.torch")
pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("read_anew")]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


class Spiking(nn.Module):
    """As libraries of spiking nets do it: a potential that the module keeps, made anew from itself.

    The first step differs from the others: what it starts with has no gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("potential", torch.zeros(2, 4), False)

    potential: Any

    def forward(self, x: Any) -> Any:
        self.potential = torch.zeros_like(self.potential)
        spikes = []
        for step in range(len(x)):
            known = self.potential
            if not known == None:  # noqa: E711, SIM201  as they ask it
                reset = Spike.apply(self.potential - 1).detach()
                self.potential = 0.9 * self.potential + self.linear(x[step]) - reset
            spikes.append(Spike.apply(self.potential - 1))
        return torch.stack(spikes)


def test_spiking_nets_train() -> None:
    """A buffer that keeps a graph from call to call, and of which the next call reads the shape."""
    ours, theirs = Spiking(), Spiking()
    theirs.load_state_dict(ours.state_dict())
    run = torch.compile(ours, backend="rnncc")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "rnncc leaves")
        for _ in range(3):
            x = 3 * torch.randn(20, 2, 4)
            for net, module in ((run, ours), (theirs, theirs)):
                module.zero_grad()
                (net(x) * torch.linspace(0, 1, 20)[:, None, None]).sum().backward()
            for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, **CLOSE)
            torch.testing.assert_close(ours.potential, theirs.potential, **CLOSE)
