"""What must stay fast and quiet: imports, help, lists."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import rnncc
from rnncc.cli import cli, main

HEAVY = {"xdsl", "llvmlite", "google", "jinja2", "rich", "torch", "onnx", "numba", "numpy"}


@pytest.mark.parametrize("statement", ["import rnncc", "import rnncc.cli"])
def test_import_is_light(statement: str) -> None:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not HEAVY & {name.split(".")[0] for name in printed.stdout.split()}


@pytest.mark.parametrize("command", [None, *cli.commands])
def test_help(command: str | None) -> None:
    words = [command, "--help"] if command else ["--help"]
    printed = CliRunner().invoke(cli, words)
    assert printed.exit_code == 0
    assert "Usage:" in printed.output
    if command:
        assert f"Example:\n    rnncc {command}" in printed.output


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rnncc {rnncc.__version__}\n"


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"FC", "LSTMUnit", "RecurrentNetwork"} <= set(listed["supported"])
    assert "Recurrent" in listed["refused"]
    assert main(["ops"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in listed["supported"])
    assert not [line for line in printed.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    ("words", "supported", "refused"),
    [
        (["FC", "LSTMUnit", "Recurrent"], {"FC", "LSTMUnit"}, {"Recurrent"}),
        (["--onnx", "StringConcat", "Scan"], {"Scan"}, {"StringConcat"}),
    ],
)
def test_some_ops(
    words: list[str], supported: set[str], refused: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", *words, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["supported"].keys(), listed["refused"].keys()) == (supported, refused)
    assert main(["ops", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.count("what it does") == len({e["family"] for e in listed["supported"].values()})
    for entry in listed["supported"].values():
        assert all(text in printed for text in (entry["does"], *entry["refused"]))
    assert main(["ops", *words[:-1], "FC" if "--onnx" in words else "Scan"]) == 2


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["fc"], "did you mean FC? "),
        (["lstmunits"], "did you mean LSTMUnit or "),
        (["--onnx", "lstm"], "did you mean LSTM or "),
        (["--onnx", "DynamicQuantizeLSTM"], "did you mean com.microsoft.DynamicQuantizeLSTM? "),
        (["Zzyzx"], ""),
    ],
)
def test_unknown_ops(words: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", *words]) == 2
    told = f"rnncc: error: operator '{words[-1]}' is not known ({near}"
    printed = capsys.readouterr().err
    assert printed.startswith(told)
    assert printed.endswith("lists those of Caffe2, `rnncc ops --onnx` those of ONNX)\n")


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    assert "aarch64-unknown-linux-gnu" in capsys.readouterr().out


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: rnncc")
