"""What makes a loop light is its steps and how wide a state is, in whatever net it stands."""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.dependence import kinds_of
from rnncc.passes.layouts.turn_states import TurnStates
from rnncc.passes.loops.light_loops import is_light
from tests.passes.helpers import scans

Values = list[SSAValue]


@pytest.mark.parametrize(
    ("dims", "light"),
    [
        (("N", 64), True),
        (("N", 16, 4), True),
        (("N", "S"), True),
        (("N", "S", 4), True),
        (("N", 63), False),
        (("N",), False),
    ],
)
def test_states_that_fill_vectors(dims: tuple[int | str, ...], light: bool) -> None:
    """Units of which any number fits are taken for many; a first axis may be a batch of one."""
    b = Builder.net("average")
    h, x = b.input("h", dims), b.input("x", ("T", *dims))

    def step(i: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.add(i.sigmoid(carry[0]), rows[0])
        return [h], [h]

    _, ys = b.scan([], [h], [x], step)
    program = b.finish({"y": ys[0]})
    [scan] = scans(program)
    assert is_light(scan, kinds_of(scan)) == light


def test_a_state_that_is_flat_between_steps_is_turned() -> None:
    """As one that keeps its axes."""
    b = Builder.net("flat")
    h, x, c = b.input("h", ("N", 1024)), b.input("x", ("T", "N", 128)), b.input("c", ("T", "N", 8))
    dims = ("N", 128, 8)

    def step(i: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        x, c = i.broadcast(rows[0], dims, (0, 1)), i.broadcast(rows[1], dims, (0, 2))
        h = i.add(i.reshape(carry[0], dims), i.mul(x, c))
        return [i.reshape(h, ("N", 1024))], [i.reduce("sum", i.mul(h, c), [2])]

    finals, ys = b.scan([], [h], [x, c], step)
    program = b.finish({"y": ys[0], "last": finals[0]})
    Simplify().rewrite(program.net)
    assert TurnStates().rewrite(program.net)
    [scan] = scans(program)
    assert dims_of(scan.inits[0]) == dims_of(b.fill(0.0, ("N", 8, 128)))
