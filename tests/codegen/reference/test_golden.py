"""The golden nets as C: Caffe2's results, the interpreter's, and the CPU's gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.codegen.reference.built import COMPILER, built, built_to_train
from tests.frontends.caffe2.control_nets import inputs_of, shapes_of, stage
from tests.golden import CASES, CONTROL, arrays_of, random_inputs, sizes_of
from tests.training.models import check_close

pytestmark = [
    pytest.mark.skipif(not CASES, reason="no golden data here"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler here"),
]
SIZES = [(0, 2, 3), (1, 1, 1), (9, 5, 4)]
"""T, N, S."""
QUICK = {
    *("lstm", "gru", "attention_recurrent", "lstm_bidirectional", "milstm_recompute"),
    *("if_nested_tf", "while_rnn_k3", "while_while", "while_norm"),
}
"""One net of each kind; the others are slow."""
LIMIT = 6
"""The loops of the golden nets take up to five iterations."""


def cases(paths: list[Path]) -> list[object]:
    return [
        pytest.param(path, id=path.name, marks=[] if path.name in QUICK else [pytest.mark.slow])
        for path in paths
    ]


@pytest.mark.parametrize("case", cases(CASES))
def test_results(case: Path, tmp_path: Path) -> None:
    model = built(case / "net.pb", tmp_path, case / "init.pb")
    program = import_net(case / "net.pb", case / "init.pb")
    given = arrays_of(case, "in:")
    inputs = {**random_inputs(program, sizes_of(program, given)), **given}
    got = model.run(inputs)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(got[name], want, 1e-5, 1e-5, err_msg=name)
    for size in SIZES:
        sizes: dict[str, int] = dict(zip("TNS", size, strict=True))
        inputs = random_inputs(program, sizes)
        want = run(program, inputs, sizes=sizes)
        got = model.run(inputs)
        for name in want:
            scale = max(1.0, float(np.abs(want[name]).max(initial=0.0)))
            message = f"{name} at {size}"
            np.testing.assert_allclose(got[name], want[name], 1e-5, 1e-5 * scale, err_msg=message)


@pytest.mark.parametrize("case", cases(CASES))
def test_gradients(case: Path, tmp_path: Path) -> None:
    weights = arrays_of(case, "weight:")
    options: Any = {"outputs_with_grads": list(weights)}
    model = built_to_train(case / "net.pb", tmp_path, case / "init.pb", **options)
    other = rnncc.compile(case / "net.pb", case / "init.pb", train=True, **options)
    program = import_net(case / "net.pb", case / "init.pb")
    given = arrays_of(case, "in:")
    inputs = {**random_inputs(program, sizes_of(program, given)), **given}
    want, got = (one.backward(one.forward(inputs)[1], weights) for one in (other, model))
    check_close(want, got)


@pytest.mark.parametrize("case", cases([c for c in CONTROL if not stage(c)]))
def test_control(case: Path, tmp_path: Path) -> None:
    inputs = inputs_of(case)
    options = {"shapes": shapes_of(inputs), "max_iterations": LIMIT}
    got = built(case / "net.pb", tmp_path, case / "init.pb", **options).run(inputs)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(got[name], want, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("case", cases([c for c in CONTROL if not stage(c)]))
def test_control_gradients(case: Path, tmp_path: Path) -> None:
    weights, inputs = arrays_of(case, "weight:"), inputs_of(case)
    options: dict[str, Any] = {"shapes": shapes_of(inputs), "max_iterations": LIMIT}
    options |= {"outputs_with_grads": list(weights)}
    if not weights:
        pytest.skip("nothing has a gradient")
    model = built_to_train(case / "net.pb", tmp_path, case / "init.pb", **options)
    other = rnncc.compile(case / "net.pb", case / "init.pb", train=True, **options)
    want, got = (one.backward(one.forward(inputs)[1], weights) for one in (other, model))
    check_close(want, got)
