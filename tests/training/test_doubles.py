"""Nets of float64 compiled for training: random ones against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import rnncc
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from tests.codegen.doubled import assert_near, in_doubles
from tests.codegen.guarded import guards
from tests.codegen.random_programs import PROGRAMS, examples
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.training.models import RECOMPUTE, SIZES, assert_same_bits, run_guarded, with_gradients


@examples(6)
@given(PROGRAMS, RECOMPUTE)
def test_gradients(program: Program, recompute: str) -> None:
    check(in_doubles(program), recompute)


@pytest.mark.slow
@examples(150)
@given(PROGRAMS, RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check(in_doubles(program), recompute)


def check(program: Program, recompute: str) -> None:
    wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
    both = with_gradients(program, wanted)
    models = [rnncc.compile(program, train=True, recompute=rule) for rule in ("none", recompute)]
    for sizes in SIZES:
        _, drawn = make_inputs(both, sizes, sizes["T"])
        want = run(both, drawn, sizes=sizes)
        results: list[tuple[Arrays, Arrays]] = []
        for model in models:
            inputs = {name: drawn[name] for name in model.inputs}
            outer = {name: drawn[f"grad:{name}"] for name in model._given}
            with guards(end=True) as memory:
                results.append(run_guarded(model, inputs, outer, sizes, memory))
        outputs, grads = results[0]
        assert all(array.dtype == np.float64 for array in grads.values())
        assert_near(outputs, {name: want[name] for name in outputs}, f"{sizes} ")
        assert_near(grads, {name: want[f"grad:{name}"] for name in grads}, f"{sizes} ")
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"{recompute} at {sizes}")
