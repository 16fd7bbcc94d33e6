"""Fits the coefficients of rnncc/codegen/llvm/coefficients.py and prints them as Python tuples.

Each table of float32 is a weighted minimax fit (Lawson's reweighted least squares), repeated once
for every coefficient: after each fit one more is rounded to float32 and held, so that the later
ones make up for its rounding. Those of float64 have terms to spare, so that Chebyshev's points will
do. Run `python -m tools.fit_polynomials`; needs NumPy and mpmath, takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDS = 120


@dataclass(frozen=True)
class Fit:
    """One table: target(z) ~ c0 + c1*z + ..., the error counted times `weight`.

    `known` holds the first coefficients where they are given.
    """

    name: str
    z: Array
    target: Array
    weight: Array
    degree: int
    known: tuple[float, ...] = ()


def solve(fit: Fit, known: list[float]) -> tuple[Array, float]:
    """The coefficients, lowest first, the first ones held at `known`; and the largest error."""
    span = np.abs(fit.z).max()
    units = span ** np.arange(fit.degree + 1)
    columns = (fit.z / span)[:, None] ** np.arange(fit.degree + 1)
    held = len(known)
    result = np.zeros(fit.degree + 1)
    result[:held] = known * units[:held]
    rest = fit.target - columns[:, :held] @ result[:held]
    best, least, lawson = result, math.inf, np.ones_like(span * fit.z)
    for _ in range(ROUNDS):
        gain = fit.weight * np.sqrt(lawson)
        matrix = columns[:, held:] * gain[:, None]
        result[held:] = np.linalg.lstsq(matrix, rest * gain, rcond=1e-15)[0]
        error = np.abs(columns @ result - fit.target) * fit.weight
        if error.max() < least:
            best, least = result / units, float(error.max())
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.sum()
    return best, least


def rounded(fit: Fit) -> tuple[list[float], float]:
    """The float32 coefficients and the largest error that they leave."""
    known = [float(np.float32(c)) for c in fit.known]
    error = math.inf
    while len(known) <= fit.degree:
        coefficients, error = solve(fit, known)
        known.append(float(np.float32(coefficients[len(known)])))
    return known, error


def interval(low: float, high: float) -> Array:
    """Points of [low, high], dense at both ends, without 0 and its closest neighbours."""
    x = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 1501)))
    return x[np.abs(x) > 1e-3 * (high - low)]


def exponentials() -> list[Fit]:
    """e**r for exp and expm1, r coth(r/2) for sigmoid; |r| up to half of ln 2."""
    r = interval(-math.log(2) / 2, math.log(2) / 2)
    twice = 2 * np.expm1(r) / r
    beyond = (np.expm1(r) - r) / r**2
    return [
        Fit("EXP", r, twice, np.abs(r) * np.exp(-r) / 2, 5, (2.0,)),
        Fit("EXPM1", r, beyond, r**2 / np.abs(np.expm1(r)), 4),
        Fit("COTH", r**2, r / np.tanh(r / 2), np.abs(r) / 2, 2),
    ]


def logarithm() -> Fit:
    """What ln(1 + f) has beyond f - f*f/2, by f cubed; 1 + f within [2/3, 4/3]."""
    f = interval(-1 / 3, 1 / 3)
    beyond = (np.log1p(f) - f + f * f / 2) / f**3
    return Fit("LOG", f, beyond, np.abs(f**3 / np.log1p(f)), 7)


def tangents() -> list[Fit]:
    """tanh near 0 (|r| up to a quarter of ln 2) for tanh and for erf, and atanh(erf(x))."""
    slope = 2 / math.sqrt(math.pi)
    h = interval(0, math.log(2) / 4)
    r = h / slope
    ratio = np.tanh(h) / r
    x = interval(0, 3.95)
    inner = np.array([math.log((1 + math.erf(v)) / math.erfc(v)) / 2 for v in x])
    # How much of inner's relative error reaches erf(x).
    passed = inner / (np.sinh(inner) * np.cosh(inner))
    scaled = inner / slope / x
    return [
        Fit("TANH", h**2, np.tanh(h) / h, h / np.tanh(h), 3, (1.0,)),
        Fit("ERF", x**2, (scaled - 1) / x**2, passed / scaled * x**2, 8),
        Fit("ERF_TANH", r**2, ratio - 1, 1 / ratio, 3, (slope - 1,)),
    ]


def circular() -> list[Fit]:
    """sin and cos within an eighth of a turn."""
    r = interval(0, math.pi / 4)
    z = r**2
    return [
        Fit("SIN", z, (np.sin(r) / r - 1) / z, r**3 / np.sin(r), 2),
        Fit("COS", z, (np.cos(r) - 1 + z / 2) / z**2, z**2 / np.cos(r), 2),
    ]


@dataclass(frozen=True)
class WideFit:
    """A table of float64: target(z) ~ c0 + c1*z + ... over [low, high], of `terms` terms.

    How the error of the polynomial at z reaches the result is `weight(z)`.
    """

    name: str
    target: Callable[[Any], Any]
    low: Any
    high: Any
    terms: int
    weight: Callable[[Any], Any]

    def coefficients(self) -> tuple[list[float], float]:
        """Lowest first, rounded; and the largest error."""
        powers = mp.chebyfit(self.target, [self.low, self.high], self.terms)
        rounded = [float(c) for c in reversed(powers)]
        points = [self.low + (self.high - self.low) * (i + mp.mpf(1) / 3) / 500 for i in range(500)]
        errors = [
            abs((mp.polyval(rounded[::-1], z) - self.target(z)) * self.weight(z)) for z in points
        ]
        return rounded, float(max(errors))


NEAR = "1e-15"
"""In the place of 0, where a quotient has no value."""


def wide_fits() -> list[WideFit]:
    """The same functions as above; erf below 1, and from there on (1 + 2x) e**(x*x) erfc(x)."""
    half, near = mp.log(2) / 2, mp.mpf(NEAR)
    top = half * mp.mpf("1.0001")  # so that 0 is none of the points
    root = mp.sqrt

    def tail(q: Any) -> Any:
        x = _from_tail(q)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    def reaches(q: Any) -> Any:
        x = _from_tail(q)
        return mp.erfc(x) / mp.erf(x) / tail(q)

    low, high = ((mp.mpf(x) - TAIL_MIDDLE) / (x + TAIL_MIDDLE) for x in (1, 6))
    turn = mp.pi**2 / 16
    return [
        WideFit("exp", lambda r: 2 * mp.expm1(r) / r, -half, top, 12, lambda r: abs(r) / 2),
        WideFit("expm1", lambda r: (mp.expm1(r) - r) / r**2, -half, top, 11, abs),
        WideFit("coth", lambda z: root(z) * mp.coth(root(z) / 2), near, half**2, 6, root),
        WideFit(
            "log",
            lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
            -mp.mpf(1) / 3,
            mp.mpf("0.33334"),
            20,
            lambda f: abs(f**3 / mp.log1p(f)),
        ),
        WideFit("tanh", lambda z: mp.tanh(root(z)) / root(z), near, half**2 / 4, 7, lambda z: 1),
        WideFit("sin", lambda z: (mp.sin(root(z)) / root(z) - 1) / z, near, turn, 6, abs),
        WideFit(
            "cos", lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, near, turn, 6, lambda z: z * z
        ),
        WideFit("NEAR_ERF", lambda z: mp.erf(root(z)) / root(z), near, mp.mpf(1), 13, lambda z: 1),
        WideFit("ERFC", tail, low, high, 15, reaches),
        WideFit(
            "ATAN",
            lambda z: mp.atan(root(z)) / root(z),
            near,
            mp.tan(mp.pi / 8) ** 2,
            12,
            lambda z: 1,
        ),
    ]


TAIL_MIDDLE = 4
"""Where the variable (x - 4) / (x + 4) of erf's tail is 0."""


def _from_tail(q: Any) -> Any:
    return TAIL_MIDDLE * (1 + q) / (1 - q)


def main() -> None:
    """Prints every table with its error in units of half of a last place at 1."""
    for fit in [*exponentials(), logarithm(), *tangents(), *circular()]:
        coefficients, error = rounded(fit)
        print(f"# relative error {error * 2**24:.3f} * 2**-24")
        print(f"{fit.name}_P = ({', '.join(f'{c:.9g}' for c in coefficients)})")
    mp.mp.dps = 60
    for wide in wide_fits():
        numbers, error = wide.coefficients()
        print(f"# relative error {error * 2**53:.3f} * 2**-53")
        print(f"{wide.name}={tuple(numbers)!r},")


if __name__ == "__main__":
    main()
