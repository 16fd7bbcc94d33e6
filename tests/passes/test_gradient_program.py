"""Second derivatives: the gradients of gradients, against differences of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.gradient_program import gradient_program
from tests.passes.differentiable_ops import OPS, Value, net_of
from tests.passes.gradients import check_gradients, float_outputs, float_sources, gradients
from tests.passes.helpers import quick
from tests.strategies import SIZES, make_inputs, programs


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
    check_gradients(gradients_of(program), SIZES, rtol=1e-5)


def skipping() -> Program:
    """A loop whose steps with a number below 2 do not run."""
    b = Builder.net("skipping")
    x, n, h = b.input("x", ["T", 3]), b.input("n", ["T"], "i32"), b.input("h", [3])

    def body(b: Builder, _: Any, carry: list[Value], rows: list[Value]) -> Any:
        return [b.tanh(b.add(carry[0], b.mul(rows[0], carry[0])))], []

    flags = b.compare("ge", n, b.fill(2, ["T"], "i32"))
    [last], _ = b.scan([], [h], [x, flags], body, gate=2)
    return b.finish({"last": last})


def test_steps_that_do_not_run_have_no_gradient() -> None:
    inputs = {"x": np.ones((4, 3)), "n": np.array([2, 0, 3, 1]), "h": np.full(3, 0.1)}
    both = differentiate(skipping(), ["last"], ["x"])
    grad = run(both, {**inputs, "grad:last": np.ones(3)}, np.float64)["grad:x"]
    np.testing.assert_array_equal(grad[[1, 3]], 0)
    assert (grad[[0, 2]] > 0).all()


def test_loops_that_skip_steps() -> None:
    check_gradients(skipping(), {"T": 6})
    again = gradients_of(skipping())
    check_gradients(again, {"T": 6})
    _, drawn = make_inputs(gradients(again), {"T": 6})
    want = run(gradients(again), drawn, np.float64)
    narrow = {n: np.asarray(x, x.dtype if n == "n" else np.float32) for n, x in drawn.items()}
    own = {name: x for name, x in narrow.items() if not name.startswith("grad:")}
    model = rnncc.compile(again, train=True)
    _, tape = model.forward(own)
    given = {name[5:]: x for name, x in narrow.items() if name.startswith("grad:")}
    for name, grad in model.backward(tape, given).items():
        np.testing.assert_allclose(grad, want[f"grad:{name}"], 1e-5, 1e-6)


def test_stops_stay() -> None:
    """Of x · stop(x) the second derivative is 0, as it is where autograd has a detached x."""
    net = net_of(lambda b, x: b.mul(x, b.stop_gradient(x)), [[2]])
    both = differentiate(gradients_of(net), ["d:x0"], ["x0"])
    ones = np.ones(2)
    made = run(both, {"x0": 3 * ones, "d:y": ones, "grad:d:x0": ones})
    np.testing.assert_array_equal(made["d:x0"], 3 * ones)
    np.testing.assert_array_equal(made["grad:x0"], 0 * ones)
