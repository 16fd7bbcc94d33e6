"""Code for Apple's CPUs, in Linux's ELF, by qemu: the instructions are those of macOS and iOS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rnncc_runtime import Model

from rnncc.driver.remote.runners import RemoteProgram
from rnncc.platforms import PLATFORMS
from tests.golden import KINDS, arrays_of
from tests.targets.running import alike, close, golden_inputs, on_target, same_bits

pytestmark = pytest.mark.skipif(
    not os.environ.get("RNNCC_TARGETS"), reason="with RNNCC_TARGETS=1 (make targets)"
)


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["macos-arm64", "ios-arm64"])
def test_results(case: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # qemu tells of LSE2 from 8.1 on alone; code of one thread has no atomic operations
    source = RemoteProgram._source
    unchecked = lambda program: source(program).replace("if (!net_supported())", "if (0)")  # noqa: E731
    monkeypatch.setattr(RemoteProgram, "_source", unchecked)
    model = on_target(case, "aarch64", cpu=PLATFORMS[name].cpu)
    assert isinstance(model, Model)
    got = model.run(golden_inputs(case))
    close(got, arrays_of(case, "out:"))
    same_bits(got, alike(case, "aarch64", monkeypatch).run(golden_inputs(case)))
