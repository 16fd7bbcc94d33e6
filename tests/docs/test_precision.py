"""docs/precision.md: its bounds are those of the code."""

from __future__ import annotations

from pathlib import Path

from rnncc.commands.check import LOW
from rnncc.ir.precision import MOST_DEPTH

TEXT = (Path(__file__).parents[2] / "docs/precision.md").read_text()


def test_bounds() -> None:
    bounds = [f"{int(LOW[p][0] * 100)} % ({p})" for p in ("bf16", "int8")]
    assert all(bound in " ".join(TEXT.split()) for bound in bounds)
    assert f"{MOST_DEPTH:,}" in TEXT
