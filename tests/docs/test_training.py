"""docs/training.md: its program prints what it says, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "training.md").read_text()


def test_program() -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL))
    command = [sys.executable, "-c", blocks["python"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == blocks["text"]


def test_links() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\((\S+?)\)", TEXT)]
    assert [link for link in links if not (DOCS / link).exists()] == []
