"""Golden nets through the whole of a GPU library, host functions and all: the CPU's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError
from rnncc_runtime.cuda import CudaModel

from tests.golden import CASES, KINDS
from tests.gpu.nets import check, inference, is_exact, training
from tests.runtime import on_gpu
from tests.runtime.on_gpu import cpu, here, inputs, there, without_complaint

FEW = [case for case in KINDS if case.name != "lstm_unrolled"]
"""Without a net of hundreds of phases, which take a minute here."""
SLOW = [case for case in CASES if case not in FEW]


@pytest.mark.parametrize(
    "case",
    [*FEW, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)],
    ids=lambda case: case.name,
)
def test_inference(case: Path) -> None:
    given, expected = inputs(case), cpu(case).run(inputs(case))
    model = on_gpu.model(case)
    with without_complaint():
        check(inference(case), here(model.run(given)), expected)
        check(inference(case), here(model.run(there(given))), expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_training(case: Path) -> None:
    given, near, far = inputs(case), on_gpu.trainable_cpu(case), on_gpu.trainable(case)
    outputs, tape = near.forward(given)
    names = [entry["name"] for entry in near.metadata["output_grads"]]
    outside = {name: np.ones_like(outputs[name]) for name in names}
    expected = near.backward(tape, outside)
    with without_complaint():
        found, left = far.forward(there(given))
        check(training(case), here(found), outputs)
        check(training(case), here(far.backward(left, there(outside))), expected)


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_codes_are_those_of_the_cpu(case: Path) -> None:
    """What is found on the device ends a call as on the CPU: lengths beyond T."""
    given = inputs(case)
    wrong = {n: np.full_like(a, 99) if a.dtype == np.int32 else a for n, a in given.items()}
    model = on_gpu.model(case)
    assert code(model, wrong) == code(cpu(case), wrong)
    with without_complaint():
        check(inference(case), here(model.run(given)), cpu(case).run(given))


def code(model: Any, arrays: Any) -> int:
    try:
        model.run(arrays)
    except RunError as error:
        return error.code
    return 0


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_streams(case: Path) -> None:
    model: CudaModel = on_gpu.model(case)
    if "refused" in model.metadata["stream"]:
        pytest.skip("takes whole sequences only")
    given = inputs(case)
    starts = {n: a for n, a in given.items() if n in model.metadata["stream"]["starts"]}
    timed = {n: a for n, a in given.items() if n not in starts}
    near, far = cpu(case).stream(inputs=starts), model.stream(inputs=starts)
    with without_complaint():
        for cut in (slice(0, 2), slice(2, 3), slice(3, None)):
            piece = {name: np.ascontiguousarray(array[cut]) for name, array in timed.items()}
            check(inference(case), here(far.step(piece)), near.step(piece))
        assert far.state == near.state or not is_exact(inference(case))
