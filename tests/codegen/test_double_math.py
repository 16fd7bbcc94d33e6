"""The elementary functions of float64: accuracy, edges, equal lanes, objects without libraries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rnncc.codegen.llvm.vector import Vector
from tests.codegen.elementary import (
    EDGES,
    TARGETS,
    assert_exact_remainders,
    called_by_object,
    compiled,
    normal_results,
)

Doubles = NDArray[np.float64]
Wide = NDArray[Any]

BOUNDS = {
    "exp": 1.6,
    "expm1": 2.2,
    "log": 1.0,
    "log1p": 1.0,
    "tanh": 2.8,
    "sigmoid": 2.5,
    "erf": 4.0,
    "sin": 2.8,
    "cos": 2.8,
}
"""What docs/math.md promises, in ulps where the result is normal; the reference of erf is itself
off by up to one."""
LANES = (1, 2, 4, 8)
TINY = 2.0**-1022
TURNS = (709.782712893384, 709.7827128933841, -708.3964185322641, -708.3964185322642, -709.9, 5.93)
SPECIAL = np.array(
    [
        s * v
        for v in (0.0, 1.0, TINY, 5e-324, 1.7976931348623157e308, np.inf, np.nan, 2.0**23, *TURNS)
        for s in (1, -1)
    ]
)


def doubles(count: int, seed: int) -> Doubles:
    """Of all binades, more of those in which results are neither 0 nor 1 nor infinite."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False).view(np.float64)
    near = rng.uniform(-1, 1, count) * np.exp2(rng.uniform(-30, 10, count))
    far = rng.uniform(-1, 1, count) * np.exp2(rng.uniform(20, 64, count))
    return np.concatenate([SPECIAL, bits, near, rng.uniform(-1, 1, count) * 2.0**23, far])


def padded(values: Doubles) -> Doubles:
    return np.concatenate([values, np.zeros(-values.size % 8)])


def sigmoid(x: Wide) -> Wide:
    return 1 / (1 + np.exp(-x))


def erf(x: Wide) -> Wide:
    return np.vectorize(math.erf, otypes=[np.longdouble])(x.astype(np.float64))


def reference(name: str, x: Doubles) -> Wide:
    function: Any = {"sigmoid": sigmoid, "erf": erf}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return function(x.astype(np.longdouble))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no wider floats here")
@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", BOUNDS)
def test_error_stays_within_the_stated_bound(name: str, fma: bool) -> None:
    x = padded(doubles(20_000, 1))
    made = compiled(name, 8, fma, dtype="f64")(x)
    got, exact = normal_results(name, x, made, reference(name, x))
    unit = np.spacing(np.abs(exact.astype(np.float64)))
    assert float(np.max(np.abs(got - exact) / unit)) <= BOUNDS[name]


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", [*BOUNDS, "rem"])
def test_result_is_the_same_for_every_lane_count(name: str, fma: bool) -> None:
    x = padded(doubles(2_000, 2))
    inputs = 2 if name == "rem" else 1
    x = np.concatenate([x, x[::-1]]) if inputs == 2 else x
    scalar = compiled(name, 1, fma, inputs, "f64")(x)
    for lanes in LANES[1:]:
        vector = compiled(name, lanes, fma, inputs, "f64")(x)
        same = (scalar.view(np.uint64) == vector.view(np.uint64)) | (
            np.isnan(scalar) & np.isnan(vector)
        )
        assert same.all(), (lanes, x[: same.size][~same][:4])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", BOUNDS)
def test_edges_are_exact(name: str, lanes: int) -> None:
    """Those of float32, where they do not tell where that ends."""
    own = [(x, y) for x, y in EDGES[name] if abs(x) not in (89, 104, 4, 100, 1e-45)]
    cases = [*own, (np.nan, np.nan), (-np.nan, np.nan)]
    x = padded(np.array([x for x, _ in cases]))
    got = compiled(name, lanes, True, dtype="f64")(x)[: len(cases)]
    wanted = np.array([y for _, y in cases])
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_bounded_functions_never_exceed_one(name: str, fma: bool) -> None:
    x = padded(np.abs(doubles(20_000, 3)))
    x = x[~np.isnan(x)]
    x = padded(x)
    above, below = (compiled(name, 8, fma, dtype="f64")(v) for v in (x, -x))
    assert above.max() == 1
    if name == "sigmoid":
        assert below.min() == 0
    else:
        np.testing.assert_array_equal(below, -above)


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_remainder_is_exact(lanes: int) -> None:
    """Of numbers of all binades, with quotients up to 2**2098."""
    x = padded(np.concatenate([SPECIAL, doubles(200, 4)]))
    assert_exact_remainders(x, lanes, "f64")


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", [*BOUNDS, "sqrt", "abs", "round", "rem"])
def test_object_calls_no_library(name: str, cpu: str) -> None:
    _, widest = TARGETS[cpu]
    for lanes in (widest.lanes // 2, 1):
        vector = Vector(lanes, widest.fma, "f64")
        assert called_by_object(name, vector, cpu, 2 if name == "rem" else 1) == []
