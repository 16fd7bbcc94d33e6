"""Training in bf16 on tensor cores, under the emulator: what it means, by whatever blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.codegen.nvptx import rounding
from rnncc.codegen.nvptx.tensor_cores import product as tensor_product
from rnncc.ir.dims import Dim
from rnncc.ir.precision import rounded
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.kernels import Map
from rnncc.kern.library import Library
from rnncc.planning.layout import plan
from rnncc.planning.phases import NamedMemory, phases
from tests.golden import Arrays
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.libcuda import Emulator
from tests.gpu.nets import quiet_emulator
from tests.kern_samples import Kern, N, T, port, row_major
from tests.precision.nets import ONE_OFF, assert_near, drawn, product

CELLS = {
    "lstm": lambda: rnncc.cells.lstm(20, 40, layout="TNC"),
    "gru": lambda: rnncc.cells.gru(12, 40, layout="TNC"),
    "odd lstm": lambda: rnncc.cells.lstm(7, 37, layout="TNC"),
    "graves": lambda: rnncc.cells.graves_lstm(9, 24, layout="TNC"),
    "rnn": lambda: rnncc.cells.elman(16, 72, layout="TNC"),
    "whole": lambda: rnncc.cells.elman(16, 72, layout="TNC", activation="relu"),
}
GRIDS = [(256, 3), (64, 3), (256, 20)]
"""Threads of a block, and blocks: too few to hold all weights, then enough."""
HANDED_ON = ("lstm", "gru", "graves", "rnn")
"""Cells whose backward loop is a map and its product, of rows that are fours of k."""


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


@cache
def low(cell: str) -> Library:
    return library_of(CELLS[cell](), train=True, precision="bf16")


@cache
def net_of(cell: str, grid: tuple[int, int]) -> DeviceNet:
    return DeviceNet(low(cell), *grid)


def given(cell: str, steps: int, rows: int) -> tuple[Arrays, Arrays, Arrays, dict[str, int]]:
    """Inputs, parameters, outside gradients and sizes."""
    sizes, rng = {"T": steps, "N": rows}, np.random.default_rng(steps + rows)
    training = low(cell).training
    assert training is not None
    ports = training.inputs, training.output_grads
    inputs, grads = (
        {p.name: _normal(rng, [d.evaluate(sizes) for d in p.dims]) for p in some} for some in ports
    )
    return inputs, {p.port.name: p.array for p in training.initial}, grads, sizes


def _normal(rng: np.random.Generator, shape: list[int]) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def trained(net: DeviceNet, *case: object) -> Arrays:
    """Outputs and gradients, without a word of complaint."""
    outputs, grads = net.train(*case)  # type: ignore[arg-type]
    assert libcuda.emulator().report == ""
    return outputs | {f"grad:{name}": grad for name, grad in grads.items()}


def meaning(library: Library, case: tuple[Arrays, Arrays, Arrays, dict[str, int]]) -> Arrays:
    """The same as the kernels mean it, in NumPy."""
    inputs, parameters, outer, sizes = case
    known = inputs | parameters
    forward = kern_interpreter.run(library.programs["forward"], known, sizes)
    known |= {f"kept:{name}": array for name, array in forward.items()}
    known |= {name: array for name, array in forward.items() if name.startswith("saved:")}
    known |= {f"grad:{name}": array for name, array in outer.items()}
    program = library.programs["backward"]
    grads = kern_interpreter.run(program, {p.name: known[p.name] for p in program.inputs}, sizes)
    return {n: a for n, a in forward.items() if not n.startswith("saved:")} | grads


@pytest.mark.parametrize("cell", list(CELLS)[:-1])
def test_gradients(cell: str) -> None:
    """Near what the kernels mean, but for values that are rounded to a neighbour."""
    case = given(cell, 4, 5)
    got = trained(net_of(cell, GRIDS[0]), *case)
    assert low(cell).precision == "bf16"
    assert_near(got, meaning(low(cell), case), ONE_OFF)
    inputs, parameters, outer, _ = case
    model = rnncc.compile(CELLS[cell](), train=True)
    for name, array in parameters.items():
        model.parameters[name][...] = array
    outputs, tape = model.forward(inputs)
    exact = {f"grad:{name}": grad for name, grad in model.backward(tape, outer).items()}
    assert_near(got, outputs | exact, 0.03)
    assert any(got[name].tobytes() != array.tobytes() for name, array in exact.items())


@pytest.mark.parametrize(
    ("cell", "grid"), [("lstm", GRIDS[1]), ("lstm", GRIDS[2]), ("gru", GRIDS[2])], ids=str
)
def test_any_grid_gives_the_same_bits(cell: str, grid: tuple[int, int], cuda: Emulator) -> None:
    """Whether weights are held and rows handed on, or not."""
    for steps, rows in ((3, 20), (2, 35))[: 1 + (grid == GRIDS[2])]:
        case = given(cell, steps, rows)
        want = trained(net_of(cell, GRIDS[0]), *case)
        cuda.configure(seed=steps)
        for name, array in trained(net_of(cell, grid), *case).items():
            np.testing.assert_array_equal(array, want[name], err_msg=name)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_row_alone_gives_the_same_bits(cell: str) -> None:
    """Which all warps of a block share then."""
    inputs, parameters, outer, sizes = given(cell, 3, 9)
    batch = trained(net_of(cell, GRIDS[2]), inputs, parameters, outer, sizes)
    for row in (0, 8):
        some = ({n: _row(a, row) for n, a in arrays.items()} for arrays in (inputs, outer))
        one, seeds = some
        alone = trained(net_of(cell, GRIDS[2]), one, parameters, seeds, {**sizes, "N": 1})
        for name in ("y", "h_last", "grad:x"):
            np.testing.assert_array_equal(alone[name], _row(batch[name], row), err_msg=name)


def _row(array: np.ndarray, row: int) -> np.ndarray:
    """One row of a batch, whose axis is the last but one."""
    return np.ascontiguousarray(array[..., row : row + 1, :])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_no_steps_and_no_rows(cell: str) -> None:
    for steps, rows in ((0, 3), (1, 3), (2, 0)):
        case = given(cell, steps, rows)
        assert_near(trained(net_of(cell, GRIDS[2]), *case), meaning(low(cell), case), ONE_OFF)


def test_chips_with_little_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight rows at a time, where sixteen deep ones do not fit: the same bits."""
    case = given("rnn", 3, 20)
    want = trained(net_of("rnn", GRIDS[2]), *case)
    monkeypatch.setattr(tensor_product, "SURE_SHARED", 1 << 10)
    for name, array in trained(DeviceNet(low("rnn"), *GRIDS[2]), *case).items():
        np.testing.assert_array_equal(array, want[name], err_msg=name)


@pytest.mark.parametrize("cell", list(CELLS)[:-1])
def test_which_loops_hand_rows_on(cell: str) -> None:
    """Those of a map and its product alone; others wait."""
    text = net_of(cell, GRIDS[0]).code.text
    backward = text[text.index('@"net_backward"') :].partition("\n}\n")[0]
    assert ("emu_post" in backward) == (cell in HANDED_ON)


def test_integers_are_exact() -> None:
    """Small ones are bf16, and their sums are exact in any order: the loops' are those of fp32."""
    rng, units, steps, rows = np.random.default_rng(0), 72, 3, 9
    case = given("whole", steps, rows)
    inputs, parameters, outer, _ = case
    signs = np.diag(rng.choice([-1, 1], units))[rng.permutation(units)]
    parameters["RW"] = signs.astype(np.float32)
    for arrays in (inputs, outer, {n: a for n, a in parameters.items() if n != "RW"}):
        for name, array in arrays.items():
            arrays[name] = rng.integers(-2, 3, array.shape).astype(np.float32)
    parameters["W"] = rng.integers(-1, 2, parameters["W"].shape).astype(np.float32)
    parameters["b"] = rng.integers(-2, 3, units).astype(np.float32)
    model = rnncc.compile(CELLS["whole"](), train=True)
    for name, array in parameters.items():
        model.parameters[name][...] = array
    outputs, tape = model.forward(inputs)
    want = outputs | {f"grad:{n}": g for n, g in model.backward(tape, outer).items()}
    assert np.abs(outputs["y"]).max() <= 256
    got = trained(net_of("whole", GRIDS[2]), inputs, parameters, outer, case[3])
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


SHAPES = [(1, 1, False), (40, 264, False), (133, 40, False), (24, 8, True)]
"""K and units: of the sums over rows, down and across; whether x is turned."""


@pytest.mark.parametrize(("depth", "units", "turned"), SHAPES)
def test_products_of_many_rows(depth: int, units: int, turned: bool) -> None:
    """Of rounded values, forward and backward; the same bits by any blocks."""
    weights = drawn(depth, units)
    library = library_of(product(weights, turned), train=True, precision="bf16")
    net = DeviceNet(library)
    for rows in (1, 70):
        x, dy = drawn(rows, depth), drawn(rows + 1, units)[1:]
        case = {"x": x.T.copy() if turned else x}, {"w": weights}, {"y": dy}, {"T": rows}
        made = list[Arrays]()
        for net.blocks in (3, 7):
            made.append(trained(net, *case))
        got, other = made
        left, right, w = (rounded(a).astype(np.float64) for a in (x, dy, weights))
        dx = got["grad:x"].T if turned else got["grad:x"]
        assert_summed(got["y"], left, w)
        assert_summed(dx, right, w.T)
        assert_summed(got["grad:w"], left.T, right)
        for name, array in got.items():
            np.testing.assert_array_equal(other[name], array, err_msg=name)


def assert_summed(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within the rounding of what is added up."""
    allowed = 1e-6 * (np.abs(a) @ np.abs(b)) + 1e-30
    assert (np.abs(got - a @ b) <= allowed).all()


def test_a_lost_wait_is_found(cuda: Emulator) -> None:
    """Without the waits of a block, rows in shared memory are a race."""

    def without_waits(text: str) -> str:
        first = text.index('@"net_backward"')
        waits = 'call void @"emu_block_wait"()', 'call i32 @"emu_block"()'
        return text[:first] + text[first:].replace(*waits)

    net = DeviceNet(low("lstm"), 256, 20, change=without_waits)
    net.train(*given("lstm", 2, 9))
    assert "race" in cuda.report
    cuda.forget()


def test_rows_that_a_block_rounds() -> None:
    """In a loop, of rows that are a block's own: each block rounds its rows alone, and all."""
    width, t = 16, Dim.of("t")
    k, row = Kern(), row_major([N, width])
    x, y = (k.buffer(name, role, T * N * width) for name, role in (("x", "input"), ("y", "output")))
    double = k.buffer("double", "scratch", N * width)
    low = k.buffer("low", "scratch", N * width, "bf16")

    def body(inner: Kern) -> list[SSAValue]:
        at = row_major([N, width], offset=t * N * width)
        inner.map([N, width], [(x, at)], [(double, row)], lambda b, v: [b.add(v, v)])
        inner.map([N, width], [(double, row)], [(low, row)], lambda b, v: [b.cast(v, "bf16")])
        inner.map([N, width], [(low, row)], [(y, at)], lambda b, v: [b.cast(v, "f32")])
        return []

    k.loop("t", T, [], body)
    program = k.program([port("x", T, N, width)], [port("y", T, N, width)])
    plan(program, spread=True)
    casts = [op for op in program.func.walk() if isinstance(op, Map) and rounding.suits(op)]
    assert casts and phases(program.func, NamedMemory.of(program.func)).rows.issuperset(casts)
    net = DeviceNet(Library.of(program), 32, 3)
    given = np.random.default_rng(1).standard_normal((3, 7, width)).astype(np.float32)
    found = net.run({"x": given}, {"T": 3, "N": 7})["y"]
    assert np.array_equal(found, rounded(given + given))
