"""Loops that skip steps keep states whose places alternate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program

Values = Sequence[SSAValue]
T = Dim.of("T")


def skipping(step: int) -> Program:
    """A loop without one of its steps; each reads the state again once the next one is known."""
    b = Builder.net("net")
    x, h = b.input("x", ["T", "N", 3]), b.input("h", ["N", 3])
    flags = b.compare("ne", b.iota([T], 0), b.fill(step, [T], "i32"))

    def inner(i: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.tanh(i.add(carry[0], rows[0]))], []

    def body(i: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = i.sigmoid(i.add(carry[0], rows[0]))
        [far], _ = i.scan([], [carry[0]], [ks[0]], inner)
        return [new, i.add(i.mul(carry[1], new), far)], []

    finals, _ = b.scan([x], [h, h], [x, flags], body, gate=4)
    return b.finish({"last": finals[0], "far": finals[1]})


@pytest.mark.parametrize("step", range(5))
def test_a_state_outlives_a_step_that_is_skipped(step: int) -> None:
    program = skipping(step)
    rng = np.random.default_rng(step)
    inputs = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (5, 2, 3)), ("h", (2, 3)))
    }
    want = run(program, inputs, np.float64)
    model, trained = rnncc.compile(program.copy()), rnncc.compile(program.copy(), train=True)
    for got in (model.run(inputs), trained.forward(inputs)[0]):
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, 1e-5, 1e-6, err_msg=name)
