"""Stock xDSL finds the dialects and passes by name."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rnncc.ir.builder import Builder
from rnncc.universe import UNIVERSE

INSTALLED = any(e.name == "rnncc" for e in entry_points(group="xdsl.universe"))


def test_every_pass_has_the_name_it_is_found_by():
    assert {name: load().name for name, load in UNIVERSE.all_passes.items()} == {
        name: name for name in UNIVERSE.all_passes
    }


def test_dialects_load():
    assert {load().name for load in UNIVERSE.all_dialects.values()} == {"rnn", "kern"}


@pytest.mark.skipif(not INSTALLED, reason="rnncc is not installed: run pip install -e .")
def test_xdsl_opt_runs_a_pass(tmp_path: Path):
    b = Builder.net("small")
    x = b.input("x", ["T", "N", 3])
    program = b.finish({"y": b.reshape(b.reshape(x, ["N", "T", 3]), ["T", "N", 3])})
    file = tmp_path / "small.mlir"
    file.write_text(str(program.module))
    tool = Path(sys.executable).with_name("xdsl-opt")
    out = subprocess.run(
        [tool, "-p", "rnn-simplify", file], capture_output=True, text=True, check=True
    ).stdout
    assert "rnn.net" in out
    assert "rnn.reshape" not in out
