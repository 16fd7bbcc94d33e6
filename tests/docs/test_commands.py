"""Pages with commands: these run as they stand there; the picture is what the command draws."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rnncc.cli import main

ROOT = Path(__file__).parents[2]


def test_the_drawing_is_up_to_date(tmp_path: Path) -> None:
    net = [str(ROOT / "examples" / name) for name in ("lstm.pbtxt", "lstm_init.pbtxt")]
    assert main(["draw", *net, "-o", str(tmp_path / "lstm.svg")]) == 0
    drawn, kept = ((folder / "lstm.svg").read_text() for folder in (tmp_path, ROOT / "docs/images"))
    assert drawn.replace(f"{ROOT}/", "") == kept


def section(page: str, title: str) -> str:
    _, _, text = (ROOT / "docs" / page).read_text().partition(f"# {title}\n")
    return text.partition("\n## ")[0]


def commands(text: str) -> list[list[str]]:
    """Those of rnncc, as words."""
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = block.replace("\\\n", "").splitlines()
    found = [shlex.split(line, comments=True) for line in lines]
    assert all(words[0] == "rnncc" for words in found)
    return [words[1:] for words in found]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables(clone: Path) -> None:
    pytest.importorskip("pyarrow")
    text = section("commands.md", "Tables of sequences")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
    assert [main(words) for words in commands(text)] == [0, 0]
    assert (clone / "scores.parquet").stat().st_size > 1000


def test_caffe2(clone: Path) -> None:
    assert [main(words) for words in commands(section("caffe2.md", "Caffe2 nets"))] == [0] * 4
    assert (clone / "y.npz").is_file()
