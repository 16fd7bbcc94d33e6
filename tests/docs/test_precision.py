"""docs/precision.md: its program prints what it says; its bounds are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rnncc.commands.checking import LOW
from rnncc.ir.precision import MOST_DEPTH

TEXT = (Path(__file__).parents[2] / "docs/precision.md").read_text()


def test_program() -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL))
    command = [sys.executable, "-c", blocks["python"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == blocks["text"]


def test_bounds() -> None:
    bounds = [f"{int(LOW[p][0] * 100)} % ({p})" for p in ("bf16", "int8")]
    assert all(bound in " ".join(TEXT.split()) for bound in bounds)
    assert f"{MOST_DEPTH:,}" in TEXT
