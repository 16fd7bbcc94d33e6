"""Sums over rows: any width, order and length; the same bits however rows are cut; in place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.sums.reduce import ROWS
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern import kernels
from rnncc.kern.dialect import For
from rnncc.kern.program import KernelProgram
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.golden import Arrays

T, N = Dim.of("T"), Dim.of("N")
SIZES = [(0, 3), (1, 1), (5, 3), (2, ROWS), (3, 11)]
Make = Callable[[Builder, SSAValue, SSAValue, SSAValue], SSAValue]


def total(dims: list[Any], make: Make) -> Program:
    """Over x and z, rows of the shape `dims`, from init."""
    b = Builder.net("total")
    x, z = (b.input(name, [T * N, *dims]) for name in ("x", "z"))
    return b.finish({"y": make(b, b.input("init", dims), x, z)})


MAKES: dict[str, Make] = {
    "up": lambda b, init, x, z: b.sum_rows(init, x),
    "down": lambda b, init, x, z: b.sum_rows(init, x, reverse=True),
    "from zero": lambda b, init, x, z: b.sum_rows(b.full_like(init, 0.0), x),
    "of products": lambda b, init, x, z: b.sum_rows(init, b.mul(x, z), reverse=True),
    "two": lambda b, init, x, z: b.sum_rows(b.sum_rows(init, x), z),
}


def arrays(program: Program, steps: int, batch: int) -> Arrays:
    rng = np.random.default_rng(steps)
    ports = as_it_is(program).inputs
    sizes = {"T": steps, "N": batch}
    shapes = {port.name: [d.evaluate(sizes) for d in port.dims] for port in ports}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def check(program: Program) -> None:
    made = as_it_is(program)
    bare = Bare(made, resolve_target())
    for steps, batch in SIZES:
        inputs, sizes = arrays(program, steps, batch), {"T": steps, "N": batch}
        want = run(program, inputs, np.float64, sizes)
        for end in (False, True):
            with guards(end) as memory:
                got = bare.run(inputs, sizes, memory)
                bare.run(inputs, sizes, memory, absent=want)
            assert_close(got, want)
        assert_close(kern_interpreter.run(made, inputs, sizes), want)


def assert_close(got: Arrays, want: Arrays) -> None:
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-4, 1e-4, err_msg=name)


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("dims", [[], [1], [3], [33], [70], [2, 9]], ids=str)
def test_sum_rows(name: str, dims: list[int]) -> None:
    check(total(dims, MAKES[name]))


@pytest.mark.parametrize("name", ["up", "down"])
@pytest.mark.parametrize("dims", [[], [3], [37]], ids=str)
def test_bits_do_not_depend_on_how_rows_are_cut(name: str, dims: list[int]) -> None:
    program = total(dims, MAKES[name])
    inputs, bare = arrays(program, 3 * ROWS + 5, 1), Bare(as_it_is(program), resolve_target())

    def over(part: slice, init: np.ndarray) -> np.ndarray:
        some = {"x": inputs["x"][part], "z": inputs["z"][part], "init": init}
        with guards(end=True) as memory:
            return bare.run(some, {"T": part.stop - part.start, "N": 1}, memory)["y"]

    want, y = over(slice(0, 3 * ROWS + 5), inputs["init"]), inputs["init"]
    parts = [slice(a, b) for a, b in pairwise([0, 1, 2, ROWS + 1, 3 * ROWS - 1, 3 * ROWS + 5])]
    for part in reversed(parts) if name == "down" else parts:
        y = over(part, y)
    np.testing.assert_array_equal(y, want)


def gathering(extra: bool) -> Program:
    """A loop whose steps add to matrices and to a vector; `extra`: one is read before it is."""

    def body(b: Builder, ks: Any, carry: Any, rows: Any) -> Any:
        w, v = carry
        both = b.contract(b.contract(w, rows[0], rows[1]), rows[1], rows[0], reverse=True)
        new = b.sum_rows(v, b.mul(rows[0], rows[1]))
        return [both, new], [b.tanh(w)] if extra else []

    b = Builder.net("gathering")
    xs = [b.input(name, ["T", "N", 5]) for name in ("x", "z")]
    inits = [b.input("w", [5, 5]), b.input("v", [5])]
    finals, ys = b.scan([], inits, xs, body)
    return b.finish({f"y{i}": value for i, value in enumerate([*finals, *ys])})


def states(program: KernelProgram) -> list[int]:
    return [int(b.elements) for b in program.buffers if b.role.data == "state"]


@pytest.mark.parametrize("extra", [False, True])
def test_a_carry_that_only_adds_is_kept_once(extra: bool) -> None:
    program = gathering(extra)
    check(program)
    made = as_it_is(program)
    assert states(made) == [25 * (1 + extra), 5]
    [loop] = [op for op in made.func.body.block.ops if isinstance(op, For)]
    assert sum(isinstance(op, kernels.Map) for op in loop.body.block.ops) == extra


def test_gate_gradients_side_by_side_are_read_where_they_are() -> None:
    """Slices and shifted sequences are no copies: each product is one kernel."""
    b = Builder.net("columns")
    x, h = b.input("x", ["T", "N", 8]), b.input("h", ["N", 3])
    part = b.slice(x, 2, 2, 3)
    rows = [b.reshape(v, [T * N, 3]) for v in (part, b.shift(part, h), b.shift(part, h, True))]
    zero = b.fill(0.0, [3, 3])
    pairs = [(rows[0], rows[1]), (rows[2], rows[0]), (rows[0], rows[0])]
    program = b.finish({f"y{i}": b.contract(zero, *pair) for i, pair in enumerate(pairs)})
    check(program)
    assert [op.name for op in as_it_is(program).func.body.block.ops if "buffer" not in op.name] == [
        *["kern.contract"] * 3,
        "rnn.yield",
    ]


PRODUCTS: dict[str, tuple[list[Any], Make]] = {
    "keys in columns": ([N, 16, T], lambda b, _, q, k: b.matmul(q, k)),
    "keys in rows": ([N, T, 16], lambda b, _, q, k: b.matmul(q, k, transpose_b=True)),
    "more terms": ([N, T, 48], lambda b, _, q, k: b.matmul(q, k, transpose_b=True)),
    "few columns": ([N, 16, 5], lambda b, _, q, k: b.matmul(q, k)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_that_share_what_they_read_have_the_bits_of_each_alone(name: str) -> None:
    """A product of two computed tensors, of any number of rows and columns."""
    dims, make = PRODUCTS[name]
    b = Builder.net("product")
    q, k = b.input("q", [N, "S", 48 if name == "more terms" else 16]), b.input("k", dims)
    program = b.finish({"y": make(b, q, q, k)})
    bare = Bare(as_it_is(program), resolve_target())
    for rows, steps in ((1, 1), (3, 15), (4, 16), (5, 33), (6, 61), (9, 70), (15, 31)):
        sizes = {"N": 2, "S": rows, "T": steps}
        rng = np.random.default_rng(rows)
        inputs: Arrays = {
            port.name: rng.standard_normal([d.evaluate(sizes) for d in port.dims]).astype("f4")
            for port in as_it_is(program).inputs
        }
        with guards(True) as memory:
            got = bare.run(inputs, sizes, memory)
        assert_close(got, run(program, inputs, np.float64, sizes))
        for row in range(rows):
            alone = {**inputs, "q": np.ascontiguousarray(inputs["q"][:, row : row + 1])}
            with guards(False) as memory:
                one = bare.run(alone, {**sizes, "S": 1}, memory)
            assert one["y"].tobytes() == got["y"][:, row : row + 1].tobytes()


def test_vectors_run_along_the_last_axis_that_is_not_1() -> None:
    """As of the means of an image's channels, whose axes of space stay, of size 1."""
    b = Builder.net("mean")
    x = b.reshape(b.input("x", [6, 20]), (6, 20, 1, 1))
    made = as_it_is(b.finish({"y": b.reduce("sum", x, [0])}))
    [op] = [op for op in made.func.walk() if isinstance(op, kernels.Reduce)]
    assert lanes_of(op) is Lanes.ACROSS


def over_planes(b: Builder, stride: int) -> SSAValue:
    """Sums of weighted windows of planes [N, 5, T, 20], channels last."""
    x = b.transpose(b.input("x", [N, 5, T, 20]), (0, 2, 3, 1))
    windows = b.windows(x, 2, 0, 18 // stride, stride, 3)
    weights = b.broadcast(b.input("w", [3, 5]), dims_of(windows), (3, 4))
    return b.reduce("sum", b.mul(windows, weights), [3])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("turned", [False, True], ids=["channels last", "planes"])
def test_vectors_run_along_planes(stride: int, turned: bool) -> None:
    """As of depthwise convolutions whose input has planes of channels; results may be either."""
    b = Builder.net("planes")
    y = b.exp(over_planes(b, stride))
    program = b.finish({"y": b.transpose(y, (0, 3, 1, 2)) if turned else y})
    [op] = [op for op in as_it_is(program).func.walk() if isinstance(op, kernels.Reduce)]
    assert lanes_of(op) is Lanes.ACROSS
    check(program)


@pytest.mark.parametrize(
    ("channels", "row", "taps", "is_copied"),
    [(16, 7, 3, True), (15, 7, 3, False), (40, 4, 3, True), (40, 13, 3, False), (40, 13, 5, True)],
)
@pytest.mark.parametrize("gated", [False, True])
def test_planes_of_short_rows(
    channels: int, row: int, taps: int, is_copied: bool, gated: bool
) -> None:
    """Vectors run along many channels, of a copy; along the rows where that is not worth it."""
    b = Builder.net("planes")
    x = b.input("x", [N, channels, T + taps - 1, row + taps - 1])
    x = b.transpose(x, (0, 2, 3, 1))
    windows = b.windows(b.windows(x, 1, 0, T, 1, taps), 3, 0, row, 1, taps)
    weights = b.broadcast(b.input("w", [taps, taps, channels]), dims_of(windows), (2, 4, 5))
    y = b.reduce("sum", b.mul(b.tanh(windows) if gated else windows, weights), [2, 4])
    program = b.finish({"y": b.transpose(y, (0, 3, 1, 2))})
    [op] = [op for op in as_it_is(program).func.walk() if isinstance(op, kernels.Reduce)]
    assert lanes_of(op) is Lanes.ACROSS
    assert op.dims[-3] == (channels if is_copied else row)
    check(program)


@pytest.mark.parametrize("batch", [1, 40])
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_weights_that_are_turned_round(batch: int, last: bool) -> None:
    """As nets with gradients take them: a copy serves all windows."""
    b = Builder.net("weighted")
    x = b.input("x", [batch, T + 2, 20, 5] if last else [batch, 5, T + 2, 20])
    windows = b.windows(x if last else b.transpose(x, (0, 2, 3, 1)), 1, 0, T, 1, 3)
    weights = b.transpose(b.input("w", [5, 3]), (1, 0))
    spread = b.broadcast(weights, dims_of(windows), (2, 4))
    program = b.finish({"y": b.reduce("sum", b.mul(windows, spread), [2])})
    [op] = [op for op in as_it_is(program).func.walk() if isinstance(op, kernels.Reduce)]
    assert lanes_of(op) is Lanes.ACROSS
    assert {access.strides[-2] for access in op.in_accesses} == ({1} if last else {0, 1})
    check(program)


def test_results_of_planes_become_an_output_with_channels_last() -> None:
    b = Builder.net("planes")
    check(b.finish({"y": over_planes(b, 1)}))


@pytest.mark.parametrize(
    ("depth", "cpu"),
    [(16, None), (64, None), (8, None), (41, None), (48, "x86-64-v3"), (21, "x86-64-v2")],
)
def test_products_of_rows_do_not_depend_on_their_number(depth: int, cpu: str | None) -> None:
    """Lanes run across columns, which are turned round; with few rows, along the terms."""
    b = Builder.net("scores")
    q, k = b.input("q", [2, N, depth]), b.input("k", [2, 37, depth])
    program = b.finish({"y": b.matmul(q, k, transpose_b=True)})
    made = as_it_is(program)
    bare, rng = Bare(made, resolve_target(None, cpu)), np.random.default_rng(depth)
    inputs = {
        "q": rng.standard_normal((2, 11, depth), np.float32),
        "k": rng.standard_normal((2, 37, depth), np.float32),
    }
    inputs["k"][0, 3] = inputs["q"][0, 5] = -0.0
    found = list[Any]()
    for rows in (11, 8, 7, 4, 3, 1):
        own = {**inputs, "q": inputs["q"][:, -rows:].copy()}
        with guards(True) as memory:
            [y] = bare.run(own, {"T": 1, "N": rows}, memory).values()
        np.testing.assert_allclose(y, run(program, own)["y"], 1e-5, 1e-5)
        found.append(y.view(np.int32))
    assert all(np.array_equal(found[0][:, -y.shape[1] :], y) for y in found)
