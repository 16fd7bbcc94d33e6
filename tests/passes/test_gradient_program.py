"""Second derivatives: the gradients of gradients, against differences of the first."""

from __future__ import annotations

import pytest
from hypothesis import given

from rnncc.ir.program import Program
from rnncc.passes.gradient_program import gradient_program
from tests.passes.differentiable_ops import OPS, net_of
from tests.passes.gradients import check_gradients, float_outputs, float_sources
from tests.passes.helpers import quick
from tests.strategies import SIZES, programs


def gradients_of(program: Program) -> Program:
    return gradient_program(program, float_outputs(program), float_sources(program), "d:")


@pytest.mark.parametrize("name", sorted(OPS.keys() - {"stop_gradient"}))
def test_op(name: str) -> None:
    make, shapes = OPS[name]
    square = net_of(lambda b, *xs: (y := make(b, *xs), b.mul(y, y))[1], shapes)
    check_gradients(gradients_of(square), SIZES, rtol=1e-6)


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    for steps in (4, 0):
        check_gradients(gradients_of(program), {**SIZES, "T": steps}, rtol=1e-5)
