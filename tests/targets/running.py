"""Nets on other machines, and what x86-64 makes of them with vectors of as many lanes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from rnncc_runtime import Model, TrainableModel

import rnncc
from rnncc.codegen.cpu import resolve
from rnncc.driver.remote.models import compile_to_run
from rnncc.driver.remote.runners import Missing
from rnncc.frontends.caffe2 import import_net
from rnncc.options import Options
from rnncc.platforms import PLATFORMS
from tests.golden import Arrays, arrays_of, random_inputs, sizes_of

ALWAYS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "wasm32", "c99")
"""Targets whose code runs without an emulator, or by what installs from the package index."""
EVERYWHERE = bool(os.environ.get("RNNCC_TARGETS"))
"""Whether all nets are run on all targets (`make targets`)."""
NAMES = [name for name, row in PLATFORMS.items() if row.system in ("linux", "wasm")]
NAMES += ["windows-x64", "riscv32", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "c99"]
LEVELS = {"x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
SIZES = {"T": 5, "N": 3, "S": 4}


def on_target(case: Path, name: str, **options: Any) -> Model | TrainableModel:
    """A case's model on a target; skips where nothing runs it, and says why."""
    return compiled_for(case / "net.pb", case / "init.pb", name, **options)


def compiled_for(net: Any, init: Any, name: str, **options: Any) -> Model | TrainableModel:
    """The same of any net."""
    try:
        return compile_to_run(net, init, Options(name="net", target=name, **options))
    except Missing as missing:
        pytest.skip(str(missing))


def skip_without_hardware(name: str | None) -> None:
    """Skip code for this machine's architecture that its CPU lacks something for."""
    level = LEVELS.get(name or "")
    if level is not None and not binding.get_host_cpu_features().get(level):
        pytest.skip(f"this machine is no {name}")


def alike(
    case: Path, name: str, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Model | TrainableModel:
    """The same by this machine, in vectors of as many lanes: the order of sums follows them."""
    return alike_net(case / "net.pb", name, monkeypatch, case / "init.pb", **options)


def alike_net(
    net: Any, name: str, monkeypatch: pytest.MonkeyPatch, init: Any = None, **options: Any
) -> Model | TrainableModel:
    """The same of any net."""
    row = PLATFORMS[name]
    # relaxed SIMD fuses where this machine does
    fuses = row.fma and (row.system != "wasm" or bool(binding.get_host_cpu_features().get("fma")))
    cpu = "x86-64-v3" if fuses else "x86-64-v2"
    monkeypatch.setitem(resolve.PORTABLE, cpu, (row.lanes, row.registers, fuses))
    return rnncc.compile(net, init, cpu=cpu, name="net", **options)


def inputs_of(case: Path) -> Arrays:
    """What Caffe2 was given, and inputs of other sizes where that is too much for an emulator."""
    return random_inputs(import_net(case / "net.pb", case / "init.pb"), SIZES)


def golden_inputs(case: Path) -> Arrays:
    """What Caffe2 was given."""
    given = arrays_of(case, "in:")
    program = import_net(case / "net.pb", case / "init.pb")
    return {**random_inputs(program, sizes_of(program, given)), **given}


def gradients(model: Model | TrainableModel, inputs: Arrays, outer: Arrays) -> Arrays:
    """Of the outputs' weighted sum."""
    assert isinstance(model, TrainableModel)
    return model.backward(model.forward(inputs)[1], outer)


def weights_for(model: Model | TrainableModel, inputs: Arrays, case: Path) -> Arrays:
    """An outer gradient for each output that the case has one of."""
    shapes = {name: array.shape for name, array in model.run(inputs).items()}
    rng = np.random.default_rng(0)
    names = arrays_of(case, "weight:")
    return {name: rng.standard_normal(shapes[name]).astype(np.float32) for name in names}


def same_bits(got: Mapping[str, Any], want: Mapping[str, Any]) -> None:
    """But for the sign of NaN and of zeros."""
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


def close(got: Mapping[str, Any], want: Mapping[str, Any], tolerance: float = 1e-5) -> None:
    for name in want:
        scale = max(1.0, float(np.abs(want[name]).max(initial=0.0)))
        np.testing.assert_allclose(
            got[name], want[name], tolerance, tolerance * scale, err_msg=name
        )
