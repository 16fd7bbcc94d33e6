"""Golden nets with Do, If and While on each target that something here runs (`make targets`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnncc.platforms import PLATFORMS
from tests.frontends.caffe2.control_nets import inputs_of, shapes_of, stage
from tests.golden import CONTROL, CONTROL_KINDS, arrays_of
from tests.targets.running import close, gradients, on_target, skip_without_hardware

EVERYWHERE = bool(os.environ.get("RNNCC_TARGETS"))
NAMES = ["x86-64-v2", "aarch64", "armv7", "riscv64", "wasm32", "windows-x64", "c99"]
NAMES += [name for name, row in PLATFORMS.items() if row.compact]
LIMIT = 6
"""The loops of the golden nets take up to five iterations."""
pytestmark = [
    pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_TARGETS=1 (make targets)"),
    pytest.mark.skipif(not CONTROL, reason="no golden data here"),
]
every_target = pytest.mark.parametrize("name", NAMES if EVERYWHERE else [])


def named(cases: list[Path]) -> Any:
    runnable = [case for case in cases if not stage(case)]
    return pytest.mark.parametrize("case", runnable, ids=[case.name for case in runnable])


@every_target
@named(CONTROL)
def test_results(case: Path, name: str) -> None:
    skip_without_hardware(name)
    inputs = inputs_of(case)
    options: dict[str, Any] = {"shapes": shapes_of(inputs), "max_iterations": LIMIT}
    got = on_target(case, name, **options).run(inputs)
    close(got, arrays_of(case, "out:"))


@every_target
@named(CONTROL_KINDS)
def test_gradients(case: Path, name: str) -> None:
    skip_without_hardware(name)
    weights, inputs = arrays_of(case, "weight:"), inputs_of(case)
    if not weights:
        pytest.skip("nothing has a gradient")
    options: dict[str, Any] = {"shapes": shapes_of(inputs), "max_iterations": LIMIT, "train": True}
    options |= {"outputs_with_grads": list(weights)}
    got = gradients(on_target(case, name, **options), inputs, weights)
    want = gradients(on_target(case, "x86-64-v3", **options), inputs, weights)
    assert got.keys() == want.keys() and all(np.isfinite(a).all() for a in want.values())
    close(got, want, 1e-4)
