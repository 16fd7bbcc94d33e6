"""The golden nets by the real Caffe2, and inputs for them at any size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "golden"
OWN = ROOT / "tests" / "data" / "golden"
GOLDEN = SHARED if SHARED.is_dir() else OWN
"""All cases where the shared folder is at hand, else the few that the repository holds."""
CASES = sorted(path.parent for path in GOLDEN.glob("caffe2/*/net.pb"))
CONTROL = sorted(path.parent for path in GOLDEN.glob("control/*/net.pb"))
"""Nets with Do, If and While."""
_KINDS = {
    *("attention_regular", "basic_rnn_tanh", "gru", "layernorm_lstm", "lstm", "lstm_bidirectional"),
    *("lstm_unrolled", "milstm", "sum_cell"),
}
KINDS = [case for case in CASES if case.name in _KINDS]
"""One of each kind of cell, direction and loop: what one net's code has little to do with, such as
how a library is linked, and the many sizes and options of what every net does with a few of them,
is tested of these."""
CONTROL_KINDS = [case for case in CONTROL if (OWN / "control" / case.name).is_dir()]
"""One of each kind of control flow, which are those that the repository holds."""

UNROLLED_STEPS = 7
"""Of `lstm_unrolled`, whose arrays do not show them."""

Arrays = dict[str, np.ndarray[Any, Any]]

FILES = sorted(
    [case / "net.pb" for case in [*CASES, *CONTROL]]
    + [path for case in [*KINDS, *CONTROL_KINDS] if (path := case / "train.pb").exists()]
)
"""The files of all nets, and of one of each kind that with its gradients, which is much larger."""


def arrays_of(case: Path, prefix: str) -> Arrays:
    """The arrays of a case with one prefix: `in:`, `out:`, ..."""
    data = np.load(case / "io.npz")
    return {name[len(prefix) :]: data[name] for name in data.files if name.startswith(prefix)}


def random_inputs(program: Program, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
    """Inputs of given sizes; lengths run from 0 to T, and S where the net has one."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for name, value in program.net.inputs.items():
        shape = [d.evaluate(sizes) for d in dims_of(value)]
        if dtype_of(value) == "i32" and "lengths" in name:
            most = sizes.get("S", 1) if name.startswith("enc") else sizes["T"]
            least = 1 if name.startswith("enc") else 0
            arrays[name] = rng.integers(least, most + 1, shape).astype(np.int32)
        elif dtype_of(value) == "i32":
            arrays[name] = rng.integers(0, 3, shape).astype(np.int32)
        else:
            arrays[name] = rng.standard_normal(shape).astype(np.float32)
        if name.startswith("timestep_"):  # an unrolled net's step numbers are in their names
            arrays[name][...] = int(name.split("/")[0].rpartition("_")[2])
    return arrays


def take_rows(values: Mapping[str, SSAValue], arrays: Arrays, first: int, rows: int) -> Arrays:
    """Some columns of the batch of every array that has one."""
    part: Arrays = {}
    for name, value in values.items():
        axes = [i for i, d in enumerate(dims_of(value)) if d == Dim.of("N")]
        part[name] = arrays[name]
        for axis in axes:
            part[name] = np.take(part[name], range(first, first + rows), axis)
    return part


def sizes_of(program: Program, arrays: Arrays) -> dict[str, int]:
    """The symbols' values, from the arrays' shapes."""
    found = {"T": UNROLLED_STEPS, "N": 1}
    for name, value in program.net.inputs.items():
        if name in arrays:
            for dim, size in zip(dims_of(value), arrays[name].shape, strict=True):
                if not dim.is_static:
                    found[str(dim)] = size
    return found
