"""The page that follows one net through all stages is as its tool writes it."""

from __future__ import annotations

from tools.write_life import PATH, page


def test_page_is_current() -> None:
    assert PATH.read_text() == page(), "run python -m tools.write_life"
