"""PyTorch with torch.compile around it: a loop of 100 steps takes it a minute or more."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.torch_cells import make_call
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case, compiled as it is first called."""
    torch: Any = import_module("torch")
    return make_call(case, setup.threads, "float32", torch.compile)
