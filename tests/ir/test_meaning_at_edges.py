"""What ops mean where NumPy and a machine's instructions could differ."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.elementwise import COMPARISONS, ROUNDINGS
from rnncc.ir.types import NUMPY


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "rem"])
def test_there_is_no_arithmetic_of_truth_values(name: str) -> None:
    b = Builder.net("truth")
    x = b.input("x", [3], "i1")
    with pytest.raises(CompileError, match="i1, expected numbers"):
        getattr(b, name)(x, x)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_shifts_beyond_the_width_move_out_all_bits(dtype: str) -> None:
    b, kinds = Builder.net("bits"), ("and", "or", "xor", "left", "right")
    x, y = b.input("x", ["N"], dtype), b.input("y", ["N"], dtype)
    program = b.finish({kind: b.bits(kind, x, y) for kind in kinds})
    whole = {"i32": np.int32, "i64": np.int64}[dtype]
    limits = np.iinfo(whole)
    numbers = np.array([0, 1, 5, -1, -7, 31, 32, 33, 63, 64, limits.min, limits.max], whole)
    grid = np.meshgrid(numbers, numbers)
    inputs = {name: a.ravel() for name, a in zip("xy", grid, strict=True)}
    want, got = run(program, inputs), rnncc.compile(program).run(inputs)
    for kind in kinds:
        np.testing.assert_array_equal(got[kind], want[kind])
    beyond = (inputs["y"] < 0) | (inputs["y"] >= limits.bits)
    assert not want["left"][beyond].any()
    assert (want["right"][beyond] == np.where(inputs["x"] < 0, -1, 0)[beyond]).all()


@pytest.mark.parametrize("dtype", ["f32", "i1", "u8"])
def test_there_are_no_bits_of_other_types(dtype: str) -> None:
    b = Builder.net("bits")
    x = b.input("x", [3], dtype)
    with pytest.raises(CompileError, match=dtype):
        b.bits("and", x, x)


def test_known_numbers_are_computed_exactly() -> None:
    """A product and a sum of bits that no float64 holds."""
    b, large = Builder.net("large"), 2**31 + 1
    x = b.fill(large, [2], "i64")
    y = b.bits("or", b.bits("left", x, b.fill(31, (), "i64")), b.fill(1, (), "i64"))
    program = b.finish({"square": b.mul(x, x), "bits": y})
    want = {"square": [large * large] * 2, "bits": [large << 31 | 1] * 2}
    for got in (run(program, {}), rnncc.compile(program).run({})):
        assert {name: array.tolist() for name, array in got.items()} == want


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
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_of_many_turns(name: str, dtype: str) -> None:
    """Such of float64 that are further away than code computes are NaN."""
    b = Builder.net("far")
    program = b.finish({"y": getattr(b, name)(b.input("x", [8], dtype))})
    x = np.array([1e7, 3e9, -7.5e15, 9.2e18, 9.3e18, 1e30, np.inf, 1], NUMPY[dtype])
    want = run(program, {"x": x})["y"]
    assert np.isnan(want).tolist() == [*[False] * 4, *[dtype == "f64"] * 2, True, False]
    np.testing.assert_allclose(rnncc.compile(program).run({"x": x})["y"], want, 1e-6)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_integers_that_no_attribute_holds(number: int) -> None:
    """Attributes are float64: rounded, 2^63 - 1 would become -2^63."""
    b, numbers = Builder.net("wide"), np.array([[number, 1], [7, number]])
    size = b.broadcast(b.size(Dim.of(number), "i64"), [2], [])
    program = b.finish(
        {"fill": b.fill(number, [2], "i64"), "constant": b.constant(numbers), "size": size}
    )
    want = {"fill": [number] * 2, "constant": numbers.tolist(), "size": [number] * 2}
    for got in (run(program, {}), rnncc.compile(program).run({})):
        assert {name: array.tolist() for name, array in got.items()} == want


ARITHMETIC = ("add", "sub", "mul", "div", "maximum", "minimum", "rem")


def ends_of(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers at which machines' instructions differ."""
    kind = NUMPY[dtype]
    if dtype[0] == "i":
        limits = np.iinfo(kind)
        small = [0, 1, -1, 2, -3, 7, limits.bits, 1 << limits.bits // 2]
        return np.array([*small, limits.max, limits.max - 1, limits.min, limits.min + 1], kind)
    limits = np.finfo(kind)
    sizes = [0, 1, 0.5, 2.5, 3, limits.max, limits.tiny, limits.smallest_subnormal, np.inf, np.nan]
    return np.array([sign * size for size in sizes for sign in (1, -1)], kind)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_arithmetic_has_the_interpreters_bits(dtype: str) -> None:
    """In vectors and in what is left of one: the number of pairs is odd."""
    b = Builder.net("edges")
    x, y = b.input("x", ["N"], dtype), b.input("y", ["N"], dtype)
    outputs = {name: getattr(b, name)(x, y) for name in ARITHMETIC}
    outputs |= {kind: b.compare(kind, x, y) for kind in COMPARISONS}
    if dtype[0] == "f":
        outputs |= {name: getattr(b, name)(x) for name in ("neg", "abs", "relu", "sqrt")}
        outputs |= {kind: b.round(kind, x) for kind in ROUNDINGS}
    outputs |= {to: b.cast(x, to) for to in ("f32", "f64", "i32", "i64", "i1") if to != dtype}
    program, ends = b.finish(outputs), ends_of(dtype)
    pairs = np.array([(one, other) for one in ends for other in ends][1:], ends.dtype)
    inputs = {"x": pairs[:, 0].copy(), "y": pairs[:, 1].copy()}
    want, got = run(program, inputs), rnncc.compile(program).run(inputs)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)  # any NaN is one
        if array.dtype.kind == "f":
            signs = [np.signbit(a)[~np.isnan(array)] for a in (got[name], array)]
            np.testing.assert_array_equal(*signs, err_msg=name)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("i64", 2.0**63), ("i32", -(2.0**31) - 1), ("i32", 0.5), ("i64", math.inf), ("u8", math.nan)],
)
def test_integers_that_a_type_does_not_hold(dtype: str, number: float) -> None:
    b = Builder.net("fill")
    with pytest.raises(VerifyException, match=re.escape(f"no {dtype} holds {number}\n")):
        b.finish({"y": b.fill(number, [2], dtype)}).module.verify()
