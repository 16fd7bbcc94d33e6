"""docs/operators.md says what the importer's classes say."""

from __future__ import annotations

from tools.write_operators import DOCS, caffe2_page


def test_it_is_up_to_date() -> None:
    text = (DOCS / "operators.md").read_text()
    assert text == caffe2_page(), "run python -m tools.write_operators"
