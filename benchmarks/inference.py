"""Inference against PyTorch and ONNX Runtime: `taskset -c 1 python -m benchmarks.inference`

Every cell runs forward over whole sequences, fp32, one thread; all contenders in one run, in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from rnncc_runtime import Model, TensorSpec

import rnncc
from benchmarks import peers
from benchmarks.timing import medians

NETS = Path(__file__).parent / "nets"
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
"""Cell, units (and inputs), batch, steps."""
PRODUCTS = {"lstm": 4, "milstm": 4, "layernorm_lstm": 4, "gru": 3}
CAFFE2 = {("milstm", 128): 1355e-6, ("milstm", 256): 45160e-6}
"""Seconds that Caffe2 itself took, measured on a core of another machine, for orientation."""


def arrays(model: Model, steps: int, batch: int) -> tuple[dict[str, np.ndarray], ...]:
    """Inputs, and room for the hidden states."""
    rng = np.random.default_rng(0)
    sizes = {"T": steps, "N": batch}
    inputs: dict[str, np.ndarray] = {}
    for name, spec in model.inputs.items():
        shape = _shape(spec, sizes)
        lengths = spec.dtype == np.int32
        inputs[name] = (
            np.full(shape, steps, np.int32)
            if lengths
            else rng.standard_normal(shape).astype(np.float32)
        )
    name, spec = next((n, s) for n, s in model.outputs.items() if n.endswith("_all"))
    return inputs, {name: np.empty(_shape(spec, sizes), spec.dtype)}


def _shape(spec: TensorSpec, sizes: dict[str, int]) -> list[int]:
    return [d if isinstance(d, int) else sizes[d] for d in spec.shape]


def measure(cell: str, units: int, batch: int, steps: int) -> dict[str, float]:
    """Median seconds of rnncc and of every peer that is installed."""
    stem = NETS / f"{cell}_{units}"
    model = rnncc.compile(stem.with_suffix(".pb"), stem.with_suffix(".init.pb"))
    inputs, out = arrays(model, steps, batch)
    contenders = {"rnncc": lambda: model.run(inputs, out=out)}
    for calls in (peers.torch_calls, peers.onnxruntime_calls):
        try:
            contenders |= calls(cell, steps, batch, units)
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
    return medians(contenders)


def row(case: tuple[str, int, int, int], seconds: dict[str, float]) -> str:
    """A line of the table."""
    cell, units, batch, steps = case
    flops = 4 * steps * batch * PRODUCTS[cell] * units * units
    own = seconds["rnncc"]
    others = {name: s for name, s in seconds.items() if name != "rnncc"}
    text = f"{cell:<15}{units:>5}{batch:>4}{steps:>5}{own * 1e6:>12.1f}{flops / own / 1e9:>8.1f}"
    for name, s in others.items():
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
    head = f"{'cell':<15}{'H':>5}{'B':>4}{'T':>5}{'rnncc us':>12}{'GFLOP/s':>8}"
    print(f"{head}  peers us (their time / ours)")
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
