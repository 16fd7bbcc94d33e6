"""examples/torch_ddp.py: its processes have the losses that PyTorch's loop has in one."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers
ROOT = Path(__file__).parents[2]
SIZES = {"updates": 8, "units": 8, "steps": 12, "batch": 4}


def run_here(function: Any, arguments: tuple[Any, ...], nprocs: int) -> None:
    threads = torch.get_num_threads()
    try:
        function(0, *arguments)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_losses(
    processes: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A single process is this one. Two are slow, as each loads PyTorch; all that they do more is
    PyTorch's own, which adds up their gradients."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = import_module("torch_cell")
    torch.manual_seed(0)
    net = example.Net(SIZES["units"], example.plain_loop)
    optimiser, want = torch.optim.Adam(net.parameters(), 0.01), list[float]()
    for _ in range(SIZES["updates"] + 1):
        xs, target = example.sequences(SIZES["steps"], SIZES["batch"])
        optimiser.zero_grad()
        loss = (net(xs) - target).square().mean()
        loss.backward()
        optimiser.step()
        want.append(loss.item())
    ddp = import_module("torch_ddp")
    if processes == 1:
        monkeypatch.setattr(ddp, "spawn", run_here)
    sizes = {"processes": processes, **SIZES}
    ddp.main([word for name, size in sizes.items() for word in (f"--{name}", str(size))])
    printed = capfd.readouterr().out
    assert f"{processes} processes: " in printed
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    np.testing.assert_allclose(losses, want[::2], rtol=1e-3)
    assert losses[-1] < losses[0]
