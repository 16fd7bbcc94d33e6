"""Sink keeps what a program means, and takes weights' and inputs' gradients out of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Contract, Reduce, SumRows
from rnncc.ir.program import Program
from rnncc.ir.rewriting import NetPass
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.sink import Sink
from tests.golden import CASES, arrays_of
from tests.passes.gradients import gradients, gradients_of, sunk
from tests.passes.helpers import applied, count, loops_of, quick
from tests.strategies import assert_same_meaning, make_inputs, programs

Values = Sequence[SSAValue]
T, N = Dim.of("T"), Dim.of("N")


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    assert_same_meaning(program, applied(Sink()), rtol=1e-9)


@pytest.mark.parametrize("keeps_rows", [False, True])
@quick
@given(program=programs())
def test_gradients_of_random_programs(keeps_rows: bool, program: Program) -> None:
    assert_same_meaning(gradients(program), applied(Sink(keeps_rows)), rtol=1e-9)


@quick
@given(programs())
def test_gradients_of_simplified_random_programs(program: Program) -> None:
    Simplify().rewrite(program.net)
    both = gradients(program)
    assert_same_meaning(both, sunk, rtol=1e-9)
    assert not Sink().rewrite(both.net)  # a second run finds nothing


@pytest.mark.parametrize("keeps_rows", [False, True])
def test_sums_of_what_a_step_makes(keeps_rows: bool) -> None:
    """A scale's gradient: its loop adds it up, or keeps what it is a sum of, for all steps."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        scaled = b.mul(b.matmul(carry[0], ks[0]), b.broadcast(ks[1], [N, 3], [1]))
        return [b.tanh(b.add(scaled, rows[0]))], []

    b = Builder.net("net")
    consts = [b.param("w", [3, 3]), b.param("scale", [3])]
    (last,), _ = b.scan(consts, [b.input("h", ["N", 3])], [b.input("x", ["T", "N", 3])], body)
    both = differentiate(b.finish({"last": last}), ["last"], ["scale", "w"])
    sink = applied(Simplify(), Sink(keeps_rows), Simplify())
    assert_same_meaning(both, sink, rtol=1e-9)
    *_, back = loops_of(both)
    gathered = [dims for dims in shapes(back.finals) if N not in dims]
    assert gathered == ([] if keeps_rows else [(Dim.of(3),)])


def test_terms_of_a_step_are_added_up_where_rows_are_kept() -> None:
    """To the bit, as if the loop added them up."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        product = b.matmul(carry[0], ks[0])
        h, gate = b.tanh(b.add(product, rows[0])), b.sigmoid(product)
        terms = [b.reduce("sum", x, [0]) for x in (h, gate)]
        return [h, b.add(carry[1], b.add(*terms))], []

    b = Builder.net("net")
    inits = [b.input("h", ["N", 3]), b.input("c", [3])]
    (_, total), _ = b.scan([b.param("w", [3, 3])], inits, [b.input("x", ["T", "N", 3])], body)
    program = b.finish({"y": total})
    sink = applied(Sink(keeps_rows=True), Simplify())
    assert_same_meaning(program, sink)
    [scan] = loops_of(program)
    assert shapes(scan.finals) == [(N, Dim.of(3))]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_gradients(case: Path) -> None:
    got, want = gradients_of(case, sunk)
    for name, array in want.items():
        np.testing.assert_allclose(got[f"grad:{name}"], array, 1e-4, 2e-5, err_msg=name)


def shapes(values: Values) -> list[tuple[Dim, ...]]:
    return [dims_of(value) for value in values]


@pytest.mark.parametrize(
    ("name", "products"),
    [("lstm", 1), ("lstm_two_layers", 3), ("lstm_last_only", 1), ("gru", 3), ("milstm", 1)],
)
def test_no_weight_gathers_in_the_loop(name: str, products: int) -> None:
    case = next(path for path in CASES if path.name == name)
    program = import_net(case / "net.pb", case / "init.pb")
    Simplify().rewrite(program.net)
    both = differentiate(program, list(arrays_of(case, "weight:")), list(arrays_of(case, "grad:")))
    sunk(both)
    *_, back = loops_of(both)
    weights = {dims_of(op.y) for op in program.params.values() if len(dims_of(op.y)) == 2}
    assert weights
    assert not weights.intersection(shapes(back.finals))
    assert count(back.body.block)["matmul"] == products
    if name.startswith("lstm"):  # of the carry, only the states' gradients are left
        assert all(N in dims for dims in shapes(back.finals))
        assert count(back.body.block)["reduce"] == 0


def net_of(body: Callable[..., tuple[Values, Values]], inits: dict[str, list[Any]]) -> Program:
    """A loop over x with w fixed."""
    b = Builder.net("net")
    x, w = b.input("x", ["T", "N", 3]), b.param("w", [3, 3])
    finals, ys = b.scan([w], [b.input(n, d) for n, d in inits.items()], [x], body)
    values = [*finals, *ys]
    return b.finish({f"y{i}": value for i, value in enumerate(values)})


def check(program: Program, finals: int, ys: int, **inside: int) -> None:
    """What sinks means the same; the loop is left with so many results and such ops."""
    assert_same_meaning(program, sunk, rtol=1e-9)
    loops = loops_of(program)
    if finals + ys == 0:
        assert loops == []
        return
    [scan] = loops
    assert (len(scan.finals), len(scan.ys)) == (finals, ys)
    ops = count(scan.body.block)
    assert {name: ops[name] for name in inside} == inside


def test_products_of_rows_need_no_loop() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        part = b.matmul(rows[0], rows[0], transpose_a=True)
        return [b.add(carry[0], b.add(part, b.transpose(part, [1, 0])))], []

    check(net_of(body, {"s": [3, 3]}), 0, 0)


def test_products_in_any_orientation() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        tall = b.reshape(rows[0], [N, 1, 3])
        stack = b.matmul(tall, tall, transpose_a=True)
        outer = b.matmul(rows[0], rows[0], transpose_b=True)
        return [b.add(carry[0], stack), b.add(b.slice(outer, 0, 0, 1), carry[1])], []

    check(net_of(body, {"s": [N, 3, 3], "r": [1, N]}), 0, 0)


def test_a_state_that_steps_read_stays() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        total = b.add(carry[0], b.matmul(rows[0], rows[0], transpose_a=True))
        return [total], [total]

    check(net_of(body, {"s": [3, 3]}), 1, 1, matmul=1)


def test_sums_leave_where_their_rows_are_there() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.tanh(b.add(b.matmul(carry[0], ks[0]), rows[0]))
        known = b.reduce("sum", b.mul(h, rows[0]), [0])
        unknown = b.reduce("sum", b.tanh(h), [0])
        return [h, b.add(carry[1], known), b.add(carry[2], unknown)], [h]

    check(net_of(body, {"h": ["N", 3], "s": [3], "r": [3]}), 2, 1, reduce=1)


def test_a_step_s_sum_in_a_free_order_stays_one() -> None:
    """As the loop would add it up, if its rows were not there: no bit may depend on that."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [b.add(carry[0], b.reduce("sum", rows[0], [1]))], []

    program = net_of(body, {"s": ["N"]})
    check(program, 0, 0)
    [own] = [op for op in program.net.walk() if isinstance(op, Reduce)]
    [total] = [op for op in program.net.walk() if isinstance(op, SumRows)]
    assert (get_ints(own.axes), total.x) == ((2,), own.y)


def test_products_that_only_feed_sequences_leave() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.tanh(b.add(b.matmul(carry[0], ks[0]), rows[0]))
        out = b.sigmoid(b.add(b.matmul(h, ks[0], transpose_b=True), carry[0]))
        return [h], [b.slice(out, 1, 0, 2), b.reduce("sum", out, [1])]

    program = net_of(body, {"h": ["N", 3]})
    check(program, 1, 2, matmul=1, sigmoid=0, reduce=0)
    assert count(program.net.body.block)["matmul"] == 1


def test_sums_start_where_the_carry_does_and_keep_the_order_of_the_steps() -> None:
    """Terms follow one another; views of a product are products of views."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        part = b.matmul(rows[0], rows[1], transpose_a=True)
        both = b.add(b.add(carry[0], part), b.transpose(part, [1, 0]))
        twice = b.reshape(b.slice(part, 0, 1, 2), [6])
        total = b.add(carry[2], b.reduce("sum", rows[0], [0]))
        return [both, b.add(carry[1], twice), total], []

    b = Builder.net("net")
    inits = [b.input("s", [3, 3]), b.input("r", [6]), b.input("v", [3])]
    xs = [b.input(name, ["T", "N", 3]) for name in ("x", "z")]
    finals, _ = b.scan([], inits, xs, body, reverse=True)
    program = b.finish({f"y{i}": value for i, value in enumerate(finals)})
    assert_same_meaning(program, sunk, rtol=1e-9)
    assert loops_of(program) == []
    sums = [op for op in program.net.walk() if isinstance(op, (Contract, SumRows))]
    assert [bool(op.reverse) for op in sums] == [True] * 4
    assert sums[1].init is sums[0].y
    assert count(program.net.body.block)["add"] == 0


def test_inner_loops_give_outer_ones_their_rows() -> None:
    """A weight used in a loop within a loop: its gradient is one product behind both."""
    b = Builder.net("nested")
    x, w = b.input("x", ["T", "N", 3]), b.param("w", [3, 3])

    def inner(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [b.tanh(b.add(b.matmul(carry[0], ks[0]), rows[0]))], []

    def outer(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        [h], _ = b.scan([ks[0]], [carry[0]], [ks[1]], inner)
        return [b.add(h, rows[0])], []

    [last], _ = b.scan([w, b.input("z", ["S", "N", 3])], [b.input("h", ["N", 3])], [x], outer)
    both = differentiate(b.finish({"last": last}), ["last"], ["w"])
    sizes, inputs = make_inputs(both, {"T": 4, "N": 2, "S": 3})
    before = run(both, inputs, np.float64, sizes)
    sunk(both)
    after = run(both, inputs, np.float64, sizes)
    np.testing.assert_allclose(after["grad:w"], before["grad:w"], 1e-9)
    assert all((3, 3) not in shapes(scan.finals) for scan in loops_of(both))
    assert count(both.net.body.block)["contract"] == 1


@pytest.mark.parametrize("step", [Sink(), Hoist()])
def test_inner_loops_that_do_the_same_at_each_step(step: NetPass) -> None:
    """A matrix that a loop makes of weights, as of Householder's vectors, is made once outside."""

    def inner(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [b.matmul(carry[0], b.add(carry[0], b.broadcast(rows[0], [3, 3], [1])))], []

    def outer(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        [made], _ = b.scan([], [ks[0]], [ks[1]], inner)
        h = b.tanh(b.add(b.matmul(carry[0], made), rows[0]))
        return [h], [b.matmul(h, made)]

    b = Builder.net("net")
    consts = [b.param("w", [3, 3]), b.param("v", [2, 3])]
    finals, ys = b.scan(consts, [b.input("h", ["N", 3])], [b.input("x", ["T", "N", 3])], outer)
    program = b.finish({"h_last": finals[0], "y": ys[0]})
    assert_same_meaning(program, applied(step, Simplify()), rtol=1e-9)
    assert any(isinstance(op, Scan) and op.steps == 2 for op in program.net.body.block.ops)
    inside = [loop.parent_op() for loop in loops_of(program)]
    assert isinstance(step, Sink) or all(op is program.net for op in inside)
