"""docs/targets.md says what the tables of platforms, linkers and runners say."""

from __future__ import annotations

from tools.write_targets import PAGE, page


def test_it_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.write_targets"
