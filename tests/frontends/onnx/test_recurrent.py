"""Recurrent operators over all their attributes, against ONNX Runtime and ONNX's own reference."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rnncc.driver import in_memory
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.interpreter import run
from rnncc.options import Options
from tests.frontends.onnx.models import assert_close, by_onnxruntime
from tests.frontends.onnx.random_layers import Case, layers

EXAMPLES = int(os.environ.get("RNNCC_ONNX_EXAMPLES", "25"))
"""Random layers of each kind; 2000 by hand."""
COMPILED = 4
"""Of so many one is compiled."""

random = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
    derandomize=EXAMPLES <= 25,
)


def check(case: Case, compiles: bool) -> None:
    program = import_model(case.model)
    want = case.turned(by_onnxruntime(case.plain, case.plain_inputs))
    assert_close(run(program, case.inputs), want)
    if compiles:
        model: Any = in_memory.compile_in_memory(program, None, Options.of(program, {}))
        assert_close(model.run(case.inputs), want)


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_against_onnxruntime(kind: str) -> None:
    pytest.importorskip("onnxruntime")

    @random
    @given(layers(kind), st.integers(0, COMPILED - 1))
    def examples(case: Case, iteration: int) -> None:
        check(case, iteration == 0)

    examples()
