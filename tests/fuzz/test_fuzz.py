"""A small slice of the fuzz runs."""

from __future__ import annotations

import pytest

from tests.fuzz import fuzz_caffe2, fuzz_onnx


@pytest.mark.skipif(not fuzz_caffe2.GOLDEN.exists(), reason="no golden data here")
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
