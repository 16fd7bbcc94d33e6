"""The standard's node tests: all of what is claimed by the interpreter, a part as machine code."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.frontends.onnx.official import count, node_tests, run, run_all

DOCS = Path(__file__).parents[3] / "docs/onnx.md"
RECURRENT = re.compile(r"test_(lstm|gru|rnn|simple_rnn|scan|scan9|loop11|if)(_|$)")
SAMPLE = 40
"""Of so many other tests one runs as machine code."""
UNREAD = {"test_if_seq", "test_if_opt", "test_loop13_seq", "test_loop16_seq_none"}
"""Sequences and optional values are not read."""


def test_all_claimed_pass_and_documents_say_how_many() -> None:
    outcomes = run_all(list(node_tests()), interpret=True, processes=1)
    assert [o for o in outcomes if o.result == "failed"] == []
    counts = count(outcomes)
    assert counts["passed"] >= 600
    text = DOCS.read_text()
    told = f"{counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed"
    if f"onnx {onnx.__version__}" in text:
        assert told in text


RECURRENT_TESTS = sorted(name for name in node_tests() if RECURRENT.match(name))


def test_recurrent_ones_are_there() -> None:
    assert len(RECURRENT_TESTS) >= 24


@pytest.mark.parametrize("name", RECURRENT_TESTS)
def test_recurrent_and_control_as_machine_code(name: str) -> None:
    outcome = run(name, interpret=False)
    assert outcome.result == ("skipped" if name in UNREAD else "passed"), outcome.why


@pytest.mark.parametrize("name", sorted(node_tests())[::SAMPLE])
def test_some_as_machine_code(name: str) -> None:
    outcome = run(name, interpret=False)
    assert outcome.result != "failed", outcome.why
