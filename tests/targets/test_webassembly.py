"""Kinds of WebAssembly that not all engines run, in the first engine here that does."""

from __future__ import annotations

import re
import shutil
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.options import Options
from tests.compiling import text_of
from tests.targets.running import alike_net, compiled_for, same_bits

X = np.random.default_rng(0).normal(size=(6, 3, 5)).astype(np.float32)
X[2, 1, 3] = np.nan


def smaller(b: Builder, x: SSAValue) -> SSAValue:
    """tanh where that is less: x, which may be NaN, elsewhere."""
    y = b.tanh(x)
    return b.select(b.compare("lt", y, x), y, x)


def net_of() -> Any:
    return rnncc.cells.lstm(5, 19, layer_norm=True, activation=smaller, seed=1)


@pytest.fixture
def only_wasmtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no node; other programs are found as ever."""
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "node" else found(name))


@pytest.mark.parametrize("name", ["wasm32", "wasm32-relaxed", "wasm64"])
def test_bits(name: str, only_wasmtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine, and where it has them NaN."""
    net = net_of()
    got = compiled_for(net, None, name).run({"x": X})
    same_bits(got, alike_net(net, name, monkeypatch).run({"x": X}))


def test_nothing_but_products_is_relaxed() -> None:
    """LLVM makes relaxed minima, of which NaN may be lost, of what looks like a minimum."""
    text = text_of(net_of(), None, Options(name="net", target="wasm32-relaxed", train=True), "asm")
    assert set(re.findall(r"relaxed_\w+", text)) == {"relaxed_madd"}
