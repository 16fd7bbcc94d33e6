"""Forward mode against differences of the interpreter, in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from xdsl.ir import Block

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.gradients.tangents import tangents
from tests.passes.differentiable_ops import OPS, Value, net_of
from tests.passes.gradients import STEP, float_outputs
from tests.passes.helpers import quick
from tests.strategies import SIZES, make_inputs, programs


def check_tangents(program: Program, sizes: Mapping[str, int], rtol: float = 1e-6) -> None:
    """How each output moves along a random direction of all inputs."""
    of = [name for name, value in program.net.inputs.items() if dtype_of(value) in FLOATS]
    both = tangents(program, of, "t:")
    both.module.verify()
    _, drawn = make_inputs(both, dict(sizes))
    made = run(both, drawn, np.float64, sizes)
    own = {name: array for name, array in drawn.items() if not name.startswith("t:")}
    ends = [
        run(program, own | {n: own[n] + by * drawn[f"t:{n}"] for n in of}, np.float64, sizes)
        for by in (STEP, -STEP)
    ]
    for name in float_outputs(program):
        slope = (ends[0][name] - ends[1][name]) / (2 * STEP)
        scale = 1 + max(np.abs(made[name]).max(initial=0), np.abs(slope).max(initial=0))
        np.testing.assert_allclose(made[f"t:{name}"], slope, rtol, rtol * scale, err_msg=name)


@pytest.mark.parametrize("name", sorted(OPS.keys() - {"stop_gradient"}))
def test_op(name: str) -> None:
    check_tangents(net_of(*OPS[name]), SIZES)


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    for steps in (4, 0):
        check_tangents(program, {**SIZES, "T": steps}, rtol=1e-5)


def test_nothing_passes_a_stop() -> None:
    both = tangents(net_of(lambda b, x: b.mul(x, b.stop_gradient(x)), [[2]]), ["x0"], "t:")
    made = run(both, {"x0": np.array([3.0, 4.0]), "t:x0": np.array([1.0, 10.0])})
    np.testing.assert_array_equal(made["t:y"], [3.0, 40.0])


def with_gradient(b: Builder, x: Value, linear: bool) -> Value:
    inner = Builder(Block(arg_types=[x.type] * 2))
    dy, read = inner.block.args
    grad = inner.mul(dy, read if linear else dy)
    return b.with_gradient(b.exp(x), [x], [x], inner, [grad])


def test_a_users_gradient_is_transposed() -> None:
    both = tangents(net_of(lambda b, x: with_gradient(b, x, True), [[2]]), ["x0"], "t:")
    made = run(both, {"x0": np.array([3.0, 4.0]), "t:x0": np.array([1.0, 10.0])})
    np.testing.assert_array_equal(made["t:y"], [3.0, 40.0])


def test_a_users_gradient_that_is_not_linear_is_refused() -> None:
    with pytest.raises(CompileError, match="is not linear in the gradient"):
        tangents(net_of(lambda b, x: with_gradient(b, x, False), [[2]]), ["x0"], "t:")
