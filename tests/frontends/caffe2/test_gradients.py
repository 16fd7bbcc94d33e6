"""Gradient operators against finite differences of their forward operators, and nets of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import OPERATORS, import_net
from rnncc.ir.interpreter import run
from rnncc.ir.types import dims_of
from rnncc.netdef import NetDef
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.real import OPERATORS as REAL
from tests.frontends.caffe2.training_nets import (
    both,
    forward,
    gradient,
    training_net,
    with_arg,
    without,
)

RANDOM = np.random.default_rng(5)
Array = np.ndarray[Any, Any]
SHAPE = {"x": "T,N,4"}


def real(*shape: int) -> Array:
    return RANDOM.uniform(-1, 1, shape)


X, ROW, COLUMN = real(2, 3, 4), real(4), real(3)
STEP = [np.array([1, 2, 4], np.int32), np.array([1], np.int32)]
NORM = {"axis": -1, "epsilon": 1e-4, "elementwise_affine": 1}

CASES = [
    ("SumElements", "x0", "y0", "x0 dy0", "dx0", [X], {}),
    ("SumElements", "x0", "y0", "x0 dy0", "dx0", [X], {"average": 1}),
    ("FC", "x0 x1 x2", "y0", "x0 x1 dy0", "dx1 dx2 dx0", [X, real(5, 4), real(5)], {"axis": 2}),
    ("FC", "x0 x1 x2", "y0", "x0 x1 dy0", "dx1 dx2", [X, real(5, 12), real(5)], {}),
    ("FCTransposed", "x0 x1 x2", "y0", "x0 x1 dy0", "dx1 dx2 dx0", [X, real(12, 5), real(5)], {}),
    ("Add", "x0 x1", "y0", "dy0 x0 x1", "dx0 dx1", [X, ROW], {"broadcast": 1}),
    ("Sub", "x0 x1", "y0", "dy0 x0 x1", "dx0 dx1", [X, real(3, 1)], {}),
    ("Mul", "x0 x1", "y0", "dy0 x0 x1", "dx0 dx1", [X, COLUMN], {"broadcast": 1, "axis": 1}),
    ("Mul", "x0 x0", "y0", "dy0 x0 x0", "dx0 dx0_", [X], {}),
    (
        *("ElementwiseLinear", "x0 x1 x2", "y0", "dy0 x0 x1", "dx0 dx1 dx2"),
        *([X, ROW, real(4)], {"axis": 2}),
    ),
    ("LayerNorm", "x0", "y0 y1 y2", "dy0 y0 y1 y2 x0", "dx0", [X], {"axis": 2}),
    (
        *("LayerNorm", "x0 x1 x2", "y0 y1 y2", "dy0 y0 y1 y2 x0 x1", "dx0 dx1 dx2"),
        *([X, ROW, real(4)], NORM),
    ),
    (
        *("LSTMUnit", "x0 x1 x2 x3 x4", "y0 y1", "x0 x1 x2 x3 x4 y0 y1 dy0 dy1", "dx0 dx1 dx2"),
        *([real(1, 3, 4), real(1, 3, 4), real(1, 3, 16), *STEP], {"forget_bias": 0.5}),
    ),
    (
        *("LSTMUnit", "x0 x1 x2 x3 x4", "y0 y1", "x0 x1 x2 x3 x4 y0 y1 dy0 dy1", "dx0 dx1 dx2"),
        *([real(1, 3, 4), real(1, 3, 4), real(1, 3, 16), *STEP], {"drop_states": 1}),
    ),
    (
        *("GRUUnit", "x0 x1 x2 x3", "y0", "x0 x1 x2 x3 y0 dy0", "dx0 dx1"),
        *([real(1, 3, 4), real(1, 3, 12), *STEP], {}),
    ),
    ("Sigmoid", "x0", "y0", "y0 dy0", "dx0", [X], {}),
    ("Tanh", "x0", "y0", "y0 dy0", "dx0", [X], {}),
    ("Relu", "x0", "y0", "y0 dy0", "dx0", [X], {}),
    ("Softmax", "x0", "y0", "y0 dy0", "dx0", [X], {"axis": 2}),
    ("Softmax", "x0", "y0", "y0 dy0", "dx0", [X], {}),
]


def with_gradient(
    kind: str, names: tuple[str, str, str, str], args: dict[str, Any], count: int
) -> NetDef:
    """An operator and its gradient; the outputs' gradients are inputs."""
    reads, writes, *of_gradient = names
    told = [name for name in of_gradient[0].split() if name.startswith("d")]
    inputs = " ".join([*(f"x{i}" for i in range(count)), *told])
    ops = [op(kind, reads, writes, **args), op(f"{kind}Gradient", *of_gradient, **args)]
    return net(ops, inputs, f"{writes.split()[0]} {of_gradient[1]}")


def of_case(case: tuple[Any, ...]) -> tuple[NetDef, dict[str, Array], list[str]]:
    """The net, its inputs and the outputs that have a gradient from outside."""
    kind, reads, writes, read, written, arrays, args = case
    made = with_gradient(kind, (reads, writes, read, written), args, len(arrays))
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    told = [name for name in read.split() if name.startswith("dy")]
    made.external_output.extend(t[1:] for t in told if t[1:] not in made.external_output)
    return made, inputs, [name[1:] for name in told]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[4]}")
def test_gradient_is_the_limit_of_differences(case: tuple[Any, ...]) -> None:
    made, inputs, outputs = of_case(case)
    program = import_net(made, shapes={name: array.shape for name, array in inputs.items()})
    program.module.verify()
    types = {name: program.net.outputs[name] for name in outputs}
    outside = {f"d{name}": real(*map(int, dims_of(v))) for name, v in types.items()}

    def loss(name: str, at: tuple[int, ...], by: float) -> float:
        moved = {n: a.copy() for n, a in inputs.items()}
        moved[name][at] += by
        got = run(program, {**moved, **outside}, np.float64)
        return float(sum((got[n] * outside[f"d{n}"]).sum() for n in outputs))

    got = run(program, {**inputs, **outside}, np.float64)
    for name in case[4].split():
        if name.endswith("_"):
            continue
        blob = name[1:]
        total = got[name] + sum(g for n, g in got.items() if n == f"{name}_")
        for at in list(np.ndindex(inputs[blob].shape))[::3]:
            slope = (loss(blob, at, 1e-6) - loss(blob, at, -1e-6)) / 2e-6
            np.testing.assert_allclose(total[at], slope, 1e-5, 1e-7, err_msg=name)


def test_every_gradient_operator_is_tested() -> None:
    tested = {f"{case[0]}Gradient" for case in CASES} | {"RecurrentNetworkGradient"}
    tested |= {"ZeroGradient", "StopGradient"}  # forward operators
    tested |= {"LengthsTopKGradient", "HSoftmaxGradient"}  # test_lengths.py, test_hierarchies.py
    for case in REAL.values():
        if "train" in case:
            tested |= {o.type for o in NetDef.FromString(case["train"].tobytes()).op}
    tested |= {f"{kind}Pool{rank}DGradient" for kind in ("Average", "Max") for rank in (2, 3)}
    assert {kind for kind in OPERATORS if kind.endswith("Gradient")} <= tested


@pytest.mark.parametrize("kind", ["Sigmoid", "Tanh", "Relu", "Softmax"])
def test_gradient_by_the_output_needs_no_forward_operator(kind: str) -> None:
    """What stands on its own: Y comes from anywhere."""
    args = {"axis": 2} if kind == "Softmax" else {}
    here = [op(kind, "x", "y", **args), op(f"{kind}Gradient", "y dy", "dx", **args)]
    there = [op("Copy", "y", "z"), op(f"{kind}Gradient", "z dy", "dx", **args)]
    shapes = {"x": X.shape, "dy": X.shape}
    whole = import_net(net(here, "x dy", "y dx"), shapes=shapes)
    alone = import_net(net(there, "y dy", "dx"), shapes={"y": X.shape, "dy": X.shape})
    want = run(whole, {"x": X, "dy": 2 * X}, np.float64)
    got = run(alone, {"y": want["y"], "dy": 2 * X}, np.float64)
    np.testing.assert_allclose(got["dx"], want["dx"], 1e-12, 1e-15)


def test_gradients_of_inputs_are_outputs_unless_some_are_listed() -> None:
    program = import_net(training_net(), shapes=SHAPE)
    assert list(program.net.outputs) == ["h_all", "x_grad", "h0_grad", "w_grad", "b_grad"]
    program = import_net(training_net(outputs="h_all w_grad"), shapes=SHAPE)
    assert list(program.net.outputs) == ["h_all", "w_grad"]
    made = training_net(forward())
    made.external_input.remove("dh")
    assert list(import_net(made, shapes=SHAPE).net.outputs) == ["h_all"]


def small_inputs(steps: int, rank: int = 3) -> dict[str, Array]:
    return {
        "x": real(steps, 2, 4),
        "h0": real(1, 2, 4)[(0,) * (3 - rank)],
        "w": real(4, 4),
        "b": real(4),
        "dh": real(steps, 2, 4),
    }


def by_hand(inputs: dict[str, Array]) -> dict[str, Array]:
    """Backpropagation through time of h = tanh(W h' + b + x)."""
    x, w, b, dh = (inputs[name] for name in ("x", "w", "b", "dh"))
    hs = [np.broadcast_to(inputs["h0"], x.shape[1:]) if inputs["h0"].ndim < 3 else inputs["h0"][0]]
    for row in x:
        hs.append(np.tanh(hs[-1] @ w.T + b + row))
    carry, dx, dw = np.zeros_like(hs[0]), np.zeros_like(x), np.zeros_like(w)
    for t in reversed(range(len(x))):
        dx[t] = (carry + dh[t]) * (1 - hs[t + 1] ** 2)
        dw += dx[t].T @ hs[t]
        carry = dx[t] @ w
    dh0 = carry.sum(0) if inputs["h0"].ndim == 1 else carry.reshape(inputs["h0"].shape)
    return {"x_grad": dx, "w_grad": dw, "b_grad": dx.sum((0, 1)), "h0_grad": dh0}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_recurrent_gradient(steps: int, rank: int) -> None:
    inputs = small_inputs(steps, rank)
    shape = ("1", "N", "4")[3 - rank :]
    program = import_net(training_net(), shapes={**SHAPE, "h0": shape})
    got = run(program, inputs, np.float64)
    for name, want in by_hand(inputs).items():
        np.testing.assert_allclose(got[name], want, 1e-9, 1e-12, err_msg=name)


def test_one_blob_as_data_and_initial_state_has_two_gradients() -> None:
    """The blob stands twice among the inputs: its uses are told apart."""
    inputs = small_inputs(1)
    made = both("dh x x w b h_all h_last ws", "x_grad w_grad b_grad _x_grad_autosplit_0")
    made.op[0].input[:] = ["x", "x", "w", "b"]
    made.op.append(op("Sum", "x_grad _x_grad_autosplit_0", "x_grad"))
    made.external_input[:] = ["x", "w", "b", "dh"]
    program = import_net(made, shapes={"x": "1,N,4"})
    inputs["h0"] = inputs["x"]
    want = by_hand(inputs)
    got = run(program, {name: inputs[name] for name in program.net.inputs}, np.float64)
    np.testing.assert_allclose(got["x_grad"], want["x_grad"] + want["h0_grad"], 1e-9)
    np.testing.assert_allclose(got["w_grad"], want["w_grad"], 1e-9)


def test_one_operator_may_have_two_gradients() -> None:
    """Two losses, each with gradient operators of its own."""
    again = gradient("dh2 x h0 w b h_all h_last ws", "x2 w2 b2 h2")
    made = training_net(forward(), gradient(), again, outputs="h_all w_grad w2")
    made.external_input.append("dh2")
    inputs = {**small_inputs(3), "dh2": real(3, 2, 4)}
    got = run(import_net(made, shapes=SHAPE), inputs, np.float64)
    np.testing.assert_allclose(got["w_grad"], by_hand(inputs)["w_grad"], 1e-9)
    np.testing.assert_allclose(got["w2"], by_hand({**inputs, "dh": inputs["dh2"]})["w_grad"], 1e-9)


def test_arguments_that_only_say_how_to_run_may_differ() -> None:
    tuned = with_arg(gradient(), "rnn_executor.num_threads", 2)
    inputs = small_inputs(2)
    made = training_net(without(forward(), "backward_step_net"), tuned)
    got = run(import_net(made, shapes=SHAPE), inputs, np.float64)
    np.testing.assert_allclose(got["w_grad"], by_hand(inputs)["w_grad"], 1e-9)
