"""Pages in docs/: their programs in turn print what stands behind them; links lead on."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ON_GPUS = {"gpu"}
"""Pages whose programs `test_gpu.py` runs."""


def blocks(page: Path, language: str) -> str:
    return "".join(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL))


def marks(page: Path) -> list[pytest.MarkDecorator]:
    if "import torch" not in blocks(page, "python"):
        return []
    return [pytest.mark.peers, pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch")]


PROGRAMS = [
    pytest.param(page, id=page.stem, marks=marks(page))
    for page in PAGES
    if blocks(page, "text") and page.stem not in ON_GPUS
]


@pytest.mark.parametrize("page", PROGRAMS)
def test_program(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = tmp_path / "program.py"
    path.write_text(blocks(page, "python"))
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(str(path), "program.py") == blocks(page, "text")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\((\S+?)\)", page.read_text())]
    assert [link for link in links if not (page.parent / link).exists()] == []
