"""DistributedDataParallel over gloo: two processes have the gradients that one has alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.cells import torch

pytestmark = pytest.mark.peers
ROOT = Path(__file__).parents[2]


def test_two_processes(tmp_path: Path) -> None:
    from tests.torch.distributed import Net

    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    environment = {**os.environ, "PYTHONPATH": path}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.torch.distributed", str(rank), str(tmp_path)],
            env=environment,
            cwd=ROOT,
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    one, other = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    torch.manual_seed(0)
    net = Net()
    xs = torch.randn(6, 4, 4)
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        optimiser.zero_grad()
        net(xs).square().mean().backward()
        optimiser.step()
    for mine, theirs, parameter in zip(one[0], other[0], net.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        torch.testing.assert_close(mine, parameter.grad)
    torch.testing.assert_close(one[1], dict(net.state_dict()))
