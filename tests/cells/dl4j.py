"""The golden cases of Deeplearning4j's LSTMs: their arrays, and the layers that they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.cells import Layer, graves_lstm
from tests.golden import GOLDEN, Arrays

CASES = sorted(GOLDEN.glob("dl4j/*.npz"))


def arrays_of(case: Path, prefix: str) -> Arrays:
    """The arrays of a case with one prefix: `in:`, `param:`, `out:`, `weight:`, `grad:`."""
    data = np.load(case)
    return {name[len(prefix) :]: data[name] for name in data.files if name.startswith(prefix)}


def layer_of(case: Path, **more: Any) -> Layer:
    """The layer of a case; `more` options override its own."""
    told = json.loads(case.with_suffix(".json").read_text())
    options: dict[str, Any] = {
        "peepholes": told["peephole"],
        "activation": told["activation"],
        "gate_activation": told["gate_activation"],
        "direction": told["direction"],
        "masked": told["masked"],
        "initial_state": told["initial_state"],
        "tbptt": told["tbptt"] or None,
        "parameters": arrays_of(case, "param:"),
    }
    return graves_lstm(told["sizes"]["n_in"], told["sizes"]["n_out"], **{**options, **more})


def sizes_of(case: Path) -> dict[str, int]:
    """T and N."""
    sizes = json.loads(case.with_suffix(".json").read_text())["sizes"]
    return {"T": sizes["time"], "N": sizes["batch"]}
