"""docs/onnx_operators.md says what the importer's functions say."""

from __future__ import annotations

from rnncc.frontends.onnx.reference import entries
from tools.write_operators import DOCS, onnx_page


def test_it_is_up_to_date() -> None:
    text = (DOCS / "onnx_operators.md").read_text()
    assert text == onnx_page(), "run python -m tools.write_operators"


def test_every_operator_says_what_it_does() -> None:
    for operators in entries().values():
        for entry in operators:
            assert entry.about.endswith("."), entry.name
