"""`rnncc bench` as users call it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rnncc_runtime import TensorSpec

from benchmarks.suites import SUITES
from rnncc.bench import machine, repository
from rnncc.cli import main
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.commands.bench import running
from rnncc.driver.drawn import drawn

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), "--init", str(ROOT / "examples/lstm_init.pbtxt")]
QUICK = ["--rounds", "2", "--seconds", "0.001"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ceilings are measured in no time."""
    how = machine.Measuring(seconds=1e-4, rounds=1, memory=1 << 14)
    monkeypatch.setattr(running, "measure", lambda cores, _: machine.measure(cores, how))


def test_suites_are_listed(capsys: Capture) -> None:
    assert main(["bench"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in SUITES)
    assert main(["bench", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["suites"]) == set(SUITES)


def test_suites_are_those_of_the_repository(tmp_path: Path) -> None:
    """Wherever the command is called, and whatever else is named so."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "runtime"), str(ROOT)])
    words = ["bench", "rtneural", "--only", "gru H=4", "--peers", "none", *QUICK]
    done = subprocess.run(
        [sys.executable, "-m", "rnncc", *words],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "gru H=4 B=1 one step" in done.stdout, done.stderr


def test_suites_are_not_in_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    assert main(["bench"]) == 0
    assert capsys.readouterr().out == f"{repository.HINT}\n"
    assert main(["bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"suites": {}}
    assert main(["bench", "standard"]) == 2
    assert repository.HINT in capsys.readouterr().err
    assert main(["bench", *NET, "--for", "3,1", *QUICK]) == 0


def test_a_net_with_everything(tmp_path: Path, capsys: Capture, little: None) -> None:
    picture = tmp_path / "a.svg"
    words = ["bench", *NET, "--for", "5,2", *QUICK, "--precision", "fp32,bf16"]
    assert main([*words, "--json", "--roofline", "--svg", str(picture)]) == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert told.err == ""
    assert set(report["results"][0]["times"]) == {"rnncc", "rnncc bf16"}
    assert report["results"][0]["times"]["rnncc"]["least"] > 0
    assert report["results"][0]["case"]["sizes"] == [["T", 5], ["N", 2]]
    assert ET.parse(picture).getroot().tag.endswith("svg")


def test_a_table_for_documentation(capsys: Capture) -> None:
    words = ["bench", *NET, "--for", "5,2", *QUICK, "--precision", "fp32,int8", "--markdown"]
    assert main(words) == 0
    heads, line, row = capsys.readouterr().out.splitlines()
    assert (heads, line) == ("| case | rnncc | rnncc int8 |", "| --- | --- | --- |")
    assert re.fullmatch(r"\| \S+ T=5 N=2 \| [\d.,]+ \| [\d.,]+ \(\d+\.\d\d\) \|", row)
    assert main([*words, "--json"]) == 2
    assert "--markdown: goes without --json" in capsys.readouterr().err


def test_a_net_trained(capsys: Capture) -> None:
    assert main(["bench", *NET, "--train", "--for", "3,1", *QUICK]) == 0
    assert "forward and backward" in capsys.readouterr().out


def test_ragged_lengths(capsys: Capture) -> None:
    assert main(["bench", *NET, "--for", "9,4", "--ragged", *QUICK]) == 0
    assert "T=9 N=4 ragged" in capsys.readouterr().out
    specs = {"lengths": TensorSpec.read({"name": "lengths", "shape": ["N"], "dtype": "i32"})}
    lengths = drawn(specs, {"T": 9, "N": 100}, ragged=True)["lengths"]
    assert set(lengths.tolist()) == set(range(1, 10))
    assert set(drawn(specs, {"T": 9, "N": 100})["lengths"].tolist()) == {9}


def test_a_suite(capsys: Capture) -> None:
    assert main(["bench", "rtneural", "--only", "gru H=4", "--peers", "none", *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "gru H=4 B=1 one step" in printed and "lstm" not in printed


def test_explain(capsys: Capture, little: None) -> None:
    assert main(["bench", "--explain", *NET, *QUICK]) == 0
    assert "This machine needs at least" in capsys.readouterr().out
    assert main(["bench", "--explain", *NET, *QUICK, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["words"]


def test_ceilings(capsys: Capture, little: None) -> None:
    assert main(["bench", "--roofline"]) == 0
    assert "one core" in capsys.readouterr().out
    assert main(["bench", "--roofline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["flops"]["f32"] > 0


def test_what_was_measured_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, little: None
) -> None:
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path / "new"))
    assert main(["bench", "--roofline", "--write"]) == 0
    assert str(tmp_path / "new/machine.json") in capsys.readouterr().err
    entries = json.loads((tmp_path / "new/machine.json").read_text())
    target = resolve_target()
    assert (entries["cpu"], entries["l1"]) == (target.cpu, target.l1)
    monkeypatch.setenv("RNNCC_CACHE", "0")
    assert main(["bench", "--roofline", "--write"]) == 2
    assert "--write: the cache's folder is switched off" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--write"], "--write: goes with --roofline"),
        (["standard", "--roofline", "--write"], "--write: goes with --roofline alone"),
        (["nope"], "nope: no such file, nor a suite"),
        (["standard", "--only", "H=63"], "no case of standard"),
        (["standard", "--for", "3,1"], "go with a net"),
        (["standard", "--explain"], "--explain takes a net"),
        ([*NET, "--peers", "all"], "go with a suite"),
        ([*NET, "--for", "K=3"], "--for: the net has no K"),
        ([*NET, "--explain", "--svg", "a.svg"], "--svg: goes without --explain"),
        ([*NET, "--explain", "--precision", "int8"], "--precision: goes without --explain"),
        ([*NET, "--explain", "--threads", "2"], "--threads: goes without --explain"),
        ([*NET, "--explain", "--ragged"], "--ragged: goes without --explain"),
        ([*NET, "--core", "9999"], "--core: 9999 is none of"),
        (["--svg", "a.svg"], "--svg: goes with a net or a suite"),
        (["--for", "9,4"], "--for: goes with a net or a suite"),
        (["--roofline", "--threads", "2"], "--threads: goes with a net or a suite"),
        (["standard", "--precision", "fp8"], "--precision"),
        (["standard", "--peers", "Caffe9"], "no peer is named"),
        (["standard", "--threads", "1,0"], "--threads: '0' is not a number from 1"),
        (["standard", "--threads", "x"], "--threads: 'x'"),
    ],
)
def test_errors_are_one_line(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["bench", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err and printed.err.count("\n") == 1
