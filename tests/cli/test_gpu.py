"""The commands for GPUs: files anywhere, results where there is one, else one line to say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.cli import main
from rnncc.codegen.nvptx.ptx import assembler
from tests.gpu import libcuda
from tests.runtime import on_gpu

ROOT = Path(__file__).parents[2]
NET = str(ROOT / "examples/lstm.pbtxt")
INIT = ["--init", str(ROOT / "examples/lstm_init.pbtxt")]

SMALL = """name: "small"
op { input: "x" input: "w" input: "b" output: "y" type: "FC" }
external_input: "x" external_input: "w" external_input: "b" external_output: "y"
"""
SMALL_INIT = """name: "init"
op { output: "w" type: "XavierFill" arg { name: "shape" ints: 8 ints: 8 } }
op { output: "b" type: "ConstantFill" arg { name: "shape" ints: 8 } }
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """The words for a net of one product, which is compiled in a quarter of the time."""
    folder = tmp_path / "nets"
    folder.mkdir()
    for name, text in (("small", SMALL), ("init", SMALL_INIT)):
        (folder / f"{name}.pbtxt").write_text(text)
    return [str(folder / "small.pbtxt"), "--init", str(folder / "init.pbtxt")]


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("threads", "threads of a CPU do not compute together on a GPU, which has its own"),
        ("flush-denormals", "code for GPUs keeps denormals, which cost nothing there"),
    ],
)
def test_options_for_cpus_are_refused_before_the_net_is_read(
    tmp_path: Path, option: str, what: str, capsys: Capture
) -> None:
    net = tmp_path / "damaged.pb"
    net.write_bytes(b"\xff" * 64)
    assert main(["compile", str(net), "--gpu", f"--{option}"]) == 2
    assert capsys.readouterr().err == f"rnncc: error: --{option}: {what} (leave it out)\n"
    chosen: Any = {option.replace("-", "_"): True}
    with pytest.raises(rnncc.CompileError, match=what):
        rnncc.compile(net, device="cuda", **chosen)


def alone(*words: str, driver: str = "/nowhere/libcuda.so") -> tuple[int, str]:
    """The status of a command in a process of its own, and its complaint."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    environment = {**os.environ, "RNNCC_LIBCUDA": driver, "PYTHONPATH": path}
    command = [sys.executable, "-m", "rnncc", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["--gpu", NET], [NET, "--gpu"], [NET, "--target", "nvptx"]])
def test_files_are_written_without_a_gpu(tmp_path: Path, words: list[str], capsys: Capture) -> None:
    assert main(["compile", *words, *INIT, "-o", str(tmp_path), "-v"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"liblstm.so", "lstm.h", "lstm.py"}
    assert "NVIDIA GPUs" in capsys.readouterr().err
    assert "lstm_run_cuda(" in (tmp_path / "lstm.h").read_text()


def test_ptx(small: list[str], capsys: Capture) -> None:
    assert main(["compile", "--gpu", *small, "--emit", "ptx"]) == 0
    assert ".target sm_70" in capsys.readouterr().out
    assert main(["compile", *small, "--emit", "ptx"]) == 2
    assert "has no form ptx" in capsys.readouterr().err


def test_training_in_bf16(small: list[str], tmp_path: Path, capsys: Capture) -> None:
    words = ["compile", *small, "--train", "--precision", "bf16", "-o", str(tmp_path)]
    assert main([*words, "--gpu"]) == 0
    text = (tmp_path / "libsmall.so").read_bytes()
    assert b'"precision": "bf16"' in text
    assert b".target sm_80" in text
    assert main(words) == 2
    assert "training in bf16 is for NVIDIA GPUs" in capsys.readouterr().err


@pytest.mark.skipif(assembler() is None, reason="no ptxas is installed")
def test_chips(small: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", "--gpu", "sm_80,sm_90a", *small, "-o", str(tmp_path)]) == 0
    text = (tmp_path / "libsmall.so").read_bytes()
    assert b'"images": ["sm_80", "sm_90a", "ptx"]' in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpu", "sm_20"], "'sm_20' is no chip"),
        (["--gpu=fast"], "'fast' is no chip"),
        (["--gpu", "--cpu", "native"], "--cpu: does not go with --gpu"),
        (["--gpu", "--target", "aarch64"], "--target: does not go with --gpu"),
        (["--gpu", "--threads"], "--threads: threads of a CPU"),
        (["--gpu", "--tune"], "--tune: code for GPUs has no settings"),
        (["--gpu", "--products", "c"], "does not make the product c"),
    ],
)
def test_what_makes_no_sense(
    tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    assert main(["compile", NET, *INIT, "-o", str(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_commands_that_compute_say_so(small: list[str], tmp_path: Path) -> None:
    assert main(["compile", "--gpu", *small, "-o", str(tmp_path)]) == 0
    library, arrays = str(tmp_path / "libsmall.so"), str(tmp_path / "arrays.npz")
    np.savez(arrays, x=np.ones((2, 8), np.float32))
    for words in (
        ["run", "--gpu", *small, "-i", arrays],
        ["check", "--gpu", *small],
        ["run", library, "-i", arrays],
    ):
        status, told = alone(*words)
        assert status == 2
        assert told.startswith("rnncc: error: found no NVIDIA driver: /nowhere/libcuda.so")
        assert len(told.splitlines()) == 1


def test_with_one_they_compute(small: list[str], tmp_path: Path, capsys: Capture) -> None:
    on_gpu.begin()
    words = ["--target", "emulated"]
    assert main(["compile", *small, *words, "-o", str(tmp_path)]) == 0
    library, arrays = str(tmp_path / "libsmall.so"), str(tmp_path / "arrays.npz")
    np.savez(arrays, x=np.ones((2, 8), np.float32))
    tables = list[str]()
    for run in ([library], [*small, *words], small):
        assert main(["run", *run, "-i", arrays]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1] == tables[2]
    assert main(["run", library, "-i", arrays, "--threads", "2"]) == 2
    assert "a GPU has threads of its own" in capsys.readouterr().err
    assert main(["check", *small, *words]) == 0


def test_targets_tell_of_the_gpu(capsys: Capture) -> None:
    on_gpu.begin()
    assert main(["targets", "--json"]) == 0
    rows = {row["machine"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["NVIDIA GPU"]["target"] == "nvptx"
    assert "sm_90" in rows["NVIDIA GPU"]["run by"]
    status, told = alone("targets", driver=str(libcuda.path()))
    assert (status, told) == (0, "")


def test_the_plan_of_a_library_for_tensor_cores(small: list[str], capsys: Capture) -> None:
    words = ["plan", "--gpu", *small, "--train", "--precision", "bf16", "--json"]
    assert main(words) == 0
    launches = json.loads(capsys.readouterr().out)["launches"]
    assert [row["program"] for row in launches] == ["forward", "backward"]


@pytest.mark.parametrize("train", [False, True])
def test_the_plan_tells_of_launches(small: list[str], capsys: Capture, train: bool) -> None:
    words = ["plan", "--gpu", NET, *INIT, "--plan-for", "100,4", *(["--train"] if train else [])]
    assert main([*words, "--json"]) == 0
    launches = json.loads(capsys.readouterr().out)["launches"]
    programs = ["forward", "backward"] if train else ["init", "step"]
    assert [row["program"] for row in launches] == programs
    for row in launches:
        assert row["kernel"] == f"lstm_{row['program']}"
        assert row["at_most"] >= 1
        assert (row["registers"] is None) == (assembler() is None)
    if not train:
        assert main(["plan", "--gpu", *small, "--plan-for", "4"]) == 0
        assert "launches at N=4" in capsys.readouterr().out
        assert main(["plan", *small, "--json"]) == 0
        assert "launches" not in json.loads(capsys.readouterr().out)
