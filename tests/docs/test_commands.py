"""docs/commands.md: its picture is what the command draws."""

from __future__ import annotations

from pathlib import Path

from rnncc.cli import main

ROOT = Path(__file__).parents[2]


def test_the_drawing_is_up_to_date(tmp_path: Path) -> None:
    net = [str(ROOT / "examples" / name) for name in ("lstm.pbtxt", "lstm_init.pbtxt")]
    assert main(["draw", *net, "-o", str(tmp_path / "lstm.svg")]) == 0
    drawn, kept = ((folder / "lstm.svg").read_text() for folder in (tmp_path, ROOT / "docs/images"))
    assert drawn.replace(f"{ROOT}/", "") == kept
