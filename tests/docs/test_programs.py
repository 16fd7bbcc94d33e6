"""Programs in docs/ print what stands behind them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.DOTALL)
PROGRAMS = [
    pytest.param(*program, id=f"{path.stem}-{number}")
    for path in sorted(DOCS.glob("*.md"))
    for number, program in enumerate(PROGRAM.findall(path.read_text()))
]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_program(program: str, printed: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == printed
