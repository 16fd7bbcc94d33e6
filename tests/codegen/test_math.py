"""The elementary functions: accuracy, edges, equal lanes, objects that need no library."""

import math

import llvmlite.binding as llvm
import numpy as np
import pytest

from rnncc.codegen.llvm.vector import Real, Vector
from tests.codegen.elementary import (
    EDGES,
    TARGETS,
    Doubles,
    Floats,
    assert_exact_remainders,
    called_by_object,
    compiled,
    normal_results,
)

# What docs/math.md promises, in ulps where the result is normal.
BOUNDS = {
    "exp": 1.6,
    "expm1": 2.0,
    "log": 1.0,
    "log1p": 1.0,
    "tanh": 2.5,
    "sigmoid": 2.5,
    "erf": 3.2,
    "sin": 2.7,
    "cos": 2.7,
}
LANES = (1, 4, 8, 16)
TINY = 2.0**-126  # the smallest normal float
TURNS = (88.72283, 88.722839, 88.3763, -87.33654, -87.33655, -86.99, -103.98, 9.02, 3.92, 2.0**23)
SPECIAL = np.array(
    [s * v for v in (0.0, 1.0, TINY, 1e-45, 3.4028235e38, np.inf, np.nan, *TURNS) for s in (1, -1)],
    np.float32,
)


def padded(values: Floats) -> Floats:
    return np.concatenate([values, np.zeros(-values.size % 16, np.float32)])


def floats(first: int, last: int, step: int = 1) -> Floats:
    """The floats whose bits are first, first + step, ..."""
    return np.arange(first, last, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


def erf(x: Doubles) -> Doubles:
    result = np.where(np.isnan(x), x, np.copysign(1.0, x))
    result = np.where(np.abs(x) < 1e-4, x * (2 / math.sqrt(math.pi)) * (1 - x * x / 3), result)
    middle = (np.abs(x) >= 1e-4) & (np.abs(x) < 5)
    result[middle] = [math.erf(v) for v in x[middle].tolist()]
    return result


OWN = {"sigmoid": sigmoid, "erf": erf}


def reference(name: str, x: Floats) -> Doubles:
    function = OWN[name] if name in OWN else getattr(np, name)
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64))


def check(name: str, fma: bool, x: Floats, exact: Doubles) -> float:
    """Asserts NaN, inf and small results where they belong; returns the largest error in ulps."""
    got, exact = normal_results(name, x, compiled(name, 8, fma)(x), exact)
    binade = (exact.view(np.uint64) & np.uint64(0x7FF0 << 48)).view(np.float64)
    return float(np.max(np.abs(got - exact) / binade, initial=0.0)) * 2**23


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", BOUNDS)
def test_error_stays_within_the_stated_bound(name: str, fma: bool) -> None:
    """A sample of every binade, and the special values."""
    x = padded(np.concatenate([SPECIAL, floats(0, 2**32, 2039)]))
    assert check(name, fma, x, reference(name, x)) <= BOUNDS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_error_of_every_float_stays_within_the_stated_bound(name: str) -> None:
    """All floats, infinities and some NaNs included; the NaNs beyond are alike."""
    worst = dict.fromkeys((True, False), 0.0)
    chunk = 1 << 18
    for sign in (0, 1 << 31):
        for first in range(sign, sign + 0x7F800000 + chunk, chunk):
            x = floats(first, first + chunk)
            exact = reference(name, x)
            for fma in worst:
                worst[fma] = max(worst[fma], check(name, fma, x, exact))
    print(f"{name}: {worst[True]:.3f} ulp with fused multiply-add, {worst[False]:.3f} without")
    assert max(worst.values()) <= BOUNDS[name]


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", BOUNDS)
def test_result_is_the_same_for_every_lane_count(name: str, fma: bool) -> None:
    x = padded(np.concatenate([SPECIAL, floats(0, 2**32, 65521)]))
    scalar = compiled(name, 1, fma)(x)
    for lanes in LANES[1:]:
        vector = compiled(name, lanes, fma)(x)
        same = (scalar.view(np.uint32) == vector.view(np.uint32)) | (
            np.isnan(scalar) & np.isnan(vector)
        )
        assert same.all(), (lanes, x[~same][:4], scalar[~same][:4], vector[~same][:4])


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", BOUNDS)
def test_edges_are_exact(name: str, lanes: int) -> None:
    cases = [*EDGES[name], (np.nan, np.nan), (-np.nan, np.nan)]
    x = padded(np.array([x for x, _ in cases], np.float32))
    got = compiled(name, lanes, True)(x)[: len(cases)]
    wanted = np.array([y for _, y in cases], np.float32)
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("name", BOUNDS)
def test_every_kind_of_nan_stays_nan(name: str) -> None:
    x = np.concatenate([floats(0x7F800001, 2**31, 4099), floats(0xFF800001, 2**32, 4099)])
    assert np.isnan(compiled(name, 8, True)(padded(x))[: x.size]).all()


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_bounded_functions_never_exceed_one(name: str, fma: bool) -> None:
    x = floats(0, 0x7F800000, 509)
    x = padded(x)
    above, below = compiled(name, 8, fma)(x), compiled(name, 8, fma)(-x)
    assert above.max() == 1
    if name == "sigmoid":
        assert below.min() == 0
    else:
        np.testing.assert_array_equal(below, -above)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extrema_pass_nan_on(name: str) -> None:
    x = padded(SPECIAL)
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    got = compiled(name, 8, True, inputs=2)(np.concatenate([a, b]))
    np.testing.assert_array_equal(got, getattr(np, name)(a, b))


@pytest.mark.parametrize(("lanes", "dtype"), [(16, "f32"), (8, "f64")])
def test_scaling_by_one_instruction_gives_the_same_bits(lanes: int, dtype: Real) -> None:
    if not llvm.get_host_cpu_features().get("avx512f"):
        pytest.skip("this machine has no such instruction")
    ends = np.linspace(-800, 800, 1 << 16)
    x = padded(np.concatenate([SPECIAL, floats(0, 2**32, 65521), ends.astype(np.float32)]))
    by_products = compiled("exp", lanes, True, dtype=dtype)
    by_scaling = compiled("exp", lanes, True, dtype=dtype, scales=True)
    with np.errstate(invalid="ignore"):  # of NaN as a double
        np.testing.assert_array_equal(by_scaling(x), by_products(x))


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_remainder_is_exact(lanes: int) -> None:
    """Of floats of all binades, with quotients up to 2**277."""
    numbers = np.concatenate([SPECIAL, floats(0, 2**32, 9_999_991)])
    assert_exact_remainders(padded(numbers), lanes, "f32")


@pytest.mark.parametrize(
    ("name", "numpy_name"), [("sqrt", "sqrt"), ("abs", "abs"), ("round", "rint")]
)
def test_exact_functions_equal_numpy(name: str, numpy_name: str) -> None:
    x = padded(np.concatenate([SPECIAL, floats(0, 2**32, 65521)]))
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, numpy_name)(x)
    np.testing.assert_array_equal(compiled(name, 8, True)(x), wanted)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", [*BOUNDS, "sqrt", "abs", "round"])
def test_object_calls_no_library(name: str, cpu: str) -> None:
    _, widest = TARGETS[cpu]
    for vector in (widest, Vector(1, widest.fma)):
        assert called_by_object(name, vector, cpu) == []


def test_undefined_symbols_are_found() -> None:
    """Without fused multiply-add in the target, LLVM calls libm's: what the objects must avoid."""
    assert called_by_object("exp", Vector(4, fma=True), "x86-64-v2") == ["fmaf"]
