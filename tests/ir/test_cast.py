"""Floats as integers: what does not fit becomes the nearest that does, NaN becomes 0."""

from __future__ import annotations

import numpy as np
import pytest

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run

X = np.array(
    [np.nan, np.inf, -np.inf, 2147483520, 2147483648, -2147483648, 9.3e18, -9.3e18, -1.7, 1.7],
    np.float32,
)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_the_interpreter_and_the_code_saturate(dtype: str) -> None:
    b = Builder.net("cast")
    program = b.finish({"y": b.cast(b.input("x", [len(X)]), dtype)}, {})
    limits = np.iinfo({"i32": np.int32, "i64": np.int64}[dtype])
    inside = {3: 2147483520, 5: -2147483648, 8: -1, 9: 1}
    want = [0, limits.max, limits.min, *[None] * 3, limits.max, limits.min, None, None]
    want = [inside.get(i, value) for i, value in enumerate(want)]
    want[4] = min(limits.max, 1 << 31)
    for got in (
        run(program, {"x": X})["y"],
        run(program, {"x": X}, np.float64)["y"],
        rnncc.compile(program).run({"x": X})["y"],
    ):
        assert got.tolist() == want
