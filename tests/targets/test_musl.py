"""Programs that are linked with musl in the place of glibc: the same bits."""

from __future__ import annotations

import os

import numpy as np
import pytest
from rnncc_runtime import Model

import rnncc
from rnncc.packaging.linkers import find_zig
from tests.targets.running import compiled_for, same_bits

EVERYWHERE = bool(os.environ.get("RNNCC_TARGETS"))
X = np.random.default_rng(0).normal(size=(6, 3, 5)).astype(np.float32)


@pytest.mark.skipif(not EVERYWHERE, reason="compiles musl first: with RNNCC_TARGETS=1")
@pytest.mark.skipif(find_zig("cc") is None, reason="no ziglang here")
@pytest.mark.parametrize("triple", ["x86_64-linux-musl", "aarch64-linux-musl"])
def test_programs_with_musl(triple: str) -> None:
    net = rnncc.cells.lstm(5, 19)
    model = compiled_for(net, None, triple, cpu="x86-64-v3" if "x86" in triple else None)
    assert isinstance(model, Model)
    want = rnncc.compile(net, cpu="x86-64-v3").run({"x": X})
    same_bits(model.run({"x": X}), want)
