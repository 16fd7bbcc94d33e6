# pyright: reportMissingImports=false
"""Trains the cell of torch_cell.py by several processes, each with its part of every batch.

python examples/torch_ddp.py --processes 2 --batch 64 --units 128

PyTorch's DistributedDataParallel adds up the gradients, over gloo; what runs in each process is a
compiled loop. The losses are those of one process, whatever the number of them. It needs PyTorch:
pip install 'rnncc[torch]'.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch_cell import Net, sequences

import rnncc.torch


def run(rank: int, options: argparse.Namespace, store: Path) -> None:
    """What one process does."""
    count = options.processes
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    torch.set_num_threads(1)
    # A call of its own: what holds the group is gone after it, so that the group's threads end
    # below, not at exit.
    train(rank, options)
    dist.barrier()  # a process that ends first would leave others waiting for it
    dist.destroy_process_group()


def train(rank: int, options: argparse.Namespace) -> None:
    """Train a net on one process's part of each batch; the first process tells how it goes."""
    count = options.processes
    torch.manual_seed(0)
    net = DistributedDataParallel(Net(options.units, rnncc.torch.scan))
    optimiser, begun = torch.optim.Adam(net.parameters(), 0.01), 0.0
    part = slice(rank * options.batch // count, (rank + 1) * options.batch // count)
    for update in range(options.updates + 1):
        xs, target = sequences(options.steps, options.batch)  # the same in all processes
        optimiser.zero_grad()
        loss = (net(xs[:, part]) - target[:, part]).square().mean()
        loss.backward()
        optimiser.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if update == 0:  # compilation is told apart
            begun = time.perf_counter()
        if rank == 0 and update % max(options.updates // 4, 1) == 0:
            print(f"update {update}: loss {total.item() / count:.5f}", flush=True)
    if rank == 0:
        seconds = (time.perf_counter() - begun) / options.updates
        print(f"{count} processes: {seconds * 1000:.1f} ms an update", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Start the processes, and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    numbers = ("processes", 2), ("updates", 40), ("units", 64), ("steps", 100), ("batch", 16)
    for name, value in numbers:
        parser.add_argument(f"--{name}", type=int, default=value)
    options: Any = parser.parse_args(words)
    if options.batch % options.processes:
        parser.error("the batch is to be divisible by the number of processes")
    with tempfile.TemporaryDirectory() as folder:
        spawn(run, (options, Path(folder) / "store"), nprocs=options.processes)


if __name__ == "__main__":
    main()
