"""Recurrent operators over all their attributes, against ONNX Runtime and ONNX's own reference."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rnncc.driver import in_memory
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.interpreter import run
from rnncc.options import Options
from tests import draw
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)
from tests.frontends.onnx.random_layers import Case, layers
from tests.golden import Arrays

EXAMPLES = int(os.environ.get("RNNCC_ONNX_EXAMPLES", draw.examples(25)))
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


@pytest.mark.peers
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_last_states_of_sequences_of_no_steps(kind: str, gates: int) -> None:
    """Zeros, whatever the initial states are."""
    rng = np.random.default_rng(0)
    states = ["h", "c"][: 1 + (kind == "LSTM")]
    constants = {"w": rng.standard_normal((2, 2 * gates, 3)).astype(np.float32)}
    constants |= {"r": rng.standard_normal((2, 2 * gates, 2)).astype(np.float32)}
    inputs = [info("x", ["T", "N", 3]), info("lengths", ["N"], "i32")]
    inputs += [info(state, [2, "N", 2]) for state in states]
    outputs = ["y", *(f"last_{state}" for state in states)]
    nodes = [
        node(
            kind,
            f"x w r _ lengths {' '.join(states)}",
            " ".join(outputs),
            hidden_size=2,
            direction="bidirectional",
        )
    ]
    made = model(nodes, inputs, [info(name, None) for name in outputs], constants)
    arrays: Arrays = {"x": rng.standard_normal((4, 3, 3)).astype(np.float32)}
    arrays["lengths"] = np.array([3, 0, 4], np.int32)
    arrays |= {state: rng.standard_normal((2, 3, 2)).astype(np.float32) for state in states}
    got = interpreted(made, arrays)
    assert_close(got, by_onnxruntime(made, arrays))
    assert not got["last_h"][:, 1].any() and got["last_h"][:, 0].all()
