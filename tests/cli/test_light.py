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
    assert "PackRNNSequence" in listed["refused"]
    assert main(["ops"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in listed["supported"])
    assert not [line for line in printed.splitlines() if line != line.rstrip()]


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    assert "aarch64-unknown-linux-gnu" in capsys.readouterr().out


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: rnncc")
