"""Loops at the speed of memory: random ones against the interpreter, and what they keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from rnncc.driver.compiling import build_library
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.options import Options
from tests.codegen.random_programs import examples, single
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.training.light_programs import STATES, UNITS, Values, light_programs
from tests.training.models import RECOMPUTE, check_close, with_gradients
from tests.training.random_nets import check_trained

SIZES = [{"T": 0, "N": 2}, {"T": 1, "N": 1}, {"T": 37, "N": 2}]
"""The last one has two runs between checkpoints."""


def near(got: Arrays, want: Arrays, told: str) -> None:
    check_close(want, got, told)


@examples(8)
@given(light_programs(), RECOMPUTE)
def test_against_the_interpreter(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single, SIZES)


@pytest.mark.slow
@examples(500)
@given(light_programs(), RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single, SIZES)


@examples(10)
@given(light_programs())
def test_finite_differences(program: Program) -> None:
    """The gradients along one direction, of what the interpreter computes in float64."""
    sizes = {"T": 5, "N": 2}
    wanted = list(program.net.outputs)
    _, inputs = make_inputs(with_gradients(program, wanted), sizes, 5)
    grads = run(with_gradients(program, wanted), inputs, np.float64, sizes)
    rng = np.random.default_rng(1)
    own = {n: a for n, a in inputs.items() if not n.startswith("grad:")}
    direction = {n: rng.standard_normal(a.shape) for n, a in own.items()}
    slope = sum(float((grads[f"grad:{n}"] * d).sum()) for n, d in direction.items())

    def loss(step: float) -> float:
        moved = {n: a + step * direction[n] for n, a in own.items()}
        outputs = run(program, moved, np.float64, sizes)
        return sum(float((inputs[f"grad:{n}"] * y).sum()) for n, y in outputs.items())

    step = 1e-6
    measured = (loss(step) - loss(-step)) / (2 * step)
    assert abs(measured - slope) <= 1e-5 * max(1.0, abs(slope))


def selective_scan(states: int) -> Program:
    """h = exp(-q · x) · h + z · c over [N, UNITS, states]; y = Σ h · c."""
    b = Builder.net("selective")
    dims = ["N", UNITS, states]
    rows = [b.input(name, ["T", "N", UNITS]) for name in ("x", "z")]
    rows.append(b.input("c", ["T", "N", states]))

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        x, z = (i.broadcast(row, dims, [0, 1]) for row in rows[:2])
        c = i.broadcast(rows[2], dims, [0, 2])
        a = i.exp(i.neg(i.mul(i.broadcast(consts[0], dims, [1, 2]), i.relu(x))))
        h = i.add(i.mul(a, carry[0]), i.mul(z, c))
        return [h], [i.reduce("sum", i.mul(h, c), [2])]

    start = b.input("h", dims)
    return b.finish({"y": b.scan([b.param("q", [UNITS, states])], [start], rows, step)[1][0]})


@pytest.mark.parametrize(("states", "rows"), [(1, 1000), (STATES, 1000), (16, 32)])
def test_nothing_wide_is_as_long_as_the_sequence(states: int, rows: int) -> None:
    """Workspaces do not grow with T; the tape has the states, of every 32nd step where they are
    far wider than rows."""
    library = build_library(selective_scan(states), None, Options(train=True))
    for program in library.programs.values():
        sizes = [program.workspace.evaluate({"T": T, "N": 2}) for T in (1000, 2000)]
        assert sizes[0] == sizes[1]
    assert library.training is not None
    tape = library.training.tape.evaluate({"T": 1000, "N": 2})
    assert tape <= 4 * rows * 2 * UNITS * states + 256
