"""Gradients of the golden nets: Caffe2's, whatever is recomputed, unmapped pages around memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.ir.interpreter import run
from tests.codegen.guarded import guards
from tests.golden import CASES, KINDS, Arrays, arrays_of, random_inputs, sizes_of
from tests.training.models import (
    RULES,
    assert_same_bits,
    check_close,
    draw,
    interpreted,
    run_guarded,
    trainable,
)

SIZES = [(0, 1, 3), (1, 1, 1), (3, 0, 2), (2, 33, 2), (9, 5, 4)]
"""T, N, S."""

every_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
each_kind = pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)


@every_case
def test_gradients_are_those_of_caffe2(case: Path) -> None:
    model = trainable(case)
    inputs, weights = golden_inputs(case)
    sizes = sizes_of(interpreted(case), inputs)
    for end in (False, True):
        with guards(end) as memory:
            outputs, grads = run_guarded(model, inputs, weights, sizes, memory)
        check_golden(case, outputs, grads)


@each_kind
def test_a_library_gives_the_same_bits(case: Path, tmp_path: Path) -> None:
    inputs, weights = golden_inputs(case)
    made = rnncc.build(
        case / "net.pb",
        case / "init.pb",
        out=tmp_path,
        name=case.name,
        train=True,
        outputs_with_grads=list(weights),
        products=("so",),
    )
    assert made.library is not None
    model = rnncc_runtime.load(made.library, train=True)
    results = []
    for each in (model, trainable(case)):
        outputs, tape = each.forward(inputs)
        assert tape.nbytes == each._functions["tape_bytes"](*tape._sizes.symbols)
        results.append((outputs, each.backward(tape, weights)))
    check_golden(case, *results[0])
    for one, other in zip(*results, strict=True):
        assert_same_bits(one, other, "")


@every_case
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_other_sizes(case: Path, size: tuple[int, int, int]) -> None:
    """Against the interpreter."""
    program = interpreted(case)
    sizes, drawn, weights = draw(case, size)
    want = run(program, drawn, np.float64, sizes)
    with guards(end=True) as memory:
        outputs, grads = run_guarded(trainable(case), drawn, weights, sizes, memory)
    check_close({n: want[n] for n in outputs}, outputs)
    check_close({n: want[f"grad:{n}"] for n in grads}, grads)


@every_case
def test_recomputing_changes_no_bit(case: Path) -> None:
    """All that can be computed again; and of each kind of net nothing as well."""
    rules = RULES if case in KINDS else ("all",)
    inputs, weights = golden_inputs(case)
    drawn = [(sizes_of(interpreted(case), inputs), inputs, weights)]
    for sizes, arrays, outer in [*drawn, *(draw(case, size) for size in SIZES)]:
        with guards(end=True) as memory:
            want = run_guarded(trainable(case), arrays, outer, sizes, memory)
        for rule in rules:
            with guards(end=False) as memory:
                got = run_guarded(trainable(case, rule), arrays, outer, sizes, memory)
            for one, other in zip(want, got, strict=True):
                assert_same_bits(one, other, f"{rule} at {sizes}")


@every_case
def test_an_absent_gradient_is_one_of_zeros(case: Path) -> None:
    model = trainable(case)
    inputs, weights = golden_inputs(case)
    sizes = sizes_of(interpreted(case), inputs)
    for name in [name for name, spec in model._output_grads.items() if spec.optional]:
        absent = {n: array for n, array in weights.items() if n != name}
        zeros = {**weights, name: np.zeros_like(weights[name])}
        with guards(end=False) as memory:
            results = [run_guarded(model, inputs, w, sizes, memory)[1] for w in (absent, zeros)]
        for grad, array in results[0].items():
            np.testing.assert_array_equal(array, results[1][grad], err_msg=f"{grad} no {name}")


def golden_inputs(case: Path) -> tuple[Arrays, Arrays]:
    """What Caffe2 was given: inputs, and the loss's gradients."""
    inputs = arrays_of(case, "in:")
    sizes = sizes_of(interpreted(case), inputs)
    drawn = random_inputs(interpreted(case), sizes)
    model = trainable(case)
    needed = {n: drawn[n] for n, s in model.inputs.items() if not s.optional}
    return {**needed, **inputs}, arrays_of(case, "weight:")


def check_golden(case: Path, outputs: Arrays, grads: Arrays) -> None:
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)
    for name, want in arrays_of(case, "grad:").items():
        np.testing.assert_allclose(grads[name], want, 1e-4, 2e-5, err_msg=name)
