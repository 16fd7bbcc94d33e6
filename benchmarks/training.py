"""Training against PyTorch and JAX: `taskset -c 1 python -m benchmarks.training`

Every cell runs forward and backward over whole sequences, with the gradients of inputs, initial
states and all parameters, fp32, one thread; all contenders in one run, in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from rnncc_runtime import TensorSpec, TrainableModel

import rnncc
from benchmarks import peers
from benchmarks.inference import NETS
from benchmarks.timing import medians

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
"""Cell, units (and inputs), batch, steps."""
CAFFE2 = {
    **{("lstm", 128): 3850e-6, ("lstm", 256): 121265e-6},
    **{("milstm", 128): 4505e-6, ("milstm", 256): 128967e-6},
    **{("gru", 128): 3812e-6, ("gru", 256): 92500e-6},
}
"""Seconds that Caffe2 itself took, measured on a core of another machine, for orientation."""


def drawn(specs: dict[str, TensorSpec], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs; lengths are all of the sequence."""
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, spec in specs.items():
        shape = [d if isinstance(d, int) else sizes[d] for d in spec.shape]
        floats = rng.standard_normal(shape).astype(np.float32)
        arrays[name] = np.full(shape, sizes["T"], spec.dtype) if spec.dtype == np.int32 else floats
    return arrays


def step_of(model: TrainableModel, steps: int, batch: int) -> peers.Call:
    """Forward and backward, into the same arrays each time."""
    inputs = drawn(model.inputs, {"T": steps, "N": batch})
    outputs, tape = model.forward(inputs)
    name = next(name for name in outputs if name.endswith("_all"))
    output_grads = {name: np.full_like(outputs[name], 0.01)}
    grads = model.backward(tape, output_grads)

    def step() -> object:
        _, tape = model.forward(inputs, out=outputs)
        return model.backward(tape, output_grads, out=grads)

    return step


def measure(cell: str, units: int, batch: int, steps: int) -> dict[str, float]:
    """Median seconds of rnncc and of every peer that is installed."""
    stem = NETS / f"{cell}_{units}"
    model = rnncc.compile(stem.with_suffix(".pb"), stem.with_suffix(".init.pb"), train=True)
    contenders = {"rnncc": step_of(model, steps, batch)}
    for calls in (peers.torch_training, peers.jax_training):
        try:
            contenders |= calls(cell, steps, batch, units)
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
    return medians(contenders)


def row(case: tuple[str, int, int, int], seconds: dict[str, float]) -> str:
    """A line of the table."""
    cell, units, batch, steps = case
    own = seconds["rnncc"]
    text = f"{cell:<15}{units:>5}{batch:>4}{steps:>5}{own * 1e6:>12.1f}"
    for name, s in seconds.items():
        if name != "rnncc":
            text += f"  {name} {s * 1e6:.1f} ({s / own:.2f}x)"
    if (cell, units) in CAFFE2:
        text += f"  [Caffe2 {CAFFE2[cell, units] / own:.1f}x]"
    return text


def main() -> None:
    """Measure every case, or those of one cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the seconds to a file")
    parser.add_argument("--cell", help="only this cell")
    chosen = parser.parse_args()
    print(f"{'cell':<15}{'H':>5}{'B':>4}{'T':>5}{'rnncc us':>12}  peers us (their time / ours)")
    found: list[dict[str, object]] = []
    for case in CASES:
        if chosen.cell in (None, case[0]):
            seconds = measure(*case)
            print(row(case, seconds), flush=True)
            found.append({"case": case, "seconds": seconds})
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
