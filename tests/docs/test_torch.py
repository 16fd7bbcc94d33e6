"""docs/torch.md lists the operators that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.peers
TEXT = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()


def test_operators() -> None:
    from tools.write_torch_operators import listed

    assert f"\n\n{listed()}\n" in TEXT, "run python -m tools.write_torch_operators"
    assert TEXT.count("`zeros_like`") == 1
