# pyright: reportMissingImports=false
"""One of two processes that train a cell together: each has half of the batch."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rnncc.torch
from tests.torch.cells import MultiplicativeLstm


class Net(torch.nn.Module):
    """A compiled loop and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = MultiplicativeLstm(4, 5, 2)
        self.out = torch.nn.Linear(5, 1)

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        state = tuple(xs.new_zeros(xs.shape[1], 5) for _ in range(2))
        return self.out(rnncc.torch.scan(self.cell, xs, state)[0])


def main(rank: int, folder: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Net()
    xs = torch.randn(6, 4, 4)
    shared = DistributedDataParallel(net)
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        optimiser.zero_grad()
        shared(xs[:, 2 * rank : 2 * rank + 2]).square().mean().backward()
        optimiser.step()
    grads = [p.grad for p in net.parameters()]
    torch.save((grads, net.state_dict()), folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
