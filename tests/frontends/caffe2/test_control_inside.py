"""Control flow in the steps of recurrent nets, and around them, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.control_nets import (
    BOOL,
    INT32,
    body,
    branch,
    constant,
    do,
    loop,
    scope,
)
from tests.frontends.caffe2.nets import net, op, recurrent
from tests.golden import Arrays

T, N, H = 5, 2, 3


def arrays() -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((T, N, H)),
        "h0": rng.standard_normal((1, N, H)),
        "w": rng.standard_normal((1, N, H)),
    }


def over(*steps: OperatorDef, inputs: str = "x h0", **args: Any) -> NetDef:
    """A recurrent net of these steps, which write h from x_t, h_prev and timestep."""
    step = net(steps, f"x_t timestep h_prev {inputs}", "h", "step")
    made = recurrent(step, inputs, timestep="timestep", **args)
    return net([made], inputs, "h_all h_last")


def check(made: NetDef, inputs: Arrays, want: list[np.ndarray]) -> None:
    shapes = {name: array.shape for name, array in inputs.items()}
    program = import_net(made, shapes=shapes, max_iterations=8)
    program.module.verify()
    got = run(program, inputs, np.float64)
    np.testing.assert_allclose(got["h_all"], np.concatenate(want), 1e-12)
    np.testing.assert_allclose(got["h_last"], want[-1], 1e-12)


def test_a_step_that_chooses_by_its_number() -> None:
    """h = tanh(h' + x) before step 2, then h' * x."""
    steps = [
        constant("two", 2, INT32),
        op("LT", "timestep two", "early"),
        branch(
            "early h_prev x_t",
            "h",
            body(op("Sum", "h_prev x_t", "s"), op("Tanh", "s", "h")),
            body(op("Mul", "h_prev x_t", "h")),
        ),
    ]
    inputs = arrays()
    inputs.pop("w")
    h, want = inputs["h0"], list[np.ndarray]()
    for t, x in enumerate(inputs["x"]):
        h = np.tanh(h + x) if t < 2 else h * x
        want.append(h)
    check(over(*steps), inputs, want)


def test_a_step_that_keeps_its_state() -> None:
    """Where the row of x is small the state stays as it was: a Do reads it under another name."""
    kept = do(body(op("Mul", "a b", "a")), {"a": "h", "b": "x_t"}, "h x_t", "h")
    steps = [
        op("SumSqrElements", "x_t", "size"),
        op("ConstantFill", "", "three", shape=[], value=3.0),
        op("GT", "size three", "large"),
        op("Copy", "h_prev", "h"),
        scope(),
        branch("large h x_t s", "h s", body(kept)),
    ]
    inputs = arrays()
    inputs.pop("w")
    h, want, taken = inputs["h0"], list[np.ndarray](), set[bool]()
    for x in inputs["x"]:
        taken.add(bool((x**2).sum() > 3))
        h = h * x if (x**2).sum() > 3 else h
        want.append(h)
    assert taken == {True, False}
    check(over(*steps), inputs, want)


def test_a_loop_in_a_step() -> None:
    """Step t takes t iterations of h = tanh(h w + x)."""
    iteration = body(op("Mul", "h w", "p"), op("Add", "p x_t", "q"), op("Tanh", "q", "h"))
    condition = body(op("LT", "i timestep", "go"), op("Add", "i one", "i"))
    steps = [
        op("Copy", "h_prev", "h"),
        constant("i", 0, INT32),
        constant("one", 1, INT32),
        constant("go", 0, BOOL),
        loop("go h w x_t i one timestep", "h i go", iteration, condition),
    ]
    inputs = arrays()
    h, want = inputs["h0"], list[np.ndarray]()
    for t, x in enumerate(inputs["x"]):
        for _ in range(t):
            h = np.tanh(h * inputs["w"] + x)
        want.append(h)
    check(over(*steps, inputs="x h0 w"), inputs, want)


def test_steps_do_not_write_what_belongs_to_the_net_around_them() -> None:
    written = do(body(op("Tanh", "a", "b")), {"a": "x_t", "b": "w"}, "x_t", "w")
    steps = [
        op("Copy", "h_prev", "h"),
        op("ConstantFill", "", "c", shape=[1], value=1, dtype=BOOL),
        scope(),
        branch("c x_t s", "s", body(written)),
    ]
    with pytest.raises(CompileError, match='writes "w", which belongs to the net around it'):
        import_net(over(*steps, inputs="x h0 w"), shapes={"x": "T,N,3"})


def test_steps_do_not_write_into_sequences() -> None:
    """A Do writes to x_t under another name, although it does not list it as an output."""
    hidden = do(body(op("Tanh", "a", "a")), {"a": "x_t"}, "x_t", "")
    with pytest.raises(CompileError, match='the step net writes "x_t", a part of an input'):
        import_net(over(scope(), hidden, op("Sum", "h_prev x_t", "h")), shapes={"x": "T,N,3"})


def sum_step() -> NetDef:
    return net([op("Sum", "h_prev x_t", "s"), op("Tanh", "s", "h")], "x_t timestep h_prev", "h")


def history(inputs: Arrays, h: np.ndarray) -> np.ndarray:
    rows = list[np.ndarray]()
    for x in inputs["x"]:
        h = np.tanh(h + x)
        rows.append(h)
    return np.concatenate(rows)


@pytest.mark.parametrize("taken", [True, False])
def test_a_recurrent_net_in_a_branch(taken: bool) -> None:
    then = body(recurrent(sum_step()), op("Copy", "h_all", "y"))
    made = net([branch("c x h0", "y", then, body(op("Tanh", "x", "y")))], "c x h0", "y")
    inputs = {**arrays(), "c": np.array([taken])}
    program = import_net(made, shapes={"x": "T,N,3"})
    got = run(program, inputs, np.float64)["y"]
    want = history(inputs, inputs["h0"]) if taken else np.tanh(inputs["x"])
    np.testing.assert_allclose(got, want, 1e-12)


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_a_recurrent_net_in_a_loop(iterations: int) -> None:
    """Each iteration runs over the sequence again, from where the last one ended."""
    iteration = body(recurrent(sum_step(), inputs="x y"), op("Copy", "h_last", "y"))
    condition = body(op("LT", "i k", "go"), op("Add", "i one", "i"))
    starts = [
        constant("i", 0),
        constant("one", 1),
        constant("k", iterations),
        constant("go", 0, BOOL),
    ]
    while_ = loop("go x y i one k", "y i go", iteration, condition)
    made = net([op("Copy", "h0", "y"), *starts, while_], "x h0", "y")
    inputs = arrays()
    got = run(import_net(made, shapes={"x": "T,N,3", "h0": "1,N,3"}), inputs, np.float64)["y"]
    want = inputs["h0"]
    for _ in range(iterations):
        want = history(inputs, want)[-1:]
    np.testing.assert_allclose(got, want, 1e-12)
