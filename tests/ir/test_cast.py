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


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("floats", [np.float32, np.float64])
def test_lanes_saturate_as_numbers_alone_do(floats: type[np.floating], dtype: str) -> None:
    """Whole vectors, what is left of one, and single elements are other code."""
    near = [half - step for half in (2.0**31, 2.0**63) for step in (1024, 0.5, 0, -0.5, -4096)]
    x = np.array([*X, *near, *(-n for n in near), 1e-40, -0.0], floats)
    b = Builder.net("cast")
    given = b.input("x", ["N"], "f32" if floats is np.float32 else "f64")
    program = b.finish({"y": b.cast(given, dtype)}, {})
    model = rnncc.compile(program)
    want = run(program, {"x": x})["y"]
    assert model.run({"x": np.tile(x, 3)})["y"].tolist() == want.tolist() * 3
    assert [int(model.run({"x": x[i : i + 1]})["y"][0]) for i in range(len(x))] == want.tolist()
