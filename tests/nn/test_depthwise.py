"""Depthwise convolutions: lanes along rows or along channels, whichever stand side by side."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import convolution
from rnncc.nn.pooling import max_pool
from rnncc.nn.windows import Window

CHANNELS = 20
WINDOWS = {
    "plain": [Window(3, pads=(1, 1))],
    "strided": [Window(5, 2, pads=(2, 0))],
    "dilated": [Window(3, 1, 4, (4, 4))],
    "square": [Window(3, pads=(1, 1)), Window(3, pads=(1, 1))],
    "strided square": [Window(3, 2, pads=(1, 1)), Window(4, 2, pads=(1, 2))],
}


def made(windows: list[Window], size: int | str, before: str = "", behind: bool = False) -> Program:
    """A convolution of [N, 20, size...], whose channels a product before it may have made."""
    b, rng = Builder.net("made"), np.random.default_rng(0)
    arrays = dict[str, np.ndarray]()

    def param(name: str, *shape: int) -> SSAValue:
        arrays[name] = rng.standard_normal(shape, np.float32)
        return b.param(name, shape)

    rank = len(windows)
    x = b.input("x", ("N", CHANNELS, *[size] * rank))
    ones, single = [1] * rank, [Window(1)] * rank
    if before:
        x = convolution(b, x, param("p", CHANNELS, CHANNELS, *ones), None, single)
        x = b.tanh(x)
    if before == "pool":
        x = max_pool(b, x, [Window(2)] * rank)
    weights = param("w", CHANNELS, 1, *(window.taps for window in windows))
    y = convolution(b, x, weights, param("b", CHANNELS), windows, CHANNELS)
    if behind:
        y = convolution(b, b.tanh(y), param("q", 7, CHANNELS, *ones), None, single)
    return b.finish({"y": y}, arrays)


def sums_in_rows(program: Program) -> bool:
    """Whether the channels of its sums over taps are the second axis, not the last one."""
    ops = [op for op in program.net.body.block.ops if isinstance(op, Reduce)]
    [sums] = [op for op in ops if op.kind.data == "sum"]
    return dims_of(sums.y).index(Dim.of(CHANNELS)) == 1


@pytest.mark.parametrize("before", ["", "product", "pool"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_rows_give_the_bits_of_channels(windows: list[Window], before: str) -> None:
    """Of an open size lanes run along the channels."""
    for behind in (False, True):
        known, opened = (made(windows, size, before, behind) for size in (27, "S"))
        assert sums_in_rows(known) == (not before)
        assert not sums_in_rows(opened)
        x = np.random.default_rng(1).standard_normal((2, CHANNELS, *[27] * len(windows)))
        inputs = {"x": x.astype(np.float32)}
        found = rnncc.compile(known).run(inputs)["y"]
        np.testing.assert_allclose(found, run(known, inputs)["y"], 1e-5, 1e-5)
        assert found.tobytes() == rnncc.compile(opened).run(inputs)["y"].tobytes()


def test_short_rows_run_along_channels() -> None:
    """Which fill vectors, as seven results do not."""
    assert not sums_in_rows(made([Window(3)], 9))
    assert sums_in_rows(made([Window(3)], 14))


def test_one_convolution_behind_another_stays_in_rows() -> None:
    b = Builder.net("made")
    x, w = b.input("x", (1, CHANNELS, 30)), b.param("w", (CHANNELS, 1, 3))
    for _ in range(2):
        x = b.tanh(convolution(b, x, w, None, [Window(3)], CHANNELS))
    program = b.finish({"y": x}, {"w": np.zeros((CHANNELS, 1, 3), np.float32)})
    sums = [op for op in program.net.body.block.ops if isinstance(op, Reduce)]
    assert [dims_of(op.y)[1] for op in sums] == [CHANNELS] * 2
