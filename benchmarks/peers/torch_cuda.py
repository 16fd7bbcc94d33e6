"""PyTorch on an NVIDIA GPU: nn.LSTM and nn.GRU by cuDNN, other cells as Python loops; no tf32."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.torch_cells import STANDARD, make_call
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case; in bf16 only what cuDNN has, and no training."""
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if setup.precision == "fp32":
        return make_call(case, setup.threads, "float32", lambda forward: forward, "cuda")
    if case.cell not in STANDARD or case.mode == "train":
        return None
    return make_call(case, setup.threads, "bfloat16", lambda forward: forward, "cuda")
