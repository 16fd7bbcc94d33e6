"""What stands around a recurrent net: blobs that steps read from there, operators that nobody asks
for, vectors that end where a run decides."""

from __future__ import annotations

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef, OperatorDef
from rnncc.passes.gradients.differentiate import differentiate
from tests.frontends.caffe2.nets import net, op, recurrent

SHAPES = {"x": "T,N,3", "h0": "1,N,3", "b": "3"}
X, H0 = np.random.default_rng(0).normal(size=(2, 4, 2, 3)).astype(np.float32)
BIAS = np.array([0.5, -1.0, 2.0], np.float32)


def summing(*declared: str) -> NetDef:
    """h = tanh(h_prev + x_t) * r, where r = tanh(b) is of the net around; declared or not."""
    steps = [
        op("Sum", "h_prev x_t", "s"),
        op("Tanh", "s", "t"),
        op("Mul", "t r", "h", broadcast=1),
    ]
    inner = net(steps, " ".join(["x_t timestep h_prev", *declared]), "h", "step")
    loop = recurrent(inner, inputs=" ".join(["x h0", *declared]))
    return net([op("Tanh", "b", "r"), loop], "x h0 b", "h_all h_last")


def test_steps_read_what_is_around() -> None:
    inputs = {"x": X, "h0": H0[:1], "b": BIAS}
    known, inherited = (import_net(summing(*names), shapes=SHAPES) for names in (["r"], []))
    want, got = run(known, inputs), run(inherited, inputs)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


def test_gradients_go_through_what_is_around() -> None:
    inputs = {"x": X, "h0": H0[:1], "b": BIAS, "grad:h_all": np.ones_like(X)}
    found = []
    for names in (["r"], []):
        program = import_net(summing(*names), shapes=SHAPES)
        found.append(run(differentiate(program, ["h_all"], ["b"]), inputs)["grad:b"])
    assert np.abs(found[0]).min() > 0
    np.testing.assert_array_equal(found[0], found[1])


UPDATE = [op("Tanh", "x", "y"), op("LearningRate", "x", "rate"), op("Mul", "x rate", "change")]


@pytest.mark.parametrize("asked", ["y", "rate", "change"])
def test_unknown_operators_that_nobody_asks_for(asked: str) -> None:
    made = net(UPDATE, "x", asked)
    if asked == "y":
        program = import_net(made, shapes={"x": "3"})
        np.testing.assert_allclose(run(program, {"x": BIAS})["y"], np.tanh(BIAS), 1e-6)
        return
    with pytest.raises(CompileError, match=r"op 1 .LearningRate .*type 'LearningRate'"):
        import_net(made, shapes={"x": "3"})


def test_what_only_an_optimiser_reads_is_no_input() -> None:
    """It may write its update over a gradient, which then is no output unless one asks for it."""
    update = [op("AtomicIter", "mutex", "count"), op("Momentum", "x_grad rate count", "x_grad")]
    gradient = op("TanhGradient", "y dy", "x_grad")
    gradient.is_gradient_op = True
    ops = [op("Tanh", "x", "y"), gradient]
    for more, inputs, outputs in (
        ([], "x dy", ["y", "x_grad"]),
        (update, "x dy mutex rate", ["y"]),
    ):
        program = import_net(net([*ops, *more], inputs, "y"), shapes={"x": "3"})
        assert list(program.net.inputs) == ["x", "dy"]
        assert list(program.net.outputs) == outputs
    with pytest.raises(CompileError, match=r"op 2 .AtomicIter"):
        import_net(net([*ops, *update], "x dy mutex rate", "y x_grad"), shapes={"x": "3"})


def picked(*behind: OperatorDef, k: int = 3) -> NetDef:
    """The largest of the first elements of six, and what else reads these."""
    ops = [
        op("Slice", "x zero end", "part"),
        op("Reshape", "part", "row old", shape=[1, -1]),
        op("TopK", "row", "y places", k=k),
        op("GivenTensorIntFill", "", "zero", shape=[1], values=[0]),
    ]
    return net([*ops[3:], *ops[:3], *behind], "x end", "y places")


@pytest.mark.parametrize("end", [-1, -2, 3, 1, 6, 9])
def test_the_largest_up_to_where_a_run_decides(end: int) -> None:
    x = np.array([3, -1, 4, -1, 5, 9], np.float32)
    program = import_net(picked(), shapes={"x": "6", "end": "1"})
    got = run(program, {"x": x, "end": np.array([end], np.int32)})
    part = x[: 7 + end if end < 0 else end]
    places = np.argsort(-part, kind="stable")[:3]
    fill = 3 - len(places)
    np.testing.assert_array_equal(got["y"], [[*part[places], *[0] * fill]])
    np.testing.assert_array_equal(got["places"], [[*places, *[-1] * fill]])


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (op("Tanh", "part", "z"), 'a run decides how many elements "part" has, by "end"'),
        (op("Tanh", "row", "z"), 'a run decides how many elements "row" has, by "end"'),
        (op("Reshape", "x old", "z"), 'a run decides what "old" holds'),
        (op("Reshape", "part", "z o", shape=[2, -1]), "does not make one row"),
    ],
)
def test_nothing_else_reads_what_ends_where_a_run_decides(reader: OperatorDef, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        import_net(picked(reader), shapes={"x": "6", "end": "1"})
