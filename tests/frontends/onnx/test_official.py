"""The standard's tests by its own runner: by the interpreter, and a part as machine code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import rnncc
from rnncc import onnx_backend
from tests.frontends.onnx.models import info, model, node
from tests.frontends.onnx.official import NODES, cases, count, run, run_all

DOCS = Path(__file__).parents[3] / "docs/onnx.md"
RECURRENT = re.compile(r"test_(lstm|gru|rnn|simple_rnn|scan|scan9|loop\d+|if)(_|$)")
LISTS = re.compile(r"test_(sequence|optional|split_to_sequence|identity)_")
NOT_COMPARED = "test_loop16_seq_none"
"""Gives a list with a number in it, of which the runner takes the length."""
WHOLE = [
    f"OnnxBackend{kind}ModelTest" for kind in ("Simple", "PyTorchConverted", "PyTorchOperator")
]
UNCLAIMED = re.compile("test_(strnorm|gradient)_")
SAMPLE = 40
"""Of so many other tests one runs as machine code."""


def test_all_claimed_pass_and_documents_say_how_many(one_in: Callable[[int], slice]) -> None:
    """With `--draw` a part of those that compute an operator by the standard's function of others,
    which takes half of the time."""
    names = list(cases(True)[NODES])
    expanded = {name for name in names if "_expanded" in name}
    left = expanded - set(sorted(expanded)[one_in(8)])
    tests = [(NODES, name) for name in names if name not in left]
    outcomes = run_all(tests, interpret=True, processes=1)
    assert [o for o in outcomes if o.result == "failed"] == []
    counts = count(outcomes)
    assert counts["passed"] >= 600
    unread = [o for o in outcomes if o.result == "skipped" and o.name != NOT_COMPARED]
    assert [o for o in unread if RECURRENT.match(o.name) or LISTS.match(o.name)] == []
    text = DOCS.read_text()
    told = f"{counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed"
    if f"onnx {onnx.__version__}" in text and not left:
        assert told in text


def test_whole_models_of_the_suite_pass(one_in: Callable[[int], slice]) -> None:
    """All that PyTorch made; of the others those that hold no texts and ask for no gradients."""
    tests = [(c, name) for c in WHOLE for name in sorted(cases(True)[c])][one_in(4)]
    outcomes = run_all(tests, interpret=True, processes=1)
    assert [o for o in outcomes if o.result != "passed" and not UNCLAIMED.match(o.name)] == []


def test_recurrent_control_and_lists_as_machine_code() -> None:
    found = [name for name in cases(False)[NODES] if RECURRENT.match(name) or LISTS.match(name)]
    assert len(found) >= 56
    outcomes = [run(name, interpret=False) for name in sorted(found)]
    assert [o.name for o in outcomes if o.result != "passed"] == [NOT_COMPARED]


def test_some_as_machine_code() -> None:
    outcomes = [run(name, interpret=False) for name in sorted(cases(False)[NODES])[::SAMPLE]]
    assert [o for o in outcomes if o.result == "failed"] == []


def test_what_is_not_supported_is_said_as_the_interface_has_it() -> None:
    old = model([node("Not", "x", "y")], [info("x", [2], "i1")], [info("y", [2], "i1")], opset=1)
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="is of opset 1; 6 to"):
        onnx_backend.prepare(old)
    assert not onnx_backend.is_compatible(old)
    one = onnx.helper.make_tensor_sequence_value_info("y", 1, None)
    listed = model([node("SequenceConstruct", "x x", "y")], [info("x", [])], [one])
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="whose element 0 has no axes"):
        onnx_backend.prepare(listed)
    assert list(rnncc.compile(listed).outputs) == ["y.0", "y.1"]
