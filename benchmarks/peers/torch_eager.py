"""PyTorch as it is used most: nn.LSTM and nn.GRU, other cells as Python loops."""

from __future__ import annotations

from benchmarks.peers.torch_cells import STANDARD, make_call
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case; in bf16 only what it has an operator for, and no training."""
    if setup.precision == "fp32":
        return make_call(case, setup.threads, "float32", lambda forward: forward)
    if case.cell not in STANDARD or case.mode == "train":
        return None
    return make_call(case, setup.threads, "bfloat16", lambda forward: forward)
