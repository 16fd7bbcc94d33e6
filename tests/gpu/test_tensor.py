"""bf16 weights on tensor cores, under the emulator: sums of rounded values, by whatever blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import rnncc
from rnncc.ir.precision import from_bf16, to_bf16
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.library import Library
from tests.golden import Arrays
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.libcuda import Emulator
from tests.gpu.nets import quiet_emulator
from tests.precision.nets import ONE_OFF, assert_near, drawn, product

SHAPES = [(1, 1), (2, 17), (33, 70), (130, 48), (100, 200)]
"""K and units."""
ROWS = [1, 7, 131]
GRIDS = [(256, 3), (64, 3), (256, 9), (64, 9)]
"""Threads of a block, and blocks: too few to hold all weights, then enough."""
CELLS = {
    "lstm": lambda: rnncc.cells.lstm(20, 72, layout="TNC"),
    "gru": lambda: rnncc.cells.gru(20, 72, layout="TNC"),
    "odd lstm": lambda: rnncc.cells.lstm(7, 37, layout="TNC"),
    "rnn": lambda: rnncc.cells.elman(16, 130, layout="TNC"),
}


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


def checked(net: DeviceNet, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    """What the emulator computes, without a word of complaint."""
    made = net.run(inputs, sizes)
    assert libcuda.emulator().report == ""
    return made


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("threads", [256, 64])
def test_sums_of_rounded_values(shape: tuple[int, int], turned: bool, threads: int) -> None:
    """Within the rounding of what is added up; a row alone has the same bits."""
    weights = drawn(*shape)
    net = DeviceNet(library_of(product(weights, turned), precision="bf16"), threads)
    halves = from_bf16(to_bf16(weights)).astype(np.float64)
    for rows in ROWS:
        x = drawn(rows + 1, shape[0])[:rows]
        rounded = from_bf16(to_bf16(x)).astype(np.float64)
        got = run_rows(net, x, turned)
        allowed = 1e-6 * (np.abs(rounded) @ np.abs(halves)) + 1e-30
        assert (np.abs(got - rounded @ halves) <= allowed).all()
        np.testing.assert_array_equal(run_rows(net, x[rows // 2 :][:1], turned)[0], got[rows // 2])


def run_rows(net: DeviceNet, x: np.ndarray, turned: bool) -> np.ndarray:
    given = np.ascontiguousarray(x.T if turned else x)
    return checked(net, {"x": given}, {"T": len(x)})["y"]


def test_no_ordinary_numbers() -> None:
    """inf and NaN stay in their rows."""
    weights, x = drawn(19, 5), drawn(8, 19)
    x[1], x[2, 7], x[3, 18], x[4, 0] = 0, np.nan, np.inf, -np.inf
    net = DeviceNet(library_of(product(weights), precision="bf16"), 256)
    got = checked(net, {"x": x}, {"T": 8})["y"]
    assert not got[1].any()
    assert np.isnan(got[2]).all()
    assert not np.isfinite(got[3:5]).any()
    assert np.isfinite(got[[0, 5, 6, 7]]).all()


@cache
def low(cell: str) -> Library:
    return library_of(CELLS[cell](), precision="bf16")


@cache
def net_of(cell: str, grid: tuple[int, int] = GRIDS[0]) -> DeviceNet:
    return DeviceNet(low(cell), *grid)


def inputs_of(cell: str, steps: int, rows: int) -> tuple[Arrays, dict[str, int]]:
    width = {"lstm": 20, "gru": 20, "odd lstm": 7, "rnn": 16}[cell]
    rng = np.random.default_rng(steps + rows)
    x = rng.standard_normal((steps, rows, width)).astype(np.float32)
    return {"x": x}, {"T": steps, "N": rows}


@pytest.mark.parametrize("cell", CELLS)
def test_loops(cell: str) -> None:
    """Near what the kernels mean in NumPy, but for values that are rounded to a neighbour."""
    inputs, sizes = inputs_of(cell, 6, 5)
    got = checked(net_of(cell), inputs, sizes)
    assert_near(got, exact(cell).run(inputs), 0.02)
    [meant] = [p for n, p in low(cell).programs.items() if n in ("run", "step")]
    if "run" in low(cell).programs:
        assert_near(got, kern_interpreter.run(meant, inputs, sizes), ONE_OFF)


@cache
def exact(cell: str) -> rnncc.Model:
    return rnncc.compile(CELLS[cell]())


@pytest.mark.parametrize("grid", GRIDS[1:], ids=str)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("steps", "rows"), [(5, 20), (3, 70)])
def test_any_grid_gives_the_same_bits(
    steps: int, rows: int, cell: str, grid: tuple[int, int], cuda: Emulator
) -> None:
    """Whether weights are held and rows handed on, or not."""
    inputs, sizes = inputs_of(cell, steps, rows)
    want = checked(net_of(cell), inputs, sizes)
    for seed in (2, 3):
        cuda.configure(seed=seed)
        got = checked(net_of(cell, grid), inputs, sizes)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_row_alone_gives_the_same_bits(cell: str) -> None:
    inputs, sizes = inputs_of(cell, 4, 19)
    net = net_of(cell, GRIDS[2])
    batch = checked(net, inputs, sizes)["y"]
    for row in (0, 8, 18):
        alone = checked(net, {"x": inputs["x"][:, row : row + 1]}, {"T": 4, "N": 1})["y"]
        np.testing.assert_array_equal(alone[:, 0], batch[:, row])


@pytest.mark.parametrize("cell", ["lstm", "odd lstm"])
def test_a_sequence_in_pieces_gives_the_same_bits(cell: str) -> None:
    inputs, sizes = inputs_of(cell, 7, 3)
    net = net_of(cell, GRIDS[2])
    want = checked(net, inputs, sizes)["y"]
    with net.stream({}, sizes) as step:
        parts = [
            step({"x": inputs["x"][first:last]}, last - first)["y"]
            for first, last in ((0, 1), (1, 1), (1, 5), (5, 7))
        ]
    np.testing.assert_array_equal(np.concatenate(parts), want)


def test_a_lost_wait_is_found(cuda: Emulator) -> None:
    """Without the waits of a block, rows in shared memory are a race."""
    net = DeviceNet(low("lstm"), 256, 9, change=_without_waits)
    inputs, sizes = inputs_of("lstm", 3, 9)
    net.run(inputs, sizes)
    assert "race" in cuda.report
    cuda.forget()


def _without_waits(text: str) -> str:
    return text.replace('call void @"emu_block_wait"()', 'call i32 @"emu_block"()')
