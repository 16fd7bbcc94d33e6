"""The standard's node tests: all of what is claimed by the interpreter, a part as machine code."""

from __future__ import annotations

import re
from pathlib import Path

import onnx

from tests.frontends.onnx.official import count, node_tests, run, run_all

DOCS = Path(__file__).parents[3] / "docs/onnx.md"
RECURRENT = re.compile(r"test_(lstm|gru|rnn|simple_rnn|scan|scan9|loop\d+|if)(_|$)")
LISTS = re.compile(r"test_(sequence|optional|split_to_sequence|identity)_")
SAMPLE = 40
"""Of so many other tests one runs as machine code."""


def test_all_claimed_pass_and_documents_say_how_many() -> None:
    outcomes = run_all(list(node_tests()), interpret=True, processes=1)
    assert [o for o in outcomes if o.result == "failed"] == []
    counts = count(outcomes)
    assert counts["passed"] >= 600
    unread = [o for o in outcomes if o.result == "skipped"]
    assert [o for o in unread if RECURRENT.match(o.name) or LISTS.match(o.name)] == []
    text = DOCS.read_text()
    told = f"{counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed"
    if f"onnx {onnx.__version__}" in text:
        assert told in text


def test_recurrent_control_and_lists_as_machine_code() -> None:
    found = [name for name in node_tests() if RECURRENT.match(name) or LISTS.match(name)]
    assert len(found) >= 56
    outcomes = [run(name, interpret=False) for name in sorted(found)]
    assert [o for o in outcomes if o.result != "passed"] == []


def test_some_as_machine_code() -> None:
    outcomes = [run(name, interpret=False) for name in sorted(node_tests())[::SAMPLE]]
    assert [o for o in outcomes if o.result == "failed"] == []
