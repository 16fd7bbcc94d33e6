"""Random programs compiled for training against the interpreter; recomputing changes no bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from rnncc_runtime import TrainableModel

import rnncc
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from tests.codegen.guarded import guards
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.training.models import (
    RECOMPUTE,
    SIZES,
    assert_same_bits,
    check_close,
    run_guarded,
    with_gradients,
)


@examples(12)
@given(PROGRAMS, RECOMPUTE)
def test_gradients(program: Program, recompute: str) -> None:
    check(program, recompute)


@pytest.mark.slow
@examples(1000)
@given(PROGRAMS, RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check(program, recompute)


def check(program: Program, recompute: str) -> None:
    wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
    both = with_gradients(program, wanted)
    models = [rnncc.compile(program, train=True, recompute=rule) for rule in ("none", recompute)]
    for sizes in SIZES:
        _, inputs = make_inputs(both, sizes, sizes["T"])
        want = run(both, inputs, np.float64, sizes)
        results = [trained(model, inputs, sizes) for model in models]
        outputs, grads = results[0]
        check_close({name: want[name] for name in outputs}, outputs, f"{sizes}")
        check_close({name: want[f"grad:{name}"] for name in grads}, grads, f"{sizes}")
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"{recompute} at {sizes}")


def trained(model: TrainableModel, drawn: Arrays, sizes: dict[str, int]) -> tuple[Arrays, Arrays]:
    """Outputs and gradients; each gradient alone has the bits that it has among all."""
    inputs = {name: single(drawn[name]) for name in model.inputs}
    outer = {name: single(drawn[f"grad:{name}"]) for name in model._given}
    with guards(end=True) as memory:
        outputs, grads = run_guarded(model, inputs, outer, sizes, memory)
    with guards(end=False) as memory:
        for name, array in grads.items():
            absent = grads.keys() - {name}
            _, alone = run_guarded(model, inputs, outer, sizes, memory, absent)
            assert_same_bits(alone, {name: array}, f"alone at {sizes}")
    return outputs, grads
