"""ONNX Runtime: its LSTM and GRU operators."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.onnx_model import feeds, has_operator, onnx_model
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """A session on so many threads."""
    if not has_operator(case):
        return None
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = setup.threads, 1
    provider = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(onnx_model(case), options, providers=provider)
    feed = feeds(case)
    return Workload(
        lambda: session.run(None, feed),
        lambda: session.run(None, feed)[0].reshape(case.steps, case.batch, case.units),
    )
