"""OpenVINO: what it makes of ONNX's LSTM and GRU operators."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.onnx_model import feeds, has_operator, onnx_model
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """A request on so many threads, in 32-bit floats."""
    if not has_operator(case) or case.cell == "peephole_lstm":
        return None
    openvino: Any = import_module("openvino")
    core = openvino.Core()
    chosen = {"INFERENCE_NUM_THREADS": setup.threads, "INFERENCE_PRECISION_HINT": "f32"}
    core.set_property("CPU", chosen)
    compiled = core.compile_model(core.read_model(onnx_model(case)), "CPU")
    request, feed = compiled.create_infer_request(), feeds(case)
    shape = case.steps, case.batch, case.units
    return Workload(lambda: request.infer(feed), lambda: request.infer(feed)["Y"].reshape(shape))
