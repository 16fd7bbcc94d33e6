"""The activations that all front ends share: accuracy over all floats, edges and slopes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.ir.builder import Builder
from rnncc.nn import activations as act
from rnncc.nn import angles
from rnncc.nn.ranges import RANGES
from rnncc.passes.gradients.differentiate import differentiate

Array = np.ndarray[Any, Any]
ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
NORMAL = 2.0**-126


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def elu(x: Array, alpha: float = 1, scale: float = 1) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def elu_slope(x: Array, alpha: float = 1, scale: float = 1) -> Array:
    return scale * np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0)))


Formula = Callable[[Array], Array]
CASES: dict[str, tuple[Callable[..., Any], Formula, Formula]] = {
    "softplus": (act.softplus, softplus, sigmoid),
    "log_sigmoid": (act.log_sigmoid, lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "elu": (act.elu, elu, elu_slope),
    "selu": (
        partial(act.elu, alpha=ALPHA, scale=SCALE),
        partial(elu, alpha=ALPHA, scale=SCALE),
        partial(elu_slope, alpha=ALPHA, scale=SCALE),
    ),
    "celu": (
        partial(act.elu, alpha=2, input_scale=0.5),
        lambda x: 2 * elu(x / 2),
        lambda x: elu_slope(x / 2),
    ),
    "silu": (act.silu, lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x))),
    "mish": (
        act.mish,
        lambda x: x * np.tanh(softplus(x)),
        lambda x: np.tanh(softplus(x)) + x * sigmoid(x) * (1 - np.tanh(softplus(x)) ** 2),
    ),
    "soft_sign": (act.soft_sign, lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
    "atan": (angles.atan, np.arctan, lambda x: 1 / (1 + x * x)),
    "asin": (angles.asin, np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x))),
    "acos": (angles.acos, np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x))),
    "sinh": (angles.sinh, np.sinh, np.cosh),
    "cosh": (angles.cosh, np.cosh, np.sinh),
    "asinh": (angles.asinh, np.arcsinh, lambda x: 1 / np.hypot(x, 1)),
    "acosh": (angles.acosh, np.arccosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1))),
    "atanh": (angles.atanh, np.arctanh, lambda x: 1 / ((1 - x) * (1 + x))),
}
UNDERFLOWS = {"silu", "mish"}
"""Those that are 0 where a factor of theirs is no normal float."""


@cache
def floats(dtype: str = "f32") -> Array:
    """Floats of all exponents and both signs, and the special ones."""
    if dtype == "f64":
        ends = [0, 1, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x3FF0000000000000]
        bits = np.concatenate([np.arange(0, 0x7FF << 52, 0x7FF << 36, dtype=np.uint64), ends])
        wide = bits.astype(np.uint64).view(np.float64)
        return np.concatenate([wide, -wide, np.linspace(-750, 750, 30_001)])
    ends = [0, 1, 0x7F7FFFFF, 0x7F800000, 0x3F800000, 0x42B17218]
    bits = np.concatenate([np.arange(0, 0x7F800000, 40_009), ends]).astype(np.uint32)
    near = np.linspace(-105, 105, 60_001, dtype=np.float32)
    return np.concatenate([bits.view(np.float32), -bits.view(np.float32), near])


@cache
def evaluated(name: str, dtype: str) -> tuple[Array, Array]:
    """Values and slopes by compiled code."""
    b = Builder.net(name.replace("_", ""))
    net = b.finish({"y": CASES[name][0](b, b.input("x", ["N"], dtype))})
    both, x = differentiate(net, ["y"], ["x"]), floats(dtype)
    got = rnncc.compile(both).run({"x": x, "grad:y": np.ones_like(x)})
    return got["y"], got["grad:x"]


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: str) -> None:
    x, (y, _) = floats(dtype), evaluated(name, dtype)
    with np.errstate(all="ignore"):
        exact = CASES[name][1](x.astype(np.longdouble))
        want = exact.astype(x.dtype)
        off = np.abs(y - exact) / np.spacing(np.abs(want))
    decided = ~np.isnan(want)
    if name in UNDERFLOWS:
        decided &= (x > RANGES[dtype].underflow) & np.isfinite(x)
    finite = decided & np.isfinite(want)
    assert np.isnan(y[np.isnan(want) & (name not in UNDERFLOWS)]).all()
    np.testing.assert_array_equal(y[decided & ~finite], want[decided & ~finite])
    assert off[finite].max() <= 4


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("name", CASES)
def test_slopes(name: str, dtype: str) -> None:
    x, (_, slope) = floats(dtype), evaluated(name, dtype)
    with np.errstate(all="ignore"):
        want = CASES[name][2](x.astype(np.longdouble)).astype(x.dtype)
        defined = np.isfinite(CASES[name][1](x.astype(np.longdouble)).astype(x.dtype))
    finite, unit = np.isfinite(want) & defined & np.isfinite(x), np.finfo(x.dtype).eps
    np.testing.assert_allclose(slope[finite], want[finite], 17 * unit, 3 * unit)


@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "elu", "selu", "sinh", "asinh"])
def test_signs_of_zero_and_nan(name: str) -> None:
    b = Builder.net("m")
    net = b.finish({"y": CASES[name][0](b, b.input("x", ["N"]))})
    x = np.array([0.0, -0.0, np.nan, 1.0], np.float32)
    y = rnncc.compile(net).run({"x": x})["y"]
    assert np.isnan(y[2]) and not np.isnan(y[3])
    if name not in ("softplus", "log_sigmoid"):
        assert list(np.signbit(y[:2])) == [False, True]


def test_extrema_of_a_constant_nan() -> None:
    """NaN, which code that is told so may not leave out; the scalar rest of a vector, too."""
    b = Builder.net("m")
    x = b.input("x", ["N"])
    nan = b.full_like(x, np.nan)
    net = b.finish({"low": b.minimum(x, nan), "high": b.maximum(nan, x)})
    outputs = rnncc.compile(net).run({"x": np.arange(21, dtype=np.float32)})
    assert all(np.isnan(y).all() for y in outputs.values())


def test_gelu_by_tanh_loses_nothing_below_zero() -> None:
    b = Builder.net("m")
    net = b.finish({"y": act.gelu(b, b.input("x", ["N"]), by_tanh=True)})
    x = np.linspace(-8, 8, 4001, dtype=np.float32)
    wide = x.astype(np.longdouble)
    want = wide * sigmoid(2 * np.sqrt(np.longdouble(2) / np.pi) * (wide + 0.044715 * wide**3))
    both = differentiate(net, ["y"], ["x"])
    far = np.array([1e30, -1e30], np.float32)
    np.testing.assert_allclose(rnncc.compile(net).run({"x": x})["y"], want, 1e-5, 1e-30)
    slopes = rnncc.compile(both).run({"x": far, "grad:y": np.ones_like(far)})["grad:x"]
    np.testing.assert_array_equal(slopes, [1, 0])
