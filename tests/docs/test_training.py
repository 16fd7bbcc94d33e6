"""docs/training.md: its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "training.md").read_text()


def test_links() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\((\S+?)\)", TEXT)]
    assert [link for link in links if not (DOCS / link).exists()] == []
