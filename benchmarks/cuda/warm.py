# pyright: reportMissingImports=false
"""What the sections that are timed compile, compiled before by several processes at once.

They find it in the caches on disk then, rnncc's and the driver's: minutes of a machine become
seconds.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.cuda import custom, forward, training

ONE, SEVERAL = 1, 16
"""Batches that are read as different cells."""


def cases() -> list[dict[str, Any]]:
    """Each library that they load, the ones that take longest first."""
    cells = [(case["cell"], case["units"], case["batch"]) for case in custom.cases()]
    kinds = "rnncc", custom.LOW
    found = [
        {"of": "custom", "cell": cell, "units": units, "batch": batch, "kind": kind}
        for cell, units, batch in cells
        for kind in kinds
    ]
    sizes = {(case["units"], min(case["batch"], SEVERAL)) for case in training.cases()}
    found += [
        {"of": "training", "units": units, "batch": batch, "kind": kind}
        for units, batch in sorted(sizes, reverse=True)
        for kind in training.OURS
    ]
    layers = {(case["cell"], case["units"]) for case in forward.cases()}
    found += [
        {"of": "forward", "cell": cell, "units": units, "kind": kind}
        for cell, units in sorted(layers)
        for kind in forward.kinds_of(cell, False)
        if kind in forward.KNOWN
    ]
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    """The seconds that it took."""
    begun = time.perf_counter()
    {"custom": _custom, "training": _training, "forward": _forward}[case["of"]](case)
    torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - begun}


def _custom(case: dict[str, Any]) -> None:
    p, (x, *_), gradient = custom.drawn({**case, "steps": custom.STEPS})
    function = custom.ways(case["cell"])[case["kind"]]
    custom.forward(function, p, x)
    custom.both(function, p, gradient, x)


def _training(case: dict[str, Any]) -> None:
    module = training.module_of(case["units"])
    x = torch.randn(2, case["batch"], case["units"], device="cuda")
    training.call_of(case["kind"], module, torch.randn_like(x), x)()


def _forward(case: dict[str, Any]) -> None:
    model = forward.compiled(case["cell"], case["units"], case["kind"])
    x = torch.randn(2, ONE, case["units"], device="cuda")
    forward.ours(model, x, torch.empty_like(x))
