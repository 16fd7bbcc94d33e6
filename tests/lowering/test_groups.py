"""How much one kernel computes: LLVM's time grows with the square of its code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rnncc.codegen.cpu.library.entries import emit_module
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.ops.base import Cost, cost_of
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Map
from rnncc.kern.library import Library
from rnncc.kern.moves import Pack
from rnncc.lowering.anchors import TURNED
from rnncc.lowering.groups import MOST_FUNCTIONS, MOST_OTHERS, MOST_RESULTS, REPEATED
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.compiling import lower

COUNT = MOST_FUNCTIONS * 5 // 2


def functions(chained: bool) -> Program:
    """Very many functions of one shape, each of the last one's, or all of x, added up."""
    b = Builder.net("functions")
    x = total = b.input("x", ["N", 4])
    for number in range(COUNT):
        scale = b.full_like(x, 1 + number / COUNT)
        y = b.tanh(b.mul(total if chained else x, scale))
        total = y if chained else b.add(total, y)
    return b.finish({"y": total}, {})


@pytest.mark.parametrize("chained", [False, True], ids=["side by side", "chained"])
def test_many_functions(chained: bool) -> None:
    program = functions(chained)
    kernels = lower(program.copy(), Options())
    maps = [op for op in kernels.module.walk() if isinstance(op, Map)]
    counts = [sum(cost_of(op) == Cost.FUNCTION for op in m.body.block.ops) for m in maps]
    assert sum(counts) == COUNT and max(counts) <= MOST_FUNCTIONS
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run({"x": x}, {"N": 3}, memory)
    np.testing.assert_allclose(found["y"], run(program, {"x": x}, sizes={"N": 3})["y"], 1e-5, 1e-6)


def joined(count: int) -> Program:
    """Very many inputs, whose products are parts of one output."""
    b = Builder.net("joined")
    xs = [b.input(f"x{i}", ("N", 4)) for i in range(count)]
    products = [b.mul(x, y) for x, y in zip(xs, [*xs[1:], xs[0]], strict=True)]
    return b.finish({"y": b.concat(products, 0)}, {})


def summed(count: int) -> Program:
    """Very many inputs that are added up."""
    b = Builder.net("summed")
    x, *others = [b.input(f"x{i}", ("N", 4)) for i in range(count)]
    for y in others:
        x = b.add(x, y)
    return b.finish({"y": x}, {})


@pytest.mark.parametrize("make", [joined, summed])
def test_many_values(make: Callable[[int], Program]) -> None:
    count = 2 * MOST_OTHERS + 5
    kernels = lower(make(count), Options())
    maps = [op for op in kernels.module.walk() if isinstance(op, Map)]
    assert max(len(op.outs) for op in maps) <= MOST_RESULTS
    assert max(len(list(op.body.block.ops)) for op in maps) <= MOST_OTHERS + REPEATED + 1
    xs = np.random.default_rng(1).standard_normal((count, 1, 4), np.float32)
    with guards(True) as memory:
        inputs = {f"x{i}": x for i, x in enumerate(xs)}
        [y] = Bare(kernels, resolve_target()).run(inputs, {"N": 1}, memory).values()
    want = xs.cumsum(0)[-1] if make is summed else (xs * np.roll(xs, -1, 0))[:, 0]
    np.testing.assert_allclose(y, want, 1e-5, 1e-5)


def copied(count: int, of_input: bool) -> Program:
    """One value, or an input itself, as very many outputs and as many parts of another one."""
    b = Builder.net("copied")
    x = b.input("x", ("N", 4))
    y = x if of_input else b.tanh(x)
    outputs = {f"y{i}": y for i in range(count)}
    return b.finish({**outputs, "joined": b.concat([y] * count, 0), "z": b.add(y, x)}, {})


@pytest.mark.parametrize("of_input", [False, True])
def test_many_places_of_one_value(of_input: bool) -> None:
    program = copied(2 * MOST_RESULTS + 5, of_input)
    kernels = lower(program.copy(), Options())
    maps = [op for op in kernels.module.walk() if isinstance(op, Map)]
    assert max(len(op.outs) for op in maps) <= MOST_RESULTS
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    with guards(True) as memory:
        outputs = Bare(kernels, resolve_target()).run({"x": x}, {"N": 3}, memory)
    expected = run(program, {"x": x}, sizes={"N": 3})
    assert outputs.keys() == expected.keys()
    for name, y in outputs.items():
        np.testing.assert_allclose(y, expected[name], 1e-6, 1e-6)


@pytest.mark.parametrize("count", [TURNED, TURNED + 1])
def test_sums_of_many_are_turned_round_behind_them(count: int) -> None:
    b = Builder.net("turned")
    x, *others = [b.input(f"x{i}", ("N", 5, 16)) for i in range(count)]
    for y in others:
        x = b.add(x, y)
    kernels = lower(b.finish({"y": b.transpose(x, [0, 2, 1])}), Options())
    maps = [op for op in kernels.module.walk() if isinstance(op, Map)]
    assert len(maps) == (1 if count == TURNED else 2)


@pytest.mark.parametrize("taps", [1, 3])
def test_rows_of_bytes_are_made_where_they_lie_side_by_side(taps: int) -> None:
    """The map that makes bytes of an image turns them round: no product reads them one by one."""
    b = Builder.net("bytes")
    x = b.input("x", ("N", 64, 20), "u8")
    small = b.sub(b.cast(x, "i32"), b.full_like(b.cast(x, "i32"), 128))
    rows = b.transpose(b.cast(small, "i8"), [0, 2, 1])
    windows = b.windows(rows, 1, 0, 20 - taps + 1, 1, taps, 1)
    rows = b.reshape(windows, (*dims_of(windows)[:2], 64 * taps))
    w = np.random.default_rng(1).integers(-100, 100, (64 * taps, 16)).astype(np.int8)
    y = b.matmul(rows, b.param("w", w.shape, "i8"))
    kernels = lower(b.finish({"y": y}, {"w": w}), Options())
    first = next(op for op in kernels.module.walk() if isinstance(op, Map))
    [made] = first.out_accesses
    assert made.strides[-1] == 1 and first.in_accesses[0].strides[-1] == 20
    x_value = np.random.default_rng(2).integers(0, 256, (2, 64, 20)).astype(np.uint8)
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run({"x": x_value}, {"N": 2}, memory)["y"]
    turned = x_value.astype(np.int32).transpose(0, 2, 1) - 128
    parts = [turned[:, i : i + 20 - taps + 1] for i in range(taps)]
    np.testing.assert_array_equal(found, np.concatenate(parts, 2) @ w.astype(np.int32))


def test_no_loop_without_iterations() -> None:
    """Of 4 elements there is no vector of 16, and no code for one."""
    b = Builder.net("four")
    program = b.finish({"y": b.tanh(b.input("x", [4]))}, {})
    kernels = lower(program, Options(cpu="x86-64-v4"))
    module = emit_module(Library.of(kernels), resolve_target("x86-64-v4"), {}).module
    assert "<4 x float>" in str(module) and "<16 x float>" not in str(module)


@pytest.mark.parametrize("reads", ["alone", "both", "function", "first"])
def test_rows_of_an_epilogue_that_are_shifted(reads: str) -> None:
    """They are read behind the product's kernel, by others or by nobody else."""
    b = Builder.net("shifted")
    x, h, w = b.input("x", ["T", "N", 3]), b.input("h", ["N", 3]), b.param("w", [3, 4])
    rows, first = b.tanh(b.matmul(x, w)), b.tanh(b.matmul(h, w))
    shifted = b.shift(rows, first, reverse=reads == "first")
    outputs = {"y": b.sigmoid(shifted) if reads == "function" else shifted}
    outputs |= {"rows": rows} if reads != "alone" else {}
    program = b.finish(outputs, {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)})
    rng, code = np.random.default_rng(0), Bare(lower(program.copy(), Options()), resolve_target())
    for steps in (0, 1, 4):
        sizes = {"T": steps, "N": 2}
        shapes = {"x": (steps, 2, 3), "h": (2, 3)}
        inputs = {name: rng.standard_normal(s, np.float32) for name, s in shapes.items()}
        with guards(True) as memory:
            found = code.run(inputs, sizes, memory)
        for name, want in run(program, inputs, sizes=sizes).items():
            np.testing.assert_allclose(found[name], want, 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("others", [False, True], ids=["one reader", "two"])
def test_heads_are_computed_where_they_stand_side_by_side(others: bool) -> None:
    """As the product behind them reads them; where another reads them too, they are copied."""
    b = Builder.net("heads")
    parts = b.matmul(b.input("p", [2, "S", "S"]), b.input("v", [2, "S", 3]))
    turned = b.transpose(parts, [1, 0, 2])
    rows = b.reshape(turned, ["S", 6])
    w = np.arange(24, dtype=np.float32).reshape(6, 4)
    outputs = {"y": b.matmul(rows, b.param("w", [6, 4]))} | ({"z": turned} if others else {})
    program = b.finish(outputs, {"w": w})
    kernels = lower(program.copy(), Options())
    assert sum(isinstance(op, Map) for op in kernels.module.walk()) == others
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal((2, 5, size), np.float32)
        for name, size in zip("pv", (5, 3), strict=True)
    }
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run(inputs, {"S": 5}, memory)
    for name, want in run(program, inputs, sizes={"S": 5}).items():
        np.testing.assert_allclose(found[name], want, 1e-5, 1e-5)


def test_parts_of_what_a_kernel_of_its_level_leaves_are_read_behind_it() -> None:
    """Of an expression too, whose readers have the shape of an earlier kernel."""
    b = Builder.net("parts")
    x = b.input("x", ["N", 6])
    early = b.tanh(b.matmul(x, b.param("u", [6, 1])))
    wide = b.tanh(b.matmul(x, b.param("w", [6, 4])))
    late = b.exp(b.slice(b.add(wide, wide), 1, 2, 1))
    rng = np.random.default_rng(0)
    arrays = {"u": rng.standard_normal((6, 1), np.float32), "w": rng.random((6, 4), np.float32)}
    program = b.finish({"early": early, "wide": wide, "late": late}, arrays)
    inputs = {"x": rng.standard_normal((3, 6), np.float32)}
    with guards(True) as memory:
        found = Bare(as_it_is(program), resolve_target()).run(inputs, {"N": 3}, memory)
    for name, want in run(program, inputs).items():
        np.testing.assert_allclose(found[name], want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("rows", "matrix", "packs"), [(1, "input", 0), (2, "input", 1), (1, "param", 1)]
)
def test_one_row_times_a_computed_matrix_is_read_where_it_is(
    rows: int, matrix: str, packs: int
) -> None:
    """To pack it would take longer than the product. Parameters are packed, in training too."""
    b = Builder.net("row")
    x = b.input("x", [rows, 40])
    keys = b.exp(b.input("k", [24, 40])) if matrix == "input" else b.param("k", [24, 40])
    program = b.finish({"y": b.matmul(x, keys, transpose_b=True)}, {})
    kernels = lower(program.copy(), Options())
    assert sum(isinstance(op, Pack) for op in kernels.module.walk()) == packs
    rng = np.random.default_rng(0)
    inputs = {
        n: rng.standard_normal(s, np.float32) for n, s in (("x", (rows, 40)), ("k", (24, 40)))
    }
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run(inputs, {}, memory)
    np.testing.assert_allclose(found["y"], run(program, inputs)["y"], 1e-5, 1e-5)


def test_a_state_that_the_next_step_reads_is_kept_rather_than_its_gates() -> None:
    """Of steps that stand one behind the other: each cell state is one buffer, not three."""
    b = Builder.net("steps")
    w = np.random.default_rng(0).standard_normal((4, 16), np.float32)
    h = c = b.input("x", ["N", 4])
    weights = b.param("w", w.shape)
    for _ in range(3):
        product = b.matmul(h, weights)
        i, f, g, o = (b.slice(product, 1, 4 * gate, 4) for gate in range(4))
        c = b.add(b.mul(b.sigmoid(f), c), b.mul(b.sigmoid(i), b.tanh(g)))
        h = b.mul(b.sigmoid(o), b.tanh(c))
    program = b.finish({"y": h}, {"w": w})
    kernels = lower(program.copy(), Options())
    scratch = [op for op in kernels.module.walk() if isinstance(op, Buffer) and is_scratch(op)]
    assert len(scratch) == 4  # h and c of two steps
    x = np.random.default_rng(1).standard_normal((7, 4), np.float32)
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run({"x": x}, {"N": 7}, memory)
    np.testing.assert_allclose(found["y"], run(program, {"x": x}, sizes={"N": 7})["y"], 1e-5, 1e-6)


def test_what_is_broadcast_is_kept_rather_than_what_it_is_joined_into() -> None:
    b = Builder.net("outer")
    x, w = b.input("x", ["N", 8]), b.param("w", (8, 8))
    ones = [b.tanh(b.reshape(b.slice(x, 1, unit, 1), ["N"])) for unit in range(2)]
    rows = [b.broadcast(one, ["N", 8], [0]) for one in ones]
    v = b.mul(b.add(rows[0], x), rows[1])
    program = b.finish({"y": b.mul(b.matmul(b.sin(v), w), v)}, {"w": np.eye(8, dtype=np.float32)})
    kernels = lower(program.copy(), Options())
    sizes = [op.size.data for op in kernels.module.walk() if isinstance(op, Buffer)]
    assert sorted(sizes).count("8*N") == 3  # x, y, the product's operand


def is_scratch(op: Buffer) -> bool:
    return op.role.data == "scratch" and bool(op.y.uses)
