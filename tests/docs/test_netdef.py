"""docs/netdef.md: its program prints what it says, and its tables know every function."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rnncc import netdef

TEXT = (Path(__file__).parents[2] / "docs" / "netdef.md").read_text()


def test_program() -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL))
    command = [sys.executable, "-c", blocks["python"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == blocks["text"]


def test_every_function_on_nets_has_its_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)\(|, `(\w+)\(", TEXT, re.MULTILINE))
    named = {name for pair in rows for name in pair if name}
    functions = {name for name in netdef.__all__ if name.islower()}
    assert functions - named == {"check_text", "declared_fills", "parse_text"}
