"""Convolutions of many groups are a few ops: compile time must not grow with the groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import tensor
from rnncc.nn.convolution import MAX_GROUPS, convolution
from rnncc.nn.deformed_convolution import deformed_convolution
from rnncc.nn.transposed_convolution import has_too_many_groups, transposed_convolution
from rnncc.nn.windows import Window

Made = Callable[[Builder, Callable[..., SSAValue], int], SSAValue]


def transposed(outputs: int, window: Window) -> Made:
    """Of one channel a group, which has so many outputs."""
    size = 3 * window.stride + window.reach

    def make(b: Builder, given: Callable[..., SSAValue], groups: int) -> SSAValue:
        x, weights = given(1, groups, 4), given(groups, outputs, window.taps)
        return transposed_convolution(b, x, weights, None, [window], [(Dim.of(size), 0)], groups)

    return make


def forward(b: Builder, given: Callable[..., SSAValue], groups: int) -> SSAValue:
    x, weights = given(1, 5 * groups, 4), given(6 * groups, 5, 2)
    return convolution(b, x, weights, None, [Window(2)], groups)


def deformed(b: Builder, given: Callable[..., SSAValue], groups: int) -> SSAValue:
    x, weights, offsets = given(1, groups, 4, 4), given(groups, 1, 2, 2), given(1, 8, 3, 3)
    return deformed_convolution(b, x, weights, None, offsets, None, [Window(2)] * 2, groups)


CONVOLUTIONS: dict[str, Made] = {
    "several channels": forward,
    "moved taps": deformed,
    "transposed": transposed(1, Window(4, 2)),
    "transposed, several outputs": transposed(3, Window(4, 2)),
    "transposed, many phases": transposed(1, Window(16, 8)),
    "transposed, apart": transposed(2, Window(3, 2, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_as_many_ops(name: str) -> None:
    counts = list[int]()
    for groups in (MAX_GROUPS + 1, MAX_GROUPS + 100):
        b = Builder(Block())

        def given(*shape: int, b: Builder = b) -> SSAValue:
            return b.block.insert_arg(tensor(shape), len(b.block.args))

        CONVOLUTIONS[name](b, given, groups)
        counts.append(len(b.block.ops))
    assert counts[0] == counts[1]


def test_limit() -> None:
    """Products of transposed convolutions that add up channels are one for each group."""
    groups = MAX_GROUPS + 1
    assert has_too_many_groups([Dim.of(2 * groups), Dim.of(1), Dim.of(4)], groups)
    assert not has_too_many_groups([Dim.of(groups), Dim.of(8), Dim.of(4)], groups)
