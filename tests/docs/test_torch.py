"""docs/torch.md: its programs print what it says, it lists what there is, its links lead on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.peers
DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "torch.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def test_programs(tmp_path: Path) -> None:
    """The programs of the page, one after another; the second stands in a file by itself."""
    program = "".join(text for language, text in BLOCKS if language == "python")
    printed = "".join(text for language, text in BLOCKS if language == "text")
    path = tmp_path / "program.py"
    path.write_text(program)
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(str(path), "program.py") == printed


def test_operators() -> None:
    from tools.write_torch_operators import listed

    assert f"\n{listed()}\n" in TEXT, "run python tools/write_torch_operators.py"


def test_links() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\((\S+?)\)", TEXT)]
    assert [link for link in links if not (DOCS / link).exists()] == []
