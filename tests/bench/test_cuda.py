"""rnncc on a GPU as it is timed and checked there, on the emulated one."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cells
from benchmarks.cuda import golden, loaded, sanitizer, small
from rnncc.bench import own_cuda
from rnncc.bench.cases import Case
from rnncc.bench.contenders import Setup
from rnncc.cli import main
from rnncc.codegen import targets
from rnncc.ir.interpreter import run as interpret
from tests.golden import GOLDEN
from tests.gpu import emulated, libcuda


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """What is compiled for a GPU is compiled for the emulated one, which has no complaint."""
    emulated.register()
    monkeypatch.setitem(targets.TARGETS, "nvptx", targets.TARGETS[emulated.NAME])
    monkeypatch.setenv("RNNCC_LIBCUDA", str(libcuda.path()))
    libcuda.emulator().forget()
    yield
    assert libcuda.emulator().report == ""


@pytest.mark.parametrize("mode", ["run", "train", "step"])
@pytest.mark.parametrize("cell", ["lstm", "layernorm_lstm"])
def test_contender(cell: str, mode: Any) -> None:
    case = Case(cell, 8, 2, 1 if mode == "step" else 3, mode)
    call = own_cuda.make(case)
    assert call is not None and call.result is not None
    want = interpret(cells.build(case), cells.inputs(case))["y"]
    np.testing.assert_allclose(call.result(), want, atol=1e-5)
    call.repeat(2)


def test_contender_of_lower_precision() -> None:
    bf16 = Setup("bf16")
    case = Case("gru", 8, 2, 3)
    call = own_cuda.make(case, bf16)
    assert call is not None and call.result is not None
    want = interpret(cells.build(case), cells.inputs(case))["y"]
    assert 1e-5 < np.abs(call.result() - want).max() < 0.03
    assert own_cuda.make(Case("gru", 8, 2, 3, "train"), bf16) is None


@pytest.mark.parametrize("option", ["--roofline", "--explain", "--threads=2"])
def test_what_is_about_the_cpu_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "standard", "--device", "cuda", option]) == 2
    assert "--roofline, --explain and --threads are about the CPU" in capsys.readouterr().err


@pytest.mark.parametrize("net", ["caffe2/lstm", "control/if_computed_f"])
@pytest.mark.parametrize("mode", ["run", "train"])
def test_golden(net: str, mode: str) -> None:
    if not (GOLDEN / net).is_dir():
        pytest.skip("needs ../shared")
    assert golden.run({"net": net, "mode": mode}) == {"bits": True}


def test_what_the_sanitizer_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sanitizer, "NETS", {"lstm": sanitizer.NETS["lstm"]})
    sanitizer.build(tmp_path)
    monkeypatch.setattr(sys, "argv", ["small", str(tmp_path)])
    small.main()
    library = tmp_path / "liblstm.so"
    assert library.exists()
    np.savez(tmp_path / "lstm.npz", **{"in:x": np.zeros((5, 3, 24), np.float32), "out:y": 0})
    with pytest.raises((SystemExit, KeyError)):
        small.main()
    monkeypatch.setattr(loaded, "start_driver", lambda: None)
    monkeypatch.setattr(sys, "argv", ["loaded", str(library)])
    loaded.main()
    assert '"first"' in capsys.readouterr().out
