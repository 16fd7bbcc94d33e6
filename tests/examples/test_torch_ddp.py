"""examples/torch_ddp.py: two processes have the losses that PyTorch's loop has in one."""

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
SIZES = {"processes": 2, "updates": 8, "units": 8, "steps": 12, "batch": 4}


def test_two_processes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """This process starts them, as it has imported PyTorch already."""
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
    import_module("torch_ddp").main([w for n, size in SIZES.items() for w in (f"--{n}", str(size))])
    told = capfd.readouterr().out
    assert "2 processes: " in told
    found = [float(loss) for loss in re.findall(r"loss ([\d.]+)", told)]
    np.testing.assert_allclose(found, want[::2], rtol=1e-3)
    assert found[-1] < found[0]
