"""docs/operators.md says what the importer's classes say."""

from __future__ import annotations

from tools.write_operators import PATH, page


def test_it_is_up_to_date() -> None:
    assert PATH.read_text() == page(), "run python tools/write_operators.py"
