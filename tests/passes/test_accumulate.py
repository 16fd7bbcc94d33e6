"""Sums over the rows of all steps keep what they mean, and have an order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.linear import Contract, SumRows
from rnncc.ir.program import Program
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.loops.accumulate import Accumulate
from tests.passes.gradients import gradients, sunk
from tests.passes.helpers import applied, count, loops_of, quick
from tests.strategies import assert_same_meaning, programs

Values = Sequence[SSAValue]
T, N = Dim.of("T"), Dim.of("N")


@quick
@given(programs())
def test_random_programs(program: Program) -> None:
    assert_same_meaning(program, applied(Accumulate()), rtol=1e-9)


@quick
@given(programs())
def test_gradients_of_random_programs(program: Program) -> None:
    assert_same_meaning(gradients(program), applied(Simplify(), Accumulate()), rtol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_is_that_of_the_loop_that_gives_the_rows(reverse: bool) -> None:
    """A product in front of a loop: its gradient's rows come from the loop that runs back."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.tanh(b.add(rows[0], carry[0]))
        return [h], [h]

    b = Builder.net("net")
    x, w = b.input("x", ["T", "N", 3]), b.param("w", [3, 4])
    z = b.add(b.matmul(x, w), b.param("bias", [4]))
    _, ys = b.scan([], [b.input("h", ["N", 4])], [z], body, reverse)
    both = gradients(b.finish({"y": ys[0]}))
    assert_same_meaning(both, applied(Simplify(), Accumulate(), Simplify()), rtol=1e-9)
    sums = [op for op in both.net.body.block.ops if isinstance(op, (Contract, SumRows))]
    assert sorted(op.name for op in sums) == ["rnn.contract", "rnn.sum_rows"]
    assert [bool(op.reverse) for op in sums] == [not reverse] * 2


def test_a_step_adds_rows_to_its_carry() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.tanh(b.add(rows[0], carry[0]))
        return [h, b.add(carry[1], b.reduce("sum", h, [0]))], []

    b = Builder.net("net")
    inits = [b.input("h", ["N", 3]), b.input("s", [3])]
    finals, _ = b.scan([], inits, [b.input("x", ["T", "N", 3])], body)
    program = b.finish({"h_last": finals[0], "sum": finals[1]})
    assert_same_meaning(program, applied(Accumulate(), Simplify()), rtol=1e-9)
    [loop] = loops_of(program)
    assert isinstance(loop.yields[0][1].owner, SumRows)
    assert count(loop.body.block)["reduce"] == 0


def test_other_sums_stay() -> None:
    b = Builder.net("net")
    x = b.input("x", ["T", "N", 3])
    a = b.reshape(x, [T * N, 3])
    outer = b.matmul(a, a, transpose_b=True)
    outputs = {"last": b.reduce("sum", x, [2]), "most": b.reduce("max", x, [0]), "outer": outer}
    program = b.finish(outputs)
    assert_same_meaning(program, sunk)
    assert not Accumulate().rewrite(program.net)
    assert count(program.net.body.block)["reduce"] == 2
