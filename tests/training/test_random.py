"""Random programs compiled for training against the interpreter; what is kept changes no bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import Arrays
from tests.training.kept import WAYS, check_kept
from tests.training.models import (
    RECOMPUTE,
    check_close,
)
from tests.training.product_programs import product_programs
from tests.training.random_nets import check_trained


@examples(8)
@given(PROGRAMS, RECOMPUTE)
def test_gradients(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single)


@pytest.mark.slow
@examples(1000)
@given(PROGRAMS, RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single)


@pytest.mark.parametrize("way", ["auto", "inference"])
def test_a_product_that_a_sum_reads_and_backward_keeps(way: str) -> None:
    check_kept(kept_product(), way)


@pytest.mark.parametrize("way", ["order 2", "inference"])
def test_products_that_leave_the_loop(way: str) -> None:
    check_kept(leaving_products(), way)


@examples(4)
@given(product_programs(), st.sampled_from(WAYS))
def test_what_is_kept_changes_no_bit(program: Program, way: str) -> None:
    check_kept(program, way)


@pytest.mark.slow
@examples(300)
@given(product_programs(), st.sampled_from(WAYS))
def test_many_keep_their_bits(program: Program, way: str) -> None:
    check_kept(program, way)


def kept_product() -> Program:
    """s = d + k · Σ d · q, where d = a · s: an addition and a sum over an axis read d."""
    b, dims = Builder.net("kept"), ["N", 8]
    rows = [b.input(name, ["T", *dims]) for name in "akq"]

    def step(
        i: Builder, _: list[SSAValue], carry: list[SSAValue], rows: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        a, k, q = rows
        d = i.mul(i.sigmoid(a), carry[0])
        told = i.broadcast(i.reduce("sum", i.mul(d, q), [1]), dims, [0])
        return [i.add(d, i.mul(k, told))], []

    (last,), _ = b.scan([], [b.input("s", dims)], rows, step)
    return b.finish({"last": last})


def leaving_products() -> Program:
    """A product of rows and one of constants: what reads them and what is kept decides of each
    whether it leaves the loop alone, with the sum that reads it, or not."""
    b, dims = Builder.net("leaving"), ["N", 3]
    x, h, p = b.input("x", ["T", *dims]), b.input("h", dims), b.input("p", dims)

    def step(
        i: Builder, consts: list[SSAValue], carry: list[SSAValue], rows: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        rowwise = i.mul(consts[0], i.tanh(rows[0]))
        total = i.add(rowwise, i.mul(carry[0], i.tanh(consts[0])))
        return [i.tanh(total)], [total, i.mul(consts[0], i.tanh(consts[0]))]

    (last,), (totals, fixed) = b.scan([p], [h], [x], step)
    return b.finish({"last": last, "y": b.mul(totals, b.add(b.tanh(fixed), fixed))})


def near(got: Arrays, want: Arrays, told: str) -> None:
    check_close(want, got, told)
