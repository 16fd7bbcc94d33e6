"""Training against PyTorch and JAX: `taskset -c 1 python -m benchmarks.training`

Every cell runs forward and backward over whole sequences, with the gradients of inputs, initial
states and all parameters, fp32, one thread; all contenders in one run, in turn.
"""

from __future__ import annotations

import numpy as np

import rnncc
from benchmarks.cells import Case, against, drawn, net_of, tabulate
from benchmarks.peers import jax_training, torch_training

CASES = [
    ("lstm", 128, 1, 100),
    ("lstm", 512, 1, 100),
    ("lstm", 256, 32, 50),
    ("gru", 128, 1, 100),
    ("gru", 256, 32, 50),
    ("milstm", 128, 1, 100),
    ("milstm", 256, 32, 50),
    ("layernorm_lstm", 128, 1, 100),
    ("layernorm_lstm", 256, 32, 50),
]
CAFFE2 = {
    **{("lstm", 128): 3850e-6, ("lstm", 256): 121265e-6},
    **{("milstm", 128): 4505e-6, ("milstm", 256): 128967e-6},
    **{("gru", 128): 3812e-6, ("gru", 256): 92500e-6},
}
"""Seconds that Caffe2 itself took, measured on a core of another machine, for orientation."""


def measure(case: Case) -> dict[str, float]:
    """Median seconds; rnncc writes into the same arrays each time."""
    cell, units, batch, steps = case
    model = rnncc.compile(*net_of(cell, units), train=True)
    inputs = drawn(model.inputs, {"T": steps, "N": batch})
    outputs, tape = model.forward(inputs)
    name = next(name for name in outputs if name.endswith("_all"))
    output_grads = {name: np.full_like(outputs[name], 0.01)}
    grads = model.backward(tape, output_grads)

    def step() -> object:
        _, tape = model.forward(inputs, out=outputs)
        return model.backward(tape, output_grads, out=grads)

    return against(step, [torch_training, jax_training], case)


if __name__ == "__main__":
    tabulate(__doc__, CASES, measure, CAFFE2, passes=3)
