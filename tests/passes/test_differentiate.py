"""Gradients: each op's, random programs', the golden nets'; and what costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.bounds import bounds_of, check_bounds
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops import elementwise, functions, linear, shape
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.source import Fill
from rnncc.ir.program import Program
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from tests import draw
from tests.golden import CASES
from tests.passes.differentiable_ops import OPS, net_of
from tests.passes.gradients import check_gradients, gradient_net, gradients_of
from tests.passes.helpers import applied, count, quick
from tests.strategies import SIZES, programs

Value = SSAValue
N = Dim.of("N")


@pytest.mark.parametrize("name", OPS)
def test_op(name: str) -> None:
    check_gradients(net_of(*OPS[name]), SIZES, rtol=1e-7)


@pytest.mark.parametrize("name", OPS)
def test_second_derivatives(name: str) -> None:
    check_gradients(gradient_net(net_of(*OPS[name])), SIZES, rtol=1e-5)


def test_every_op_is_tested() -> None:
    tested = {op.name for case in OPS.values() for op in net_of(*case).net.walk()}
    missing = {
        op.name for op in (*elementwise.OPS, *functions.OPS, *shape.OPS, *linear.OPS)
    } - tested
    assert not missing


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    for steps in (4, 1, 0):
        check_gradients(program, {**SIZES, "T": steps})


@settings(quick, max_examples=draw.examples(5))
@given(programs(known=False, width=2))
def test_second_derivatives_of_random_programs(program: Program) -> None:
    check_gradients(gradient_net(program), {"T": 3, "N": 2}, rtol=1e-4)


@quick
@given(programs())
def test_simplified_random_programs(program: Program) -> None:
    Simplify().rewrite(program.net)
    check_gradients(program, SIZES, applied(Simplify()))


@pytest.mark.parametrize("change", [lambda program: None, applied(Simplify())], ids=["", "simple"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_nets(case: Path, change: Callable[[Program], object]) -> None:
    got, want = gradients_of(case, change)
    assert want
    for name, array in want.items():
        np.testing.assert_allclose(got[f"grad:{name}"], array, 1e-4, 2e-5, err_msg=name)


def rnn(b: Builder, x: Value, h: Value, w: Value) -> tuple[Value, Value]:
    """h' = tanh(x + h·w), all of them and the last."""

    def body(b: Builder, ks: list[Value], carry: list[Value], rows: list[Value]) -> Any:
        new = b.tanh(b.add(rows[0], b.matmul(carry[0], ks[0])))
        return [new], [new]

    [last], [every] = b.scan([w], [h], [x], body)
    return every, last


def small() -> Program:
    b = Builder.net("small")
    x, h = b.input("x", ["T", "N", 3]), b.input("h", ["N", 3])
    every, last = rnn(b, x, h, b.param("w", [3, 3]))
    return b.finish({"every": every, "last": last, "twice": b.add(x, x)})


def loops_of(program: Program) -> list[Scan]:
    return [op for op in program.net.body.block.ops if isinstance(op, Scan)]


def test_unasked_gradients_cost_nothing() -> None:
    both = differentiate(small(), ["every"], ["x"])
    _, back = loops_of(both)
    assert len(back.finals) == 1  # dh, which dx needs; no dw
    assert count(back.body.block)["matmul"] == 1
    [only] = loops_of(differentiate(small(), ["twice"], ["x", "h", "w"]))
    assert len(only.ys) == 1  # nothing is saved, nothing runs back


@pytest.mark.parametrize("gate", [None, 2])
def test_behind_a_gate_a_sum_of_gradients_goes_on_from_what_there_is(gate: int | None) -> None:
    """What a conditional that does not run hands on is then no array of zeros, to be added."""
    b = Builder.net("conditional")
    x, w = b.input("x", [3]), b.param("w", [3])
    runs = b.input("runs", [1], "i1")

    def body(b: Builder, ks: list[Value], carry: list[Value], rows: list[Value]) -> Any:
        return [b.mul(carry[0], ks[0])], []

    [last], _ = b.scan([w], [x], [runs], body, gate=gate)
    both = differentiate(b.finish({"y": b.mul(last, w)}), ["y"], ["w"])
    _, back = loops_of(both)
    assert count(both.net.body.block)["add"] == (gate is None)
    assert isinstance(back.inits[-1].owner, Fill) == (gate is None)


def test_gradient_without_dependence_is_zero() -> None:
    both = differentiate(small(), ["twice"], ["x", "w"])
    inputs = {"x": np.ones((2, 1, 3)), "h": np.ones((1, 3)), "w": np.ones((3, 3))}
    outputs = run(both, {**inputs, "grad:twice": np.full((2, 1, 3), 5.0)})
    np.testing.assert_array_equal(outputs["grad:w"], np.zeros((3, 3)))
    np.testing.assert_array_equal(outputs["grad:x"], np.full((2, 1, 3), 10.0))


def test_a_saved_value_is_a_sequence_that_the_forward_loop_yields() -> None:
    forward, back = loops_of(differentiate(small(), ["every"], ["x", "h", "w"]))
    (state,) = forward.ys  # tanh's result, which is an output already
    assert state in back.xs
    (before,) = (x.owner for x in back.xs if isinstance(x.owner, shape.Shift))
    assert before.x is state  # h, for dw
    assert bool(back.reverse) and not bool(forward.reverse)


def test_slices_side_by_side_need_no_padding() -> None:
    b = Builder.net("gates")
    z = b.input("z", ["N", 12])
    gates = [b.tanh(b.slice(z, 1, 3 * i, 3)) for i in range(4)]
    program = b.finish({"y": b.mul(b.mul(gates[0], gates[1]), b.mul(gates[2], gates[3]))})
    ops = count(differentiate(program, ["y"], ["z"]).net.body.block)
    assert ops["concat"] == 1
    assert ops["add"] == 0


def test_a_parameter_named_in_a_body() -> None:
    b = Builder.net("named")

    def body(b: Builder, ks: list[Value], carry: list[Value], rows: list[Value]) -> Any:
        return [b.tanh(b.mul(carry[0], b.param("w", [3])))], []

    [last], _ = b.scan([], [b.mul(b.input("h", [3]), b.param("w", [3]))], [], body, length=N)
    check_gradients(b.finish({"y": last}), {"T": 1, "N": 3}, rtol=1e-7)


@pytest.mark.parametrize(
    ("wanted", "of", "message"),
    [
        (["lost"], ["x"], "no output 'lost' to differentiate; there are y, n"),
        (["n"], ["x"], "'n' is i32: only floats have gradients"),
        (["y"], ["lost"], "no input or parameter 'lost' to differentiate by"),
        (["y"], ["n"], "'n' is i32: only floats have gradients"),
    ],
)
def test_refusals(wanted: list[str], of: list[str], message: str) -> None:
    b = Builder.net("refused")
    x, n = b.input("x", ["N"]), b.input("n", ["N"], "i32")
    program = b.finish({"y": b.neg(x), "n": n})
    with pytest.raises(CompileError) as error:
        differentiate(program, wanted, of)
    assert str(error.value) == message


def test_no_gradient_passes_a_stop() -> None:
    both = differentiate(net_of(lambda b, x: b.mul(x, b.stop_gradient(x)), [[3]]), ["y"], ["x0"])
    x, dy = np.array([1.0, -2.0, 3.0]), np.array([1.0, 10.0, 100.0])
    got = run(both, {"x0": x, "grad:y": dy}, np.float64)["grad:x0"]
    np.testing.assert_array_equal(got, x * dy)
    assert "stop_gradient" not in str(both)


def test_nothing_is_computed_before_a_stop() -> None:
    """A loop whose results are stopped gets no loop back."""

    def body(b: Builder, _: Any, carry: list[Value], rows: list[Value]) -> Any:
        return [b.tanh(b.add(carry[0], rows[0]))], []

    def make(b: Builder, x: Value, h: Value) -> Value:
        return b.add(b.stop_gradient(b.scan([], [h], [x], body)[0][0]), h)

    both = differentiate(net_of(make, [["T", 3], [3]]), ["y"], ["x0", "x1"])
    assert count(both.net.body.block)["scan"] == 1


@pytest.mark.parametrize(("stride", "taps", "dilation"), [(3, 1, 1), (3, 2, 1), (2, 2, 3)])
def test_no_windows_at_distances(stride: int, taps: int, dilation: int) -> None:
    """A size of the gradient was (count - 1) · stride + 1: rows beyond the result were written."""
    start, reach = 1, (taps - 1) * dilation + 1
    count = (Dim.of("T") - start - reach + 1).over(stride)
    net = net_of(lambda b, x: b.windows(x, 0, start, count, stride, taps, dilation), [["T"]])
    both = differentiate(net, ["y"], ["x0"])
    for total in (start + reach - 1, start + reach, start + reach + 2 * stride):
        check_bounds(bounds_of(both.net), {"T": total})
        many = count.evaluate({"T": total})
        dy = np.arange(1.0, many * taps + 1).reshape(many, taps)
        want = np.zeros(total)
        for i, k in np.ndindex(many, taps):
            want[start + i * stride + k * dilation] += dy[i, k]
        inputs = {"x0": np.ones(total), "grad:y": dy}
        got = run(both, inputs, np.float64, {"T": total})["grad:x0"]
        np.testing.assert_array_equal(got, want)
