"""docs/cells.md: its program prints what it says, and its tables know every builder and option."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from rnncc import cells
from rnncc.cells.settings import Settings

TEXT = (Path(__file__).parents[2] / "docs" / "cells.md").read_text()


def test_program() -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL))
    command = [sys.executable, "-c", blocks["python"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == blocks["text"]


def test_tables() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    builders = {name for name in cells.__all__ if name.islower()}
    missing = {*builders, *(field.name for field in fields(Settings))} - {"name"} - named
    assert not missing
