from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.kern.dialect import Buffer
from rnncc.kern.interpreter import run
from rnncc.kern.kernels import Contract, Index, Reduce, ShiftedRows
from rnncc.kern.moves import Pack, Reverse
from rnncc.kern.packing import PackedGeometry, unpack
from rnncc.kern.program import KernelProgram
from rnncc.planning.layout import plan
from tests.kern_samples import Kern, N, T, lstm, port, region, row_major, strided

RNG = np.random.default_rng(1)


def lstm_inputs(steps: int, batch: int, hidden: int, depth: int) -> dict[str, np.ndarray]:
    shapes = {"x": (steps, batch, depth), "h0": (batch, hidden), "c0": (batch, hidden)}
    return {name: RNG.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def lstm_reference(
    program: KernelProgram, inputs: dict[str, np.ndarray], hidden: int, depth: int
) -> dict[str, np.ndarray]:
    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    w = unpack(program.arrays["w"], PackedGeometry(depth, 4, 4), hidden)
    u = unpack(program.arrays["u"], PackedGeometry(hidden, 4, 4), hidden)
    h, c, rows = inputs["h0"], inputs["c0"], []
    for x in inputs["x"]:
        i, f, o, g = (x @ a.T + h @ b.T for a, b in zip(w, u, strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    every = np.array(rows, "f4").reshape(len(rows), *h.shape)
    return {"hidden_all": every, "hidden_last": h}


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (1, 1), (7, 3), (9, 20)])
def test_lstm(steps: int, batch: int, planned: bool) -> None:
    program = lstm(6, 5)
    if planned:
        plan(program)
    inputs = lstm_inputs(steps, batch, 6, 5)
    want = lstm_reference(program, inputs, 6, 5)
    got = run(program, inputs)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-5, 1e-5)


def test_a_ring_stands_in_for_an_absent_output() -> None:
    program = lstm(6, 5)
    plan(program)
    inputs = lstm_inputs(7, 3, 6, 5)
    got = run(program, inputs, absent={"hidden_all"})
    assert list(got) == ["hidden_last"]
    want = lstm_reference(program, inputs, 6, 5)["hidden_last"]
    np.testing.assert_allclose(got["hidden_last"], want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("rows", "reverse", "firsts", "iterations"),
    [
        (3, False, [0, 0, 2, 2, 4], [0, 0, 1, 1, 2]),
        (3, True, [0, 0, 2, 2, 4], [2, 2, 1, 1, 0]),
        (9, True, [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]),
        (0, False, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    ],
)
def test_chunks(rows: int, reverse: bool, firsts: list[int], iterations: list[int]) -> None:
    """As many steps an iteration as make 8 rows, at least one; in reverse, the last come first."""
    k = Kern()
    y = k.buffer("y", "output", T * 2, "i32")
    iteration = k.buffer("iteration", "state", 1, "i32")
    k.map([], [], [(iteration, strided())], lambda b: [b.fill(0, (), "i32")])

    def body(k: Kern) -> list:
        here = k.row(y, Dim.of("t"), 2)
        k.map(
            [Dim.of("run")],
            [(iteration, strided(0))],
            [(here, strided(2)), (here, strided(2, offset=1))],
            lambda b, n: [b.size(Dim.of("t"), "i32"), n],
        )
        ins = [(iteration, strided())]
        k.map([], ins, ins, lambda b, n: [b.add(n, b.fill(1, (), "i32"))])
        return []

    k.loop("t", T, [], body, reverse=reverse, chunk=("run", 8, Dim.of(rows)))
    got = run(k.program([], [port("y", T, 2, dtype="i32")]), {}, {"T": 5, "N": 1})["y"]
    assert got.T.tolist() == [firsts, iterations]


def test_carried_buffers_swap() -> None:
    k = Kern()
    a, b = k.buffer("a", "output", 1), k.buffer("b", "output", 1)
    for value, buffer in enumerate((a, b)):
        k.map([], [], [(buffer, strided())], lambda b, v=value: [b.fill(v, ())])

    def body(k: Kern, x, y) -> list:
        ins = [(x, strided()), (y, strided())]
        k.map([], ins, ins[1:], lambda b, p, q: [b.add(p, q)])
        return [y, x]

    k.loop("t", T, [a, b], body)
    got = run(k.program([], [port("a"), port("b")]), {}, {"T": 5})
    assert (got["a"], got["b"]) == (3, 5)


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize(
    ("kind", "empty", "reference"),
    [("sum", 0, np.sum), ("max", -np.inf, np.max), ("min", np.inf, np.min)],
)
def test_reduce(kind: str, empty: float, reference, count: int) -> None:
    k = Kern()
    x, y = k.buffer("x", "input", N * T), k.buffer("y", "output", N)
    ins = [(x, strided(T, 1))]
    k.add(Reduce(kind, 1, [N, T], ins, (y, strided(1)), region(ins, lambda b, v: [b.neg(v)])))
    program = k.program([port("x", N, T)], [port("y", N)])
    x = RNG.standard_normal((3, count)).astype("f4")
    want = reference(-x, 1) if count else np.full(3, empty)
    np.testing.assert_allclose(run(program, {"x": x})["y"], want, 1e-6)


def test_pack_feeds_a_product() -> None:
    """Weights that the caller gives: W is [depth, units] here, so that u strides by 1."""
    k = Kern()
    x, w, y = (
        k.buffer("x", "input", N * 3),
        k.buffer("w", "input", 15),
        k.buffer("y", "output", N * 5),
    )
    packed = k.buffer("packed", "scratch", 15 + 8)
    k.add(Pack([(w, strided(1, 5))], packed, 5, PackedGeometry(3, 1, 4)))
    outs = [(y, row_major([N, 5]))]
    k.gemm(
        [N, 5], (x, row_major([N, 3])), packed, PackedGeometry(3, 1, 4), [], outs, lambda b, z: [z]
    )
    program = k.program([port("x", N, 3), port("w", 3, 5)], [port("y", N, 5)])
    plan(program)
    x, w = RNG.standard_normal((2, 3)).astype("f4"), RNG.standard_normal((3, 5)).astype("f4")
    np.testing.assert_allclose(run(program, {"x": x, "w": w})["y"], x @ w, 1e-5)


def test_an_input_may_have_a_default() -> None:
    k = Kern()
    x, y = k.buffer("x", "input", 3), k.buffer("y", "output", 3)
    assert isinstance(x.owner, Buffer)
    x.owner.default = StringAttr("given")
    k.buffer("given", "param", 3)
    k.copy([3], x, y)
    program = k.program([port("x", 3)], [port("y", 3)], {"given": np.array([1, 2, 3], "f4")})
    plan(program)
    assert run(program, {})["y"].tolist() == [1, 2, 3]
    assert run(program, {"x": np.zeros(3)})["y"].tolist() == [0, 0, 0]


def reverse_program() -> KernelProgram:
    k = Kern()
    x, y = k.buffer("x", "input", T * N * 2), k.buffer("y", "output", T * N * 2)
    lengths = k.buffer("lengths", "input", N, "i32")
    k.add(Reverse(x, lengths, y, (T, N, Dim.of(2))))
    ports = [port("x", T, N, 2), port("lengths", N, dtype="i32")]
    return k.program(ports, [port("y", T, N, 2)])


def test_reverse() -> None:
    x = np.arange(16, dtype="f4").reshape(4, 2, 2)
    got = run(reverse_program(), {"x": x, "lengths": np.array([3, 0])})["y"]
    np.testing.assert_array_equal(got[:, 0], x[[2, 1, 0, 3], 0])
    np.testing.assert_array_equal(got[:, 1], x[:, 1])


@pytest.mark.parametrize("length", [-1, 5])
def test_reverse_refuses_lengths_outside_of_the_sequence(length: int) -> None:
    inputs = {"x": np.zeros((4, 1, 2), "f4"), "lengths": np.array([length])}
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        run(reverse_program(), inputs)


def test_index_and_size_in_a_region() -> None:
    k = Kern()
    y = k.buffer("y", "output", T * N, "i32")

    def point(b: Builder) -> list:
        index = Index(0, "i32")
        b.block.add_op(index)
        return [b.mul(index.y, b.size(N * 2, "i32"))]

    k.map([T, N], [], [(y, row_major([T, N]))], point)
    got = run(k.program([], [port("y", T, N)]), {}, {"T": 3, "N": 2})["y"]
    assert got.tolist() == [[0, 0], [4, 4], [8, 8]]


def copy_with(read: int, write: int) -> KernelProgram:
    """Copies four elements of six, from one offset to another."""
    k = Kern()
    x, y = k.buffer("x", "input", 6), k.buffer("y", "output", 6)
    places = [(x, strided(1, offset=read)), (y, strided(1, offset=write))]
    k.map([4], places[:1], places[1:], lambda b, v: [v])
    return k.program([port("x", 6)], [port("y", 6)])


@pytest.mark.parametrize(("read", "write"), [(-1, 0), (3, 0), (0, -1), (0, 3)])
def test_an_access_outside_of_a_buffer_is_caught(read: int, write: int) -> None:
    with pytest.raises(AssertionError, match="of a buffer of 6"):
        run(copy_with(read, write), {"x": np.zeros(6)})


def test_fresh_memory_is_nan() -> None:
    got = run(copy_with(2, 1), {"x": np.arange(6)})["y"]
    np.testing.assert_array_equal(got, [np.nan, 2, 3, 4, 5, np.nan])


def test_two_points_that_write_one_element_are_caught() -> None:
    k = Kern()
    y = k.buffer("y", "output", 1)
    k.map([3], [], [(y, strided(0))], lambda b: [b.fill(1, ())])
    with pytest.raises(AssertionError, match="several points"):
        run(k.program([], [port("y")]), {})


def test_a_kernel_reads_a_point_before_it_writes_it() -> None:
    """Two outputs in one memory's place: x, y = y, x."""
    k = Kern()
    y = k.buffer("y", "output", 2)
    k.map([2], [], [(y, strided(1))], lambda b: [b.size(N, "f32")])
    first, second = (y, strided()), (y, strided(offset=1))
    k.map([], [], [first], lambda b: [b.fill(1, ())])
    k.map([], [first, second], [first, second], lambda b, p, q: [q, p])
    assert run(k.program([], [port("y", 2)]), {}, {"N": 7})["y"].tolist() == [7, 1]


@pytest.mark.parametrize(("short", "offset"), [("a", 0), ("b", 0), ("first", 0), ("", 1)])
def test_a_sum_of_products_outside_of_a_buffer_is_caught(short: str, offset: int) -> None:
    k, sizes = Kern(), {"a": 12, "b": 8, "first": 3, "y": 6, "room": 4}
    names = [
        k.buffer(name, "output" if name == "y" else "input", size - (name == short))
        for name, size in sizes.items()
    ]
    a, b, first, y, room = names
    places = (a, strided(3, 1, offset=offset)), (b, strided(2, 1))
    shifted = ShiftedRows(first, Dim.of(1), late=True, of_b=False)
    dims = Dim.of(4), Dim.of(3), Dim.of(2)
    k.add(Contract(dims, *places, y, (room, 4), first=shifted))
    inputs = {n: np.zeros(size - (n == short)) for n, size in sizes.items() if n != "y"}
    ports = [port(name, len(array)) for name, array in inputs.items()]
    with pytest.raises(AssertionError, match="of a buffer of"):
        run(k.program(ports, [port("y", 6)]), inputs)
