"""The golden nets that carry their own gradient operators."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden import CASES, Arrays, arrays_of

TRAIN = [case for case in CASES if (case / "train.pb").exists()]


def train_inputs(case: Path) -> Arrays:
    """The inputs of a case and the weights of its losses, in the order of the outputs."""
    weights = arrays_of(case, "weight:")
    losses = json.loads((case / "case.json").read_text())["loss_outputs"]
    named = {f"loss_weight_{i}": weights[name] for i, name in enumerate(losses)}
    return arrays_of(case, "in:") | named


def train_outputs(case: Path) -> Arrays:
    """What Caffe2 computed: outputs, and gradients by the names of their blobs."""
    grads = {f"{name}_grad": array for name, array in arrays_of(case, "grad:").items()}
    return arrays_of(case, "out:") | grads
