"""Inference against PyTorch and ONNX Runtime: `taskset -c 1 python -m benchmarks.inference`

Every cell runs forward over whole sequences, fp32, one thread; all contenders in one run, in turn.
"""

from __future__ import annotations

import numpy as np

import rnncc
from benchmarks.cells import Case, against, drawn, net_of, tabulate
from benchmarks.peers import onnxruntime_calls, torch_calls

CASES = [
    ("lstm", 64, 1, 100),
    ("lstm", 128, 1, 100),
    ("lstm", 256, 1, 100),
    ("lstm", 512, 1, 100),
    ("lstm", 256, 32, 50),
    ("gru", 128, 1, 100),
    ("gru", 256, 32, 50),
    ("milstm", 128, 1, 100),
    ("milstm", 256, 32, 50),
    ("layernorm_lstm", 128, 1, 100),
    ("layernorm_lstm", 256, 32, 50),
]
CAFFE2 = {("milstm", 128): 1355e-6, ("milstm", 256): 45160e-6}
"""Seconds that Caffe2 itself took, measured on a core of another machine, for orientation."""


def measure(case: Case) -> dict[str, float]:
    """Median seconds; rnncc computes the hidden states of all steps."""
    cell, units, batch, steps = case
    model, sizes = rnncc.compile(*net_of(cell, units)), {"T": steps, "N": batch}
    inputs = drawn(model.inputs, sizes)
    states = {name: spec for name, spec in model.outputs.items() if name.endswith("_all")}
    out = {name: np.empty_like(array) for name, array in drawn(states, sizes).items()}
    return against(lambda: model.run(inputs, out=out), [torch_calls, onnxruntime_calls], case)


if __name__ == "__main__":
    tabulate(__doc__, CASES, measure, CAFFE2, passes=1)
