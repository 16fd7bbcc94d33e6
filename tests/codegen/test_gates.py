"""Loops with gates, and what they showed: code in guarded memory against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.gates import repeat, when
from rnncc.ir.interpreter import LimitError, run
from rnncc.ir.program import Program
from rnncc.kern.moves import Pack
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import Arrays

Values = list[SSAValue]


def check(program: Program, inputs: Arrays) -> None:
    want = run(program, inputs)
    bare = Bare(lower(program.copy(), Options()), resolve_target())
    sizes = {"T": 3, "N": 2}
    for end in (False, True):
        with guards(end) as memory:
            got = bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, 1e-5, 1e-5, err_msg=name)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def test_a_matrix_for_each_step() -> None:
    """It is packed in the loop, not before."""
    b = Builder.net("rows")
    h, w = b.input("h", ["N", 4]), b.input("w", ["T", 4, 4])

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [inner.tanh(inner.matmul(carry[0], rows[0]))], []

    (y,), _ = b.scan([], [h], [w], body)
    check(b.finish({"y": y}, {}), {"h": drawn(2, 4), "w": drawn(3, 4, 4)})


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_conditionals_in_each_other(first: bool, second: bool) -> None:
    """What no branch touches is handed on where it is; the output is one of four places."""
    b = Builder.net("nested")
    x, p, q = b.input("x", ["N", 4]), b.input("p", [], "i1"), b.input("q", [], "i1")

    def inner_branch(inner: Builder, consts: Values, carry: Values) -> Values:
        return [inner.mul(carry[0], carry[0]), carry[1]]

    def branch(inner: Builder, consts: Values, carry: Values) -> Values:
        started = [inner.exp(carry[0]), carry[0]]
        return when(inner, consts[0], [], started, inner_branch)

    y, z = when(b, p, [q], [x, x], branch)
    inputs = {"x": drawn(2, 4), "p": np.array(first), "q": np.array(second)}
    check(b.finish({"y": y, "z": z}, {}), inputs)


def test_a_conditional_in_a_loop_over_time() -> None:
    b = Builder.net("skips")
    x, h, skip = b.input("x", ["T", "N", 4]), b.input("h", ["N", 4]), b.input("skip", ["T"], "i1")

    def step(inner: Builder, consts: Values, carry: Values) -> Values:
        return [inner.tanh(inner.add(carry[0], consts[0]))]

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = when(inner, inner.logical_not(rows[1]), [rows[0]], carry, step)
        return new, new

    _, (ys,) = b.scan([], [h], [x, skip], body)
    inputs = {"x": drawn(3, 2, 4), "h": drawn(2, 4), "skip": np.array([False, True, False])}
    check(b.finish({"ys": ys}, {}), inputs)


@pytest.mark.parametrize("iterations", [0, 1, 5, 6])
def test_loops_end_at_their_limit(iterations: int) -> None:
    """Five iterations are allowed; the error comes from within a loop over time."""
    b = Builder.net("limit")
    x, k = b.input("x", ["T", 4]), b.input("k", [], "i64")

    def iteration(inner: Builder, consts: Values, carry: Values) -> Values:
        count = inner.add(carry[1], inner.full_like(carry[1], 1))
        return [inner.compare("lt", count, consts[0]), count, inner.tanh(carry[2])]

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        zero = inner.full_like(consts[0], 0)
        start = [inner.compare("lt", zero, consts[0]), zero, rows[0]]
        return [], [repeat(inner, [consts[0]], start, iteration, 5)[2]]

    _, (ys,) = b.scan([k], [], [x], body)
    program = b.finish({"ys": ys}, {})
    inputs = {"x": drawn(3, 4), "k": np.array(iterations, np.int64)}
    if iterations <= 5:
        check(program, inputs)
        return
    with pytest.raises(LimitError):
        run(program, inputs)
    with pytest.raises(AssertionError, match="error code 4"):
        check_code(program, inputs)


def check_code(program: Program, inputs: Arrays) -> None:
    bare = Bare(lower(program, Options()), resolve_target())
    with guards(end=True) as memory:
        bare.run(inputs, {"T": 3, "N": 1}, memory)


@pytest.mark.parametrize("flag", [False, True])
def test_weights_of_branches_within_branches_are_packed_before(flag: bool) -> None:
    """Parameters that a conditional reads, through views and a loop, are constants in it."""
    b = Builder.net("inside")
    x, open_, w = b.input("x", ["T", "N", 4]), b.input("open", [], "i1"), b.param("w", [4, 4])
    zeros = b.fill(0.0, ["N", 4])

    def cell(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.tanh(i.add(rows[0], i.matmul(carry[0], consts[0])))], []

    def inner(i: Builder, consts: Values, carry: Values) -> Values:
        both = i.concat([i.slice(consts[1], 0, 2, 2), i.slice(consts[1], 0, 0, 2)], 0)
        return i.scan([both], carry, [consts[0]], cell)[0]

    def outer(i: Builder, consts: Values, carry: Values) -> Values:
        return when(i, consts[2], [consts[0], i.transpose(consts[1], [1, 0])], carry, inner)

    [y] = when(b, open_, [x, w, open_], [zeros], outer)
    program = b.finish({"y": y}, {"w": drawn(4, 4)})
    kernels = lower(program.copy(), Options())
    assert not [op for op in kernels.func.walk() if isinstance(op, Pack)]
    check(program, {"x": drawn(3, 2, 4), "open": np.array(flag)})
