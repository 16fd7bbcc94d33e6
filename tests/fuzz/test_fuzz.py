"""A small slice of the fuzz runs."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fuzz import fuzz_caffe2, fuzz_onnx
from tests.fuzz.campaign import Runner, Totals, campaign, drawn
from tests.fuzz.families import FAMILIES, make_case
from tests.fuzz.shrink import shrink


def test_mutants_of_golden_nets_end_in_an_error_or_a_program() -> None:
    report = fuzz_caffe2.run(300, seed=1)
    assert not report.failures, report.failures[0]
    assert report.imported > 20
    assert report.refused > 100


def test_mutants_of_onnx_models_end_in_an_error_or_a_program() -> None:
    report = fuzz_onnx.run(400, seed=1)
    assert not report.failures, report.failures[0]
    assert report.imported > 40
    assert report.refused > 100


def test_a_few_models_through_passes_code_and_runs() -> None:
    tasks = drawn(list(FAMILIES), [1] * len(FAMILIES), 7, lambda index: index < 48)
    totals = campaign(tasks, 1, Totals())
    assert not totals.failures, totals.failures
    assert totals.outcomes["accepted"] > 12
    assert totals.outcomes["compared"] > 36


def test_a_wrong_result_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the fuzzer see what they are there for: tanh that is computed as sine."""
    import numpy as np

    from rnncc.ir.ops.elementwise import Tanh
    from tests.fuzz.check import check

    monkeypatch.setattr(Tanh, "evaluate", lambda self, context, *arrays: np.sin(arrays[0]))
    cases = (make_case("onnx-random", 3, index) for index in range(100))
    failing = next(case for case in cases if check(case).failures)
    smaller, result = shrink(failing, check)
    assert result.failures[0].kind == "wrong"
    assert len(smaller.source) < len(failing.source)
    assert b"Tanh" in smaller.source


def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 30.0)
    with Runner() as run:
        case = make_case("onnx-random", 3, 0)
        assert run(case).outcome == "accepted"
        monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 0.2)
        assert run.process is not None
        os.kill(run.process, signal.SIGSTOP)
        (failure,) = run(case).failures
        assert failure.kind == "hang"
        monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 30.0)
        assert run(case).outcome == "accepted"
