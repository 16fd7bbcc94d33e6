"""The golden cases of Deeplearning4j's LSTMs, forwards and backwards, in NumPy and machine code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.gradients.differentiate import differentiate
from tests.cells.dl4j import CASES, arrays_of, layer_of, sizes_of
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.golden import GOLDEN, Arrays
from tests.passes.gradients import sunk

pytestmark = pytest.mark.shared
RULES = ["auto", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("none", "all"))]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)


def assert_close(got: Arrays, want: Arrays, prefix: str = "") -> None:
    assert want
    for name, array in want.items():
        np.testing.assert_allclose(got[prefix + name], array, 1e-4, 2e-5, err_msg=name)


def with_gradients(case: Path) -> tuple[Program, Arrays]:
    """A case's net and gradients, and the inputs of both."""
    weights = arrays_of(case, "weight:")
    both = differentiate(layer_of(case), list(weights), list(arrays_of(case, "grad:")))
    return both, {**arrays_of(case, "in:"), **{f"grad:{n}": a for n, a in weights.items()}}


@every_case
def test_interpreter(case: Path) -> None:
    both, inputs = with_gradients(case)
    got = run(both, inputs, np.float64)
    assert_close(got, arrays_of(case, "out:"))
    assert_close(got, arrays_of(case, "grad:"), "grad:")


@every_case
def test_machine_code(case: Path) -> None:
    both, inputs = with_gradients(case)
    sunk(both)
    bare = Bare(as_it_is(both), resolve_target())
    for end in (False, True):
        with guards(end) as memory:
            got = bare.run(inputs, sizes_of(case), memory)
        assert_close(got, arrays_of(case, "out:"))
        assert_close(got, arrays_of(case, "grad:"), "grad:")


@every_case
def test_in_memory(case: Path) -> None:
    model = rnncc.compile(layer_of(case), verify_each=True)
    assert_close(model.run(arrays_of(case, "in:")), arrays_of(case, "out:"))


@pytest.mark.parametrize("name", ["graves_bidirectional_masked", "plain_tbptt_state"])
def test_built_library(name: str, tmp_path: Path) -> None:
    case = GOLDEN / "dl4j" / f"{name}.npz"
    files = rnncc.build(layer_of(case), out=tmp_path)
    assert files.library is not None
    model = rnncc_runtime.load(files.library)
    assert_close(model.run(arrays_of(case, "in:")), arrays_of(case, "out:"))


@every_case
@pytest.mark.parametrize("recompute", RULES)
def test_training(case: Path, recompute: str) -> None:
    model: Any = rnncc.compile(layer_of(case), train=True, recompute=recompute)
    outputs, tape = model.forward(arrays_of(case, "in:"))
    grads = model.backward(tape, arrays_of(case, "weight:"))
    assert_close(outputs, arrays_of(case, "out:"))
    assert_close(grads, arrays_of(case, "grad:"))
