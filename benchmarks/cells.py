"""What the benchmarks of cells share: their nets, inputs, contenders, and the table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rnncc_runtime import TensorSpec

from benchmarks.peers import Call
from benchmarks.timing import medians

Case = tuple[str, int, int, int]
"""Cell, units (and inputs), batch, steps."""
Calls = Callable[[str, int, int, int], dict[str, Call]]
"""Ways to compute a cell of so many steps, sequences and units, by name."""

NETS = Path(__file__).parent / "nets"
_PRODUCTS = {"lstm": 4, "milstm": 4, "layernorm_lstm": 4, "gru": 3}


def net_of(cell: str, units: int) -> tuple[Path, Path]:
    """A cell's net and init net."""
    return NETS / f"{cell}_{units}.pb", NETS / f"{cell}_{units}.init.pb"


def drawn(specs: Mapping[str, TensorSpec], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs; lengths are all of the sequence."""
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, spec in specs.items():
        shape = [d if isinstance(d, int) else sizes[d] for d in spec.shape]
        floats = rng.standard_normal(shape).astype(np.float32)
        arrays[name] = np.full(shape, sizes["T"], spec.dtype) if spec.dtype == np.int32 else floats
    return arrays


def against(own: Call, peers: Sequence[Calls], case: Case) -> dict[str, float]:
    """Median seconds of rnncc and of every peer that is installed."""
    cell, units, batch, steps = case
    contenders = {"rnncc": own}
    for calls in peers:
        try:
            contenders |= calls(cell, steps, batch, units)
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
    return medians(contenders)


def tabulate(
    title: str | None,
    cases: Sequence[Case],
    measure: Callable[[Case], dict[str, float]],
    caffe2: Mapping[tuple[str, int], float],
    passes: int,
) -> None:
    """Measure every case, or those of the cell that the command line names.

    Args:
        measure: seconds by contender.
        caffe2: by cell and units, the seconds that Caffe2 itself took, measured elsewhere.
        passes: how often each product is computed: 1, or 3 with both operands' gradients.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path, help="write the seconds to a file")
    parser.add_argument("--cell", help="only this cell")
    chosen = parser.parse_args()
    head = f"{'cell':<15}{'H':>5}{'B':>4}{'T':>5}{'rnncc us':>12}{'GFLOP/s':>8}"
    print(f"{head}  peers us (their time / ours)")
    found: list[dict[str, object]] = []
    for case in cases:
        if chosen.cell in (None, case[0]):
            seconds = measure(case)
            print(_row(case, seconds, caffe2.get(case[:2]), passes), flush=True)
            found.append({"case": case, "seconds": seconds})
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


def _row(case: Case, seconds: dict[str, float], caffe2: float | None, passes: int) -> str:
    cell, units, batch, steps = case
    flops = passes * 4 * steps * batch * _PRODUCTS[cell] * units * units
    own = seconds["rnncc"]
    text = f"{cell:<15}{units:>5}{batch:>4}{steps:>5}{own * 1e6:>12.1f}{flops / own / 1e9:>8.1f}"
    for name, s in seconds.items():
        if name != "rnncc":
            text += f"  {name} {s * 1e6:.1f} ({s / own:.2f}x)"
    return text if caffe2 is None else f"{text}  [Caffe2 {caffe2 / own:.1f}x]"
