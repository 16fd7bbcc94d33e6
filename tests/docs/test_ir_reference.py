"""docs/ir.md says what the ops say."""

from __future__ import annotations

from rnncc.ir.rnn import OPS
from tools.write_ir_reference import PATH, reference


def test_every_op_is_there() -> None:
    text = PATH.read_text()
    assert [op.name for op in OPS if f"`{op.name}`" not in text] == []


def test_it_is_up_to_date() -> None:
    assert PATH.read_text() == reference(), "run python -m tools.write_ir_reference"
