"""Particular CPUs of AArch64, in Linux's ELF, by qemu: Apple's, and dot products of bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rnncc_runtime import Model

from rnncc.driver.remote.runners import RemoteProgram
from rnncc.platforms import PLATFORMS
from tests.golden import KINDS, arrays_of
from tests.targets.running import alike, close, golden_inputs, inputs_of, on_target, same_bits

pytestmark = pytest.mark.skipif(
    not os.environ.get("RNNCC_TARGETS"), reason="with RNNCC_TARGETS=1 (make targets)"
)


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """qemu tells of LSE2 from 8.1 on alone; code of one thread has no atomic operations."""
    source = RemoteProgram._source
    without = lambda program: source(program).replace("if (!net_supported())", "if (0)")  # noqa: E731
    monkeypatch.setattr(RemoteProgram, "_source", without)


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["macos-arm64", "ios-arm64"])
def test_apples_cpus(case: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_target(case, "aarch64", cpu=PLATFORMS[name].cpu)
    assert isinstance(model, Model)
    got = model.run(golden_inputs(case))
    close(got, arrays_of(case, "out:"))
    same_bits(got, alike(case, "aarch64", monkeypatch).run(golden_inputs(case)))


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
@pytest.mark.parametrize("cpu", ["cortex-a76", "neoverse-v1"])
def test_int8(case: Path, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sdot and usdot: the bits of bytes that are widened."""
    model, inputs = on_target(case, "aarch64", cpu=cpu, precision="int8"), inputs_of(case)
    want = alike(case, "aarch64", monkeypatch, precision="int8").run(inputs)
    same_bits(model.run(inputs), want)
