"""PyTorch as it is used most: nn.LSTM and nn.GRU, other cells as Python loops."""

from __future__ import annotations

from rnncc.bench.cases import Case
from rnncc.bench.peers import Call
from rnncc.bench.peers.torch_cells import STANDARD, make_call


def make(case: Case, precision: str = "fp32") -> Call | None:
    """The case; in bf16 only what it has an operator for, and no training."""
    if precision == "fp32":
        return make_call(case, "float32", lambda forward: forward)
    if case.cell not in STANDARD or case.mode == "train":
        return None
    return make_call(case, "bfloat16", lambda forward: forward)
