"""Rows by number, windows, and the elementwise functions beside them: code against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import Model, ModelError, Pool, RunError, TrainableModel
from xdsl.ir import SSAValue

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import in_memory
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import NUMPY, dims_of
from rnncc.kern import interpreter as kern_interpreter
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.compiling import optimise, text_of
from tests.golden import Arrays
from tests.teams import check_threads, insistent

T, N = Dim.of("T"), Dim.of("N")
Make = Callable[[Builder, SSAValue], SSAValue]
SIZES = {"T": 7, "N": 3}


def check(program: Program, inputs: Arrays) -> None:
    """Code, kernels and interpreter agree."""
    want = run(program, inputs, sizes=SIZES)
    made = as_it_is(program)
    for end in (False, True):
        with guards(end) as memory:
            got = Bare(made, resolve_target()).run(inputs, SIZES, memory)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-5, 1e-6)
        found = kern_interpreter.run(made, inputs, SIZES)[name]
        np.testing.assert_allclose(found, array, 1e-5, 1e-6)


def of_x(dims: list[Any], make: Make, dtype: str = "f32") -> Program:
    b = Builder.net("made")
    return b.finish({"y": make(b, b.input("x", dims, dtype))})


def filtered(b: Builder, x: SSAValue, axis: int, count: Dim, stride: int = 1) -> SSAValue:
    """Sums over windows of 3 by 2, each element with a weight of its own."""
    x = b.windows(x, axis, 0, count, stride, 3)
    x = b.windows(x, axis + 2, 0, 4, 2, 2)
    weights = np.random.default_rng(2).standard_normal([1, 3, 1, 2, 20][: len(dims_of(x)) - axis])
    return b.reduce("sum", b.mul(x, b.constant(weights.astype(np.float32))), [axis + 1, axis + 3])


WINDOWS: dict[str, tuple[list[Any], Make]] = {
    "overlapping": ([2, 9], lambda b, x: b.windows(x, 1, 0, 4, 2, 3)),
    "of sums": ([2, 9], lambda b, x: b.windows(b.add(x, x), 1, 1, 3, 2, 2, 3)),
    "every third": ([10, 2], lambda b, x: b.windows(x, 0, 0, 4, 3)),
    "of rows of unknown number": ([N, 9, 2], lambda b, x: b.windows(x, 1, 2, 3, 1, 4)),
    "along unknown length": ([N, T], lambda b, x: b.windows(x, 1, 0, T - 2, 1, 3)),
    "added up": ([2, 9], lambda b, x: b.reduce("max", b.windows(x, 1, 0, 4, 2, 3), [2])),
    "of windows": ([3, 8], lambda b, x: b.windows(b.windows(x, 1, 0, 3, 2, 4), 2, 0, 2, 2)),
    "of both, for channels": ([N, 9, 8, 20], lambda b, x: filtered(b, x, 1, Dim.of(7))),
    "of both, some left": ([N, 13, 8, 20], lambda b, x: filtered(b, x, 1, Dim.of(6), 2)),
    "of both, along unknown length": ([N, T, 8, 20], lambda b, x: filtered(b, x, 1, T - 2)),
    "of both, for columns": (
        [N, 9, 40],
        lambda b, x: b.reduce(
            "max", b.windows(b.windows(x, 1, 0, 7, 1, 3), 3, 0, 38, 1, 3), [2, 4]
        ),
    ),
    "into a product, in runs": (
        [N, T, 4],
        lambda b, x: b.matmul(
            b.reshape(b.windows(x, 1, 0, T - 4, 1, 3, 2), (N, T - 4, 12)), b.param("w", (12, 17))
        ),
    ),
    "of both, into a product": (
        [N, 2, 9, 8],
        lambda b, x: b.matmul(
            b.reshape(
                b.transpose(
                    b.windows(b.windows(x, 2, 0, 7, 1, 3), 4, 0, 4, 2, 2), [0, 2, 4, 1, 3, 5]
                ),
                (N, 7, 4, 12),
            ),
            b.param("w", (12, 17)),
        ),
    ),
    "into a product": (
        [2, 20, 3],
        lambda b, x: b.matmul(
            b.reshape(b.windows(x, 1, 0, 5, 4, 4), (2, 5, 12)), b.param("w", (12, 17))
        ),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    dims, make = WINDOWS[name]
    program, rng = of_x(dims, make), np.random.default_rng(0)
    shape = [Dim.of(d).evaluate(SIZES) for d in dims]
    inputs = {"x": rng.standard_normal(shape).astype(np.float32)}
    for param in program.params:
        inputs[param] = rng.standard_normal((12, 17)).astype(np.float32)
    check(program, inputs)


def table(axis: int, index: list[Any], dtype: str = "i64", of_sums: bool = False) -> Program:
    b = Builder.net("table")
    x, i = b.input("x", [4, 5, 37]), b.input("i", index, dtype)
    x = b.add(x, x) if of_sums else x
    return b.finish({"y": b.gather(x, i, axis)})


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize(
    ("axis", "index"), [(0, [T, N]), (1, [6]), (2, [2, 3]), (1, []), (0, [0])], ids=str
)
def test_gather(axis: int, index: list[Any], dtype: str) -> None:
    rng = np.random.default_rng(1)
    shape = [Dim.of(d).evaluate(SIZES) for d in index]
    numbers = rng.integers(0, (4, 5, 37)[axis], shape).astype({"i32": "i4", "i64": "i8"}[dtype])
    inputs = {"x": rng.standard_normal((4, 5, 37)).astype(np.float32), "i": numbers}
    check(table(axis, index, dtype), inputs)
    check(table(axis, index, dtype, of_sums=True), inputs)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize(
    ("axis", "index"), [(0, [T, N]), (1, [6]), (2, [2, 3]), (1, []), (0, [0])], ids=str
)
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_scatter(axis: int, index: list[Any], dtype: str, kind: str) -> None:
    """Rows that have the same number are folded, from zero and from something."""
    dims: list[Any] = [4, 5, 37]
    rng = np.random.default_rng(1)
    for start in (0.0, None):
        b = Builder.net("sums")
        z, i = b.input("z", dims), b.input("i", index, dtype)
        x = b.input("x", [*dims[:axis], *index, *dims[axis + 1 :]])
        init = b.sin(z) if start is None else b.full_like(z, start)
        program = b.finish({"y": b.scatter(kind, init, b.add(x, x), i, axis)})
        shape = [Dim.of(d).evaluate(SIZES) for d in index]
        numbers = rng.integers(0, dims[axis], shape).astype({"i32": "i4", "i64": "i8"}[dtype])
        rows = [*dims[:axis], *shape, *dims[axis + 1 :]]
        arrays = {"x": rng.standard_normal(rows), "z": rng.standard_normal(dims)}
        check(program, {"i": numbers, **{n: a.astype(np.float32) for n, a in arrays.items()}})


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_scatter_of_integers(dtype: str, kind: str) -> None:
    b = Builder.net("sums")
    z, x = b.input("z", [4, N], dtype), b.input("x", [T, N], dtype)
    program = b.finish({"y": b.scatter(kind, z, x, b.input("i", [T], "i64"), 0)})
    rng = np.random.default_rng(3)
    whole = {"i32": np.int32, "i64": np.int64}[dtype]
    arrays = {
        n: rng.integers(-(2**30), 2**30, s).astype(whole)
        for n, s in (("z", (4, SIZES["N"])), ("x", (SIZES["T"], SIZES["N"])))
    }
    check(program, {**arrays, "i": rng.integers(0, 4, SIZES["T"])})


@pytest.mark.parametrize("width", [1, 3, 16, 37])
@pytest.mark.parametrize("dtype", ["f32", "i8", "i1"])
def test_reversed_columns(width: int, dtype: str) -> None:
    """In vectors, and rows by several threads; a length beyond the last row ends all of them."""
    b = Builder.net("made")
    x, lengths = b.input("x", [T, N, width], dtype), b.input("lengths", [N], "i32")
    program = b.finish({"y": b.reverse_segments(x, lengths)})
    rng = np.random.default_rng(0)
    inputs: Arrays = {"x": rng.integers(-9, 9, (7, 3, width)).astype(NUMPY[dtype])}
    inputs["lengths"] = np.array([0, 7, 4], np.int32)
    check(program, inputs)
    if dtype == "f32":
        options = Options.of(program, {"threads": True})
        model = in_memory.compile_in_memory(program, None, options)
        assert isinstance(model, Model)
        check_threads(model, inputs)
        inputs["lengths"][1] = 8
        with Pool(2) as pool, pytest.raises(RunError, match="length"):
            insistent(model).run(inputs, pool=pool)


@pytest.mark.parametrize("bad", [-1, 4, 2**40])
def test_nothing_is_added_to_a_row_that_is_not_there(bad: int) -> None:
    b = Builder.net("sums")
    x, i = b.input("x", [N, 5]), b.input("i", [N], "i64")
    program = b.finish({"y": b.scatter("sum", b.fill(0.0, [4, 5]), x, i, 0)})
    model = in_memory.compile_in_memory(program, None, Options.of(program, {}))
    inputs = {"x": np.zeros((2, 5), np.float32), "i": np.array([1, bad])}
    with pytest.raises(ModelError, match="an index is outside of its table"):
        model.run(inputs)


@pytest.mark.parametrize("bad", [-1, 4, 2**40])
def test_a_row_that_is_not_there_ends_the_call(bad: int) -> None:
    program = table(0, [N])
    model = in_memory.compile_in_memory(program, None, Options.of(program, {}))
    inputs = {"x": np.zeros((4, 5, 37), np.float32), "i": np.array([1, bad])}
    with pytest.raises(ModelError, match="an index is outside of its table"):
        model.run(inputs)
    with pytest.raises(ValueError, match=r"an index outside of 0..3"):
        run(program, inputs)
    with pytest.raises(ValueError, match=r"an index outside of 0..3"):
        kern_interpreter.run(as_it_is(program), inputs, {"N": 2})


def test_many_lookups_that_may_end_the_call() -> None:
    """LLVM's NewGVN gave up the process where 50 loops could return."""
    b = Builder.net("chased")
    x, i = b.input("x", [4], "i64"), b.input("i", [3], "i64")
    for _ in range(60):
        i = b.gather(x, i, 0)
    program = b.finish({"y": i})
    model = in_memory.compile_in_memory(program, None, Options.of(program, {}))
    inputs = {"x": np.array([1, 2, 3, 0]), "i": np.array([2, 3, 1])}
    np.testing.assert_array_equal(model.run(inputs)["y"], inputs["i"])
    with pytest.raises(ModelError, match="an index is outside of its table"):
        model.run({**inputs, "x": np.array([1, 2, 3, 4])})


def test_rows_by_number_leave_a_loop() -> None:
    """An embedding within a loop becomes one product for all steps."""

    def body(b: Builder, ks: Any, carry: Any, rows: Any) -> Any:
        found = b.gather(ks[0], rows[0], 0)
        return [b.tanh(b.add(carry[0], b.matmul(found, ks[1])))], [carry[0]]

    b = Builder.net("embedding")
    consts = [b.param("e", [6, 5]), b.param("w", [5, 5])]
    x = b.input("x", [T, N], "i64")
    finals, ys = b.scan(consts, [b.input("h", [N, 5])], [x], body)
    program = b.finish({"h1": finals[0], "y": ys[0]})
    rng = np.random.default_rng(2)
    inputs: Arrays = {
        "x": rng.integers(0, 6, (7, 3)),
        "h": rng.standard_normal((3, 5)).astype(np.float32),
    }
    known = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("e", (6, 5)), ("w", (5, 5)))
    }
    want = run(program, {**inputs, **known})
    program.arrays.update(known)
    model = in_memory.compile_in_memory(program, None, Options.of(program, {}))
    for name, array in model.run(inputs).items():
        np.testing.assert_allclose(array, want[name], 1e-5, 1e-6)
    optimised = optimise(program.copy(), Options(name="embedding"))
    assert "rnn.matmul" in str(optimised.module).split("rnn.scan")[0]


def test_gradient_of_rows_that_a_loop_chooses() -> None:
    """Each step reads the row that the step before chose: its gradient is added in place."""

    def body(b: Builder, ks: Any, carry: Any, rows: Any) -> Any:
        h = b.tanh(b.add(b.gather(ks[0], carry[1], 0), b.add(carry[0], rows[0])))
        total = b.reduce("sum", h, [1])
        chosen = b.add(b.cast(b.compare("lt", b.full_like(total, 0.0), total), "i64"), carry[1])
        return [h, b.sub(chosen, b.cast(b.compare("lt", b.full_like(chosen, 4), chosen), "i64"))], [
            h
        ]

    b = Builder.net("decoder")
    consts = [b.param("e", [6, 5])]
    inits = [b.input("h", [N, 5]), b.input("i", [N], "i64")]
    _, ys = b.scan(consts, inits, [b.input("x", [T, N, 5])], body)
    program = b.finish({"y": ys[0]})
    rng = np.random.default_rng(2)
    program.arrays["e"] = rng.standard_normal((6, 5)).astype(np.float32)
    inputs: Arrays = {
        "x": rng.standard_normal((7, 3, 5)).astype(np.float32),
        "h": rng.standard_normal((3, 5)).astype(np.float32),
        "i": np.array([0, 3, 3]),
    }
    dy = {"y": rng.standard_normal((7, 3, 5)).astype(np.float32)}
    options = Options(name="decoder", train=True)
    text = text_of(program.copy(), None, options, "kern")
    assert text.count("kern.scatter") == 1
    model = in_memory.compile_in_memory(program, None, options)
    assert isinstance(model, TrainableModel)
    _, tape = model.forward(inputs)
    grads = model.backward(tape, dy)
    taken = np.zeros(3)
    for n, row in enumerate(inputs["i"]):
        bump = 1e-2 * rng.standard_normal(5).astype(np.float32)
        e = model.parameters["e"]
        e[row] += bump
        after, _ = model.forward(inputs)
        e[row] -= 2 * bump
        before, _ = model.forward(inputs)
        e[row] += bump
        taken[n] = ((after["y"] - before["y"]) * dy["y"]).sum() / 2
        np.testing.assert_allclose(taken[n], grads["e"][row] @ bump, 2e-2, 2e-4)
    np.testing.assert_array_equal(grads["e"][5], 0)


ELEMENTWISE: dict[str, Make] = {
    "sin": Builder.sin,
    "cos": Builder.cos,
    **{
        kind: (lambda b, x, kind=kind: b.round(kind, x))
        for kind in ("floor", "ceil", "even", "trunc")
    },
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    halves = np.arange(-60, 61, dtype=np.float32) / 2
    check(of_x([121], ELEMENTWISE[name]), {"x": halves})
    check(of_x([121], ELEMENTWISE[name]), {"x": halves * np.float32(0.37)})


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_division_of_integers(dtype: str) -> None:
    b = Builder.net("divided")
    x, z = (b.input(name, [83], dtype) for name in ("x", "z"))
    numpy = {"i32": np.int32, "i64": np.int64}[dtype]
    edge = np.iinfo(numpy)
    rng = np.random.default_rng(3)
    inputs = {
        "x": np.array([7, -7, 7, -7, edge.min, 5, edge.max, *rng.integers(-99, 99, 12)], numpy),
        "z": np.array([2, 2, -2, -2, -1, 0, -1, *rng.integers(-9, 9, 12)], numpy),
    }
    # next to whole quotients, where doubles that divide numbers of 32 bits might round
    divisors = rng.integers(2, 1 << 15, 64)
    above = rng.integers(1 << 14, 1 << 16, 64) * divisors + rng.integers(-1, 2, 64)
    for name, more in (("x", np.where(rng.random(64) < 0.5, above, -above)), ("z", divisors)):
        inputs[name] = np.concatenate([inputs[name], more.astype(numpy)])
    program = b.finish({"y": b.div(x, z)})
    check(program, inputs)
    y = run(program, inputs)["y"]
    assert y[:6].tolist() == [3, -3, -3, 3, edge.min, 0]


def test_windows_of_as_many_rows_as_are_computed_together() -> None:
    """No row is left, and with threads how many there are of one is no constant."""
    b = Builder.net("pool")
    rows = b.windows(b.input("x", [6, 40]), 0, 0, Dim.of(4), 1, 3)
    y = b.reduce("max", b.windows(rows, 2, 0, Dim.of(38), 1, 3), [1, 3])
    model = rnncc.compile(b.finish({"y": y}), threads=True)
    x = np.random.default_rng(5).standard_normal((6, 40), np.float32)
    want = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max((2, 3))
    with rnncc_runtime.Pool(2) as pool:
        np.testing.assert_array_equal(model.run({"x": x}, pool=pool)["y"], want)
