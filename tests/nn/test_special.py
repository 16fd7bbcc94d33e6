"""Functions of gamma and of the error function: digits, edges, slopes; exponentials of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.nn import factors, special
from rnncc.nn.bessel import bessel_i
from rnncc.passes.gradients.differentiate import differentiate

Array = np.ndarray[Any, Any]
Formula = Callable[[Builder, SSAValue], SSAValue]
RNG = np.random.default_rng(0)
NEAR = RNG.uniform(-12, 12, 500)
SMALL = 10 ** RNG.uniform(-20, -1, 100)
INSIDE = np.concatenate([RNG.uniform(-1, 1, 300), 1 - 10 ** RNG.uniform(-6, -1, 100)])


def compiled(formula: Formula, x: Array) -> tuple[Array, Array]:
    """Values and slopes, of x's dtype."""
    b = Builder.net("m")
    kind = {"float32": "f32", "float64": "f64"}[x.dtype.name]
    net = b.finish({"y": formula(b, b.input("x", x.shape, kind))})
    slope = rnncc.compile(differentiate(net, ["y"], ["x"]))
    grads = slope.run({"x": x, "grad:y": np.ones_like(x)})
    return rnncc.compile(net).run({"x": x})["y"], grads["grad:x"]


def psi(x: float) -> float:
    """The derivative of ln |Γ|, by the recurrence far out to its series."""
    if x < 40:
        return psi(x + 1) - 1 / x
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def inverse_erf(y: float) -> float:
    low, high = -8.0, 8.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


def bessel(order: int, x: float) -> float:
    """The modified function of the first kind, by its power series."""
    terms, k = [(x / 2) ** order / math.factorial(order)], 1
    while abs(terms[-1]) > 1e-18 * abs(terms[0]) and k < 200:
        terms.append(terms[-1] * x * x / (4 * k * (k + order)))
        k += 1
    return math.fsum(terms)


def bessel_slope(order: int, x: float) -> float:
    if order == 0:
        return bessel(1, x)
    return (bessel(0, x) + bessel(2, x)) / 2


def quantile(p: float) -> float:
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return low


def psi_slope(order: int, x: float) -> float:
    """That derivative of `psi`, by the recurrence far out to its series."""
    sign, scale = (-1) ** (order + 1), math.factorial(order)
    if x < 60:
        return psi_slope(order, x + 1) + sign * scale / x ** (order + 1)
    far = [scale / (order * x**order), scale / (2 * x ** (order + 1))]
    far += [scale * (order + 1) / (12 * x ** (order + 2))]
    far += [-scale * (order + 1) * (order + 2) * (order + 3) / (720 * x ** (order + 4))]
    return sign * sum(far)


def bell(x: float) -> float:
    return 2 / math.sqrt(math.pi) * math.exp(-x * x)


def cdf(x: float) -> float:
    """Of the normal distribution."""
    return math.erfc(-x / math.sqrt(2)) / 2


CASES: dict[str, tuple[Formula, Callable[[float], float], Callable[[float], float], Array]] = {
    "log gamma": (special.log_gamma, math.lgamma, psi, np.concatenate([NEAR, SMALL, 1e10 * SMALL])),
    "erfc": (special.erfc, math.erfc, lambda x: -bell(x), np.concatenate([NEAR / 1.5, SMALL])),
    "erfinv": (
        special.erfinv,
        inverse_erf,
        lambda y: 1 / bell(inverse_erf(y)),
        np.concatenate([INSIDE, SMALL]),
    ),
    "scaled erfc": (
        special.scaled_erfc,
        lambda x: math.exp(x * x) * math.erfc(x),
        lambda x: 2 * x * math.exp(x * x) * math.erfc(x) - 2 / math.sqrt(math.pi),
        RNG.uniform(-3, 5, 200),
    ),
    "sinc": (
        special.sinc,
        lambda x: math.sin(math.pi * x) / (math.pi * x),
        lambda x: (
            (math.cos(math.pi * x) - math.sin(math.pi * x) / (math.pi * x)) / x
            if abs(x) > 1e-4
            else -(math.pi**2) * x / 3
        ),
        np.concatenate([NEAR / 15, SMALL]),
    ),
    "log normal cdf": (
        special.log_normal_cdf,
        lambda x: math.log1p(-math.erfc(x / math.sqrt(2)) / 2) if x > 0 else math.log(cdf(x)),
        lambda x: bell(x / math.sqrt(2)) / math.sqrt(8) / cdf(x),
        RNG.uniform(-30, 2, 300),
    ),
    "normal quantile": (
        special.normal_quantile,
        quantile,
        lambda p: math.sqrt(2 * math.pi) * math.exp(quantile(p) ** 2 / 2),
        np.concatenate([abs(INSIDE), 10 ** RNG.uniform(-35, -1, 50)]),
    ),
    **{
        f"I{order}": (
            partial(bessel_i, order=order),
            partial(bessel, order),
            partial(bessel_slope, order),
            np.concatenate([RNG.uniform(-60, 60, 200), SMALL]),
        )
        for order in (0, 1)
    },
    "scaled I0": (
        partial(bessel_i, order=0, scaled=True),
        lambda x: bessel(0, x) * math.exp(-abs(x)),
        lambda x: (bessel(1, x) - math.copysign(bessel(0, x), x)) * math.exp(-abs(x)),
        RNG.uniform(-60, 60, 200),
    ),
    **{
        f"derivative {order} of digamma": (
            partial(special.polygamma, order=order),
            partial(psi_slope, order),
            partial(psi_slope, order + 1),
            RNG.uniform(-5, 30, 200),
        )
        for order in (1, 2, 5, 8)
    },
}


@pytest.mark.parametrize("name", CASES)
def test_digits(name: str) -> None:
    formula, value, slope, points = CASES[name]
    x = points.astype(np.float32)
    (y, dy), exact = compiled(formula, x), x.astype(np.float64)
    np.testing.assert_allclose(y, [value(p) for p in exact], rtol=4e-7, atol=1e-38)
    slack = 2e-6 if name == "scaled erfc" else 1e-38  # whose slope is a difference
    np.testing.assert_allclose(dy, [slope(p) for p in exact], rtol=2e-6, atol=slack)


@pytest.mark.parametrize("name", ["log gamma", "erfc"])
def test_digits_of_doubles(name: str) -> None:
    formula, value, slope, points = CASES[name]
    y, dy = compiled(formula, points)
    np.testing.assert_allclose(y, [value(p) for p in points], rtol=2e-14, atol=1e-14)
    np.testing.assert_allclose(dy, [slope(p) for p in points], rtol=1e-12, atol=1e-12)


def test_digamma_is_the_slope_of_log_gamma() -> None:
    x = np.concatenate([NEAR, SMALL]).astype(np.float32)
    y, dy = compiled(special.digamma, x)
    np.testing.assert_allclose(y, [psi(p) for p in x.astype(np.float64)], rtol=1e-6)
    step = 1e-4
    ends = [[psi(p + d) for p in NEAR[:100]] for d in (step, -step)]
    away = np.abs(NEAR[:100] - np.round(NEAR[:100])) > 0.1
    np.testing.assert_allclose(
        dy[:100][away], ((np.array(ends[0]) - ends[1]) / (2 * step))[away], rtol=1e-3
    )


def test_edges() -> None:
    edges = np.array([0.0, -0.0, -1.0, -3.0, -np.inf, np.inf, np.nan, 1.0, 2.0], np.float32)
    y, dy = compiled(special.log_gamma, edges)
    np.testing.assert_allclose(y, [np.inf] * 6 + [np.nan, 0, 0], atol=1e-14)
    np.testing.assert_array_equal(dy[:4], np.array([-np.inf, np.inf, np.nan, np.nan], np.float32))
    y, _ = compiled(special.digamma, edges[:4])
    np.testing.assert_array_equal(y, np.array([-np.inf, np.inf, np.nan, np.nan], np.float32))
    y, _ = compiled(special.erfc, np.array([np.inf, -np.inf, np.nan, 11, -11], np.float32))
    np.testing.assert_array_equal(y, np.array([0, 2, np.nan, 0, 2], np.float32))
    y, _ = compiled(special.erfinv, np.array([1, -1, 1.5, np.nan, 0], np.float32))
    np.testing.assert_array_equal(y, np.array([np.inf, -np.inf, np.nan, np.nan, 0], np.float32))


def test_edges_of_quantiles_and_derivatives_of_digamma() -> None:
    y, _ = compiled(special.normal_quantile, np.array([0, 1, 0.5, -0.1, 1.1, np.nan]))
    np.testing.assert_array_equal(y, [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])
    y, _ = compiled(partial(special.polygamma, order=1), np.array([0, np.inf, 1e300]))
    np.testing.assert_array_equal(y, [np.inf, 0, 1e-300])


@pytest.mark.parametrize("angle", [0.1, 3.0, 100.0, 3000.0, 1e5])
def test_exponentials_of_matrices(angle: float) -> None:
    """A turn by an angle; beyond the reach it is NaN."""
    a = np.array([[0, -angle], [angle, 0]])
    y, _ = compiled(factors.exponential, a)
    cos, sin = math.cos(angle), math.sin(angle)
    want = [[cos, -sin], [sin, cos]] if angle < 1000 else np.full((2, 2), np.nan)
    np.testing.assert_allclose(y, want, atol=1e-14 * max(angle, 1))


def test_failures_have_numbers() -> None:
    b = Builder.net("m")
    a = b.input("a", [3, 3, 3])
    factor, failed = factors.cholesky(b, a)
    net = b.finish({"singular": factors.singular_at(b, a), "failed": failed, "l": factor})
    one = np.eye(3, dtype=np.float32)
    diagonals = np.array([[1, 1, 1], [1, 0, 1], [1, 1, -1]], np.float32)
    made = rnncc.compile(net).run({"a": one * diagonals[:, None]})
    assert list(made["singular"]) == [0, 2, 0]
    assert list(made["failed"]) == [0, 2, 3]
    np.testing.assert_array_equal(made["l"][0], one)


def test_singular_matrices() -> None:
    """A column that is 0 before the last one: nothing is divided by it but the solution."""
    b = Builder.net("m")
    a = b.input("a", [2, 3, 3])
    sign, size = factors.log_determinant(b, a)
    made = {"det": factors.determinant(b, a), "sign": sign, "log": size}
    net = b.finish({**made, "inverse": factors.inverse(b, a)})
    matrices = np.array([[[1, 2, 3], [2, 4, 6], [3, 1, 2]], [[1, 0, 2], [3, 0, 1], [2, 0, 5]]])
    found = rnncc.compile(net).run({"a": matrices.astype(np.float32)})
    np.testing.assert_allclose(found["det"], [0, 0], atol=1e-6)
    assert found["det"][1] == 0 and found["sign"][1] == 0 and found["log"][1] == -np.inf
    assert np.isnan(found["inverse"][1]).all()
