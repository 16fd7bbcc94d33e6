"""States whose longest axis becomes the innermost one, beside what the pass's docstring shows."""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.layouts.turn_states import TurnStates
from tests.passes.helpers import applied, loops_of
from tests.strategies import assert_same_meaning

Values = list[SSAValue]
UNITS, STATES = 64, 2


def filtered(dims: list[int]) -> Program:
    """h = a · h + x, y = Σ a · h, with an `a` of the state's shape."""
    b = Builder.net("filter")
    x = b.input("x", ["T", *dims[:-1]])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        x = i.broadcast(rows[0], dims, list(range(len(dims) - 1)))
        h = i.add(i.mul(consts[0], carry[0]), x)
        return [h], [i.reduce("sum", i.mul(consts[0], h), [len(dims) - 1])]

    (last,), (y,) = b.scan([b.param("a", dims)], [b.input("h", dims)], [x], step)
    return b.finish({"y": y, "last": last})


@pytest.mark.parametrize("dims", [[UNITS, STATES], [1, UNITS, STATES]], ids=str)
def test_constants_and_states_of_single_sequences(dims: list[int]) -> None:
    """`Simplify` carries a state of one sequence without that axis, steps compute with it."""
    program = filtered(dims)
    assert_same_meaning(program, applied(Simplify(), TurnStates()), rtol=1e-9)
    [scan] = loops_of(program)
    assert dims_of(scan.inits[0])[-2:] == (Dim.of(STATES), Dim.of(UNITS))
