"""Gradients: each op's, random programs', the golden nets'; and what costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops import elementwise, linear, shape
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.passes.differentiate import differentiate
from rnncc.passes.simplify import Simplify
from tests.golden import CASES
from tests.passes.gradients import check_gradients, gradients_of
from tests.passes.helpers import applied, count, quick
from tests.strategies import SIZES, programs

Value = SSAValue
N = Dim.of("N")


def positive(b: Builder, x: Value) -> Value:
    return b.add(b.exp(x), b.full_like(x, 0.5))


OPS: dict[str, tuple[Callable[..., Value], list[list[Any]]]] = {
    "neg": (Builder.neg, [[3]]),
    "abs": (Builder.abs, [[5]]),
    "sqrt": (lambda b, x: b.sqrt(positive(b, x)), [[3]]),
    "exp": (Builder.exp, [[3]]),
    "log": (lambda b, x: b.log(positive(b, x)), [[3]]),
    "log1p": (lambda b, x: b.log1p(positive(b, x)), [[3]]),
    "expm1": (Builder.expm1, [[3]]),
    "tanh": (Builder.tanh, [[3]]),
    "sigmoid": (Builder.sigmoid, [[3]]),
    "relu": (Builder.relu, [[5]]),
    "erf": (Builder.erf, [[3]]),
    "sin": (Builder.sin, [[3]]),
    "cos": (Builder.cos, [[3]]),
    "round": (lambda b, x: b.mul(x, b.round("floor", x)), [[5]]),
    "add": (Builder.add, [["N", 3], [3]]),
    "sub": (Builder.sub, [["N", 3], ["N", 1]]),
    "mul": (Builder.mul, [["N", 3], []]),
    "mul of one value": (lambda b, x: b.mul(x, x), [["N", 3]]),
    "div": (lambda b, x, y: b.div(x, positive(b, y)), [["N", 3], ["N", 3]]),
    "rem": (lambda b, x, y: b.rem(b.mul(x, b.fill(7.0, [])), positive(b, y)), [["N", 3], [3]]),
    "maximum": (Builder.maximum, [["N", 3], ["N", 3]]),
    "minimum": (Builder.minimum, [["N", 3], ["N", 3]]),
    "shift": (Builder.shift, [["T", "N", 3], ["N", 3]]),
    "shift, reverse": (lambda b, x, h: b.shift(x, h, True), [["T", "N", 3], ["N", 3]]),
    "select": (lambda b, x, y: b.select(b.compare("lt", x, y), b.tanh(x), y), [["N"], ["N"]]),
    "stop_gradient": (
        lambda b, x: b.add(x, b.sub(b.stop_gradient(x), b.stop_gradient(x))),
        [["N", 3]],
    ),
    "cast": (lambda b, x: b.cast(b.cast(x, "f64"), "f32"), [["N", 3]]),
    "cast to i32": (lambda b, x: b.mul(x, b.cast(b.cast(x, "i32"), "f32")), [["N", 3]]),
    "cast of a condition": (
        lambda b, x, y: b.mul(
            x, b.cast(b.logical_not(b.logical("and", *[b.compare("gt", x, y)] * 2)), "f32")
        ),
        [["N", 3], ["N", 3]],
    ),
    "reshape": (lambda b, x: b.reshape(x, [N * 6]), [["N", 2, 3]]),
    "transpose": (lambda b, x: b.transpose(x, [2, 0, 1]), [["N", 2, 3]]),
    "broadcast": (lambda b, x: b.broadcast(x, [4, "N", 2, 3], [1, 3]), [["N", 1]]),
    "slice": (lambda b, x: b.slice(x, 1, 2, 3), [["N", 7]]),
    "slices": (lambda b, x: b.mul(b.slice(x, 1, 1, 3), b.slice(x, 1, 4, 3)), [["N", 8]]),
    "slices that overlap": (
        lambda b, x: b.mul(b.slice(x, 1, 0, 3), b.slice(x, 1, 2, 3)),
        [["N", 5]],
    ),
    "slice at the end": (lambda b, x: b.slice(x, 0, Dim.of("T") - 1, 1), [["T", 3]]),
    "windows": (lambda b, x: b.windows(x, 1, 1, 3, 2, 2, 3), [["N", 9]]),
    "windows in front": (lambda b, x: b.windows(x, 0, 0, 3, 3), [[8, 2]]),
    "windows of unknown number": (
        lambda b, x: b.windows(x, 0, 1, Dim.of("T") - 3, 1, 3),
        [["T", 2]],
    ),
    "gather": (
        lambda b, x: b.gather(x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2]],
    ),
    "scatter": (
        lambda b, y, x: b.scatter("sum", y, x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2], ["N", 1, 3, 2]],
    ),
    "scatter of the largest": (
        lambda b, y, x: b.scatter("max", y, x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2], ["N", 1, 3, 2]],
    ),
    "concat": (lambda b, x, y: b.concat([x, y, x], 1), [["N", 3], ["N", 2]]),
    "reverse_segments": (
        lambda b, x: b.reverse_segments(x, b.input("lengths", ["N"], "i32")),
        [["T", "N", 2]],
    ),
    "sum": (lambda b, x: b.reduce("sum", x, [0, 2]), [["N", 2, 3]]),
    "sum of all": (lambda b, x: b.reduce("sum", x, [0, 1]), [["N", 2]]),
    "max": (lambda b, x: b.reduce("max", x, [0, 2]), [["N", 2, 3]]),
    "min": (lambda b, x: b.reduce("min", x, [1]), [["N", 3]]),
    "max of equals": (lambda b, x: b.reduce("max", b.concat([x, x], 1), [1]), [["N", 3]]),
    "contract": (Builder.contract, [[3, 4], ["N", 3], ["N", 4]]),
    "contract from the last": (
        lambda b, i, x, y: b.contract(i, x, y, reverse=True),
        [[3, 4], ["N", 3], ["N", 4]],
    ),
    "sum_rows": (Builder.sum_rows, [[2, 3], ["N", 2, 3]]),
    "sum_rows to a number": (lambda b, i, x: b.sum_rows(i, x, reverse=True), [[], ["N"]]),
    "matmul": (Builder.matmul, [["N", 3], [3, 4]]),
    "matmul of stacks": (Builder.matmul, [["N", 2, 3], ["N", 3, 4]]),
    "matmul of a stack": (Builder.matmul, [["T", "N", 3], [3, 4]]),
}
for ta, tb in ((True, False), (False, True), (True, True)):
    for name, lead in (
        ("", ([], [])),
        (" of stacks", (["N"], ["N"])),
        (" of a stack", (["T"], [])),
    ):
        a, c = ([3, 2] if ta else [2, 3]), ([4, 3] if tb else [3, 4])
        product = lambda b, x, y, ta=ta, tb=tb: b.matmul(x, y, ta, tb)  # noqa: E731
        OPS[f"matmul{name} {ta} {tb}"] = (product, [[*lead[0], *a], [*lead[1], *c]])


def net_of(make: Callable[..., Value], shapes: list[list[Any]]) -> Program:
    b = Builder.net("op")
    args = [b.input(f"x{i}", dims) for i, dims in enumerate(shapes)]
    return b.finish({"y": make(b, *args)})


@pytest.mark.parametrize("name", OPS)
def test_op(name: str) -> None:
    check_gradients(net_of(*OPS[name]), SIZES, rtol=1e-7)


def test_every_op_is_tested() -> None:
    tested = {op.name for case in OPS.values() for op in net_of(*case).net.walk()}
    missing = {op.name for op in (*elementwise.OPS, *shape.OPS, *linear.OPS)} - tested
    assert not missing


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    for steps in (4, 1, 0):
        check_gradients(program, {**SIZES, "T": steps})


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
        (["y"], ["grad:y"], None),
    ],
)
def test_refusals(wanted: list[str], of: list[str], message: str | None) -> None:
    b = Builder.net("refused")
    x, n = b.input("x", ["N"]), b.input("n", ["N"], "i32")
    b.input("grad:y", ["N"])
    program = b.finish({"y": b.neg(x), "n": n})
    with pytest.raises(CompileError) as error:
        differentiate(program, wanted, of)
    assert str(error.value) == (message or "the name 'grad:y' is taken")


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
