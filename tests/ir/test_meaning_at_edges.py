"""What ops mean where NumPy and a machine's instructions could differ."""

from __future__ import annotations

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "rem"])
def test_there_is_no_arithmetic_of_truth_values(name: str) -> None:
    b = Builder.net("truth")
    x = b.input("x", [3], "i1")
    with pytest.raises(CompileError, match="i1, expected numbers"):
        getattr(b, name)(x, x)


@pytest.mark.parametrize("dtype", ["f32", "i32", "i64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_an_extreme_of_nothing_is_beyond_all(kind: str, dtype: str) -> None:
    b = Builder.net("nothing")
    program = b.finish({"y": b.reduce(kind, b.input("x", ["N", 2], dtype), [0])})
    x = np.zeros((0, 2), {"f32": np.float32, "i32": np.int32, "i64": np.int64}[dtype])
    want = run(program, {"x": x})["y"]
    np.testing.assert_array_equal(rnncc.compile(program).run({"x": x})["y"], want)
    half = {"f32": np.inf, "i32": 2**31, "i64": 2**63}[dtype]
    least, most = -half, half if dtype == "f32" else half - 1
    assert want.tolist() == [least if kind == "max" else most] * 2


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_far_angles_are_nan(name: str) -> None:
    b = Builder.net("far")
    program = b.finish({"y": getattr(b, name)(b.input("x", [2]))})
    x = np.array([2.0**23, 2.0**24], np.float32)
    for y in (run(program, {"x": x})["y"], rnncc.compile(program).run({"x": x})["y"]):
        assert np.isnan(y).tolist() == [False, True]
