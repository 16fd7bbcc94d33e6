"""docs/ir.md says what the ops say."""

from __future__ import annotations

from tools.write_ir_reference import PATH, reference


def test_it_is_up_to_date() -> None:
    assert PATH.read_text() == reference(), "run python tools/write_ir_reference.py"
