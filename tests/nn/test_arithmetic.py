"""Integers at their extremes: no formula overflows where its result does not."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

import rnncc
from rnncc.ir.builder import Builder
from rnncc.nn import arithmetic

FORMULAS: dict[str, Callable[[int, int], int]] = {
    "floor_divide": operator.floordiv,
    "modulo": operator.mod,
}


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_quotients_and_remainders(dtype: str) -> None:
    limits = np.iinfo({"i32": np.int32, "i64": np.int64}[dtype])
    edges = [
        0,
        1,
        -2,
        3,
        -3,
        1000,
        *(end + step for end in (limits.max, limits.min + 1) for step in (0, -1)),
    ]
    pairs = [(x, y) for x in edges for y in edges if y and (x, y) != (limits.min, -1)]
    b = Builder.net("net")
    x, y = (b.input(name, ["N"], dtype) for name in "xy")
    net = b.finish({name: getattr(arithmetic, name)(b, x, y) for name in FORMULAS})
    dividends, divisors = np.array(pairs, limits.dtype).T.copy()
    inputs = {"x": dividends, "y": divisors}
    got = rnncc.compile(net).run(inputs)
    for name, formula in FORMULAS.items():
        assert got[name].tolist() == [formula(*pair) for pair in pairs]


@pytest.mark.parametrize("x", [-5, 0, 7])
def test_a_quotient_by_zero_is_zero(x: int) -> None:
    b = Builder.net("net")
    y = arithmetic.floor_divide(b, b.input("x", [1], "i64"), b.fill(0, [1], "i64"))
    assert rnncc.compile(b.finish({"y": y})).run({"x": np.array([x])})["y"].tolist() == [0]
