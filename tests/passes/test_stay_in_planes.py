"""Sums over windows that stand alone: along rows of planes, where that takes less time."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import convolution
from rnncc.nn.windows import Window
from tests.passes.helpers import whole_sequence

CHANNELS = 40
WINDOWS = {
    "plain": [Window(3, pads=(1, 1))],
    "strided": [Window(5, 2, pads=(2, 0))],
    "dilated": [Window(3, 1, 4, (4, 4))],
    "square": [Window(3, pads=(1, 1)), Window(3, pads=(1, 1))],
    "strided square": [Window(3, 2, pads=(1, 1)), Window(4, 2, pads=(1, 2))],
}


def depthwise(windows: list[Window], size: int | str, product: bool = False) -> Program:
    """A convolution of [N, 40, size...], which a product may follow."""
    b, rng = Builder.net("made"), np.random.default_rng(0)
    arrays = dict[str, np.ndarray]()

    def param(name: str, *shape: int) -> SSAValue:
        arrays[name] = rng.standard_normal(shape, np.float32)
        return b.param(name, shape)

    rank = len(windows)
    x = b.input("x", ("N", CHANNELS, *[size] * rank))
    weights = param("w", CHANNELS, 1, *(window.taps for window in windows))
    y = b.tanh(convolution(b, x, weights, param("b", CHANNELS), windows, CHANNELS))
    if product:
        y = convolution(b, y, param("p", 7, CHANNELS, *[1] * rank), None, [Window(1)] * rank)
    return b.finish({"y": y}, arrays)


def sums_in_planes(program: Program) -> bool:
    """Whether the channels of its sums stand before the places of windows."""
    whole_sequence(program)
    [sums] = [op for op in program.net.walk() if isinstance(op, Reduce)]
    return [str(size) for size in dims_of(sums.y)].index(str(CHANNELS)) == 1


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_planes_give_the_bits_of_channels(windows: list[Window]) -> None:
    """Of an open size nothing is known ahead, and lanes run along the channels."""
    known, opened = (depthwise(windows, size) for size in (60, "S"))
    x = np.random.default_rng(1).standard_normal((2, CHANNELS, *[60] * len(windows)))
    inputs = {"x": x.astype(np.float32)}
    found = rnncc.compile(known).run(inputs)["y"]
    np.testing.assert_allclose(found, run(known, inputs)["y"], 1e-5, 1e-5)
    assert found.tobytes() == rnncc.compile(opened).run(inputs)["y"].tobytes()
    assert sums_in_planes(known)
    assert not sums_in_planes(opened)


def test_what_a_product_reads_stays_channels_last() -> None:
    assert not sums_in_planes(depthwise([Window(3)] * 2, 60, product=True))


def test_short_rows_run_along_channels() -> None:
    """Seven results do not fill a vector."""
    assert not sums_in_planes(depthwise([Window(3)], 9))
    assert sums_in_planes(depthwise([Window(3)], 18))


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0,)])
def test_sums_over_more_than_windows(axes: tuple[int, ...]) -> None:
    """Such as those over an open batch, or all elements: they stand where they are."""
    b = Builder.net("made")
    y = b.reduce("sum", b.relu(b.transpose(b.input("x", ("N", 20, 40, 8)), (0, 2, 3, 1))), axes)
    program = b.finish({"y": y})
    whole_sequence(program)
    found = run(program, {"x": np.ones((3, 20, 40, 8), np.float32)})["y"]
    assert np.all(found == 3 * 20 * 40 * 8 / found.size)
