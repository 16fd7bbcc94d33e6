"""Norms, reductions, choices, convolutions and pooling: values, slopes, edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.nn import arithmetic, indexing, normalisation, pooling, ranking, reduction
from rnncc.nn.convolution import convolution
from rnncc.nn.transposed_convolution import transposed_convolution
from rnncc.nn.windows import Window
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.layouts.split_windows import SplitWindows
from tests.passes.gradients import check_gradients
from tests.passes.helpers import applied, count
from tests.strategies import make_inputs

Array = np.ndarray[Any, Any]
Formula = Callable[[Builder, SSAValue], SSAValue]
RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4))
IMAGE = RNG.standard_normal((2, 4, 5, 6))


def values(formula: Formula, x: Array) -> Array:
    """In float64."""
    b = Builder.net("m")
    return run(b.finish({"y": formula(b, b.input("x", x.shape))}), {"x": x}, np.float64)["y"]


def slopes(formula: Formula, x: Array) -> Array:
    """By compiled code, in float32: of the sum of all results."""
    b = Builder.net("m")
    y = formula(b, b.input("x", x.shape))
    net = b.finish({"y": y})
    inputs = {"x": x.astype(np.float32)}
    ones = np.ones_like(rnncc.compile(net).run(inputs)["y"])
    return rnncc.compile(differentiate(net, ["y"], ["x"])).run({**inputs, "grad:y": ones})["grad:x"]


def channel(b: Builder, numbers: Sequence[float]) -> SSAValue:
    return b.constant(np.array(numbers, np.float32))


def batch_norm(b: Builder, x: SSAValue) -> SSAValue:
    average, variance, scale, bias = (channel(b, [n, n, n]) for n in (0.5, 2.0, 3.0, -1.0))
    return normalisation.batch_norm(b, x, average, variance, scale, bias, 1e-3)


def centred(x: Array, axis: int | tuple[int, ...]) -> Array:
    return x - x.mean(axis, keepdims=True)


SMOOTH: dict[str, tuple[Formula, Callable[[Array], Array]]] = {
    "softmax": (
        lambda b, x: normalisation.softmax(b, x, 1),
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    ),
    "log softmax": (
        lambda b, x: normalisation.log_softmax(b, x, 2),
        lambda x: x - np.log(np.exp(x).sum(2, keepdims=True)),
    ),
    "layer norm": (
        lambda b, x: normalisation.layer_norm(b, x, None, None, 1, 1e-3)[0],
        lambda x: centred(x, (1, 2)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-3),
    ),
    "rms norm": (
        lambda b, x: normalisation.rms_norm(b, x, None, 2, 1e-3),
        lambda x: x / np.sqrt((x * x).mean(2, keepdims=True) + 1e-3),
    ),
    "batch norm": (batch_norm, lambda x: (x - 0.5) / np.sqrt(2.001) * 3 - 1),
    "norm 1": (
        lambda b, x: normalisation.lp_normalise(b, x, 1, 1),
        lambda x: x / abs(x).sum(1, keepdims=True),
    ),
    "norm 2": (
        lambda b, x: normalisation.lp_normalise(b, x, 2, 1),
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
    ),
    "mean": (lambda b, x: reduction.mean(b, x, [0, 2]), lambda x: x.mean((0, 2))),
    "product": (lambda b, x: reduction.multiplied(b, x, [1]), lambda x: x.prod(1)),
    "log sum exp": (
        lambda b, x: reduction.log_sum_exp(b, x, [0, 1]),
        lambda x: np.log(np.exp(x).sum((0, 1))),
    ),
    "running sum": (
        lambda b, x: reduction.cumulate(b, x, 1, exclusive=True, reverse=True),
        lambda x: x[:, ::-1].cumsum(1)[:, ::-1] - x,
    ),
    "whole power": (lambda b, x: arithmetic.power(b, x, 5), lambda x: x**5),
    "largest two": (
        lambda b, x: ranking.top_k(b, x, 2, 1, True)[0],
        lambda x: -np.sort(-x, 1)[:, :2],
    ),
    "sorted vector": (
        lambda b, x: ranking.top_k(b, b.reshape(x, [24]), 24, 0, False)[0],
        lambda x: np.sort(x, None),
    ),
    "triangle": (lambda b, x: indexing.triangle(b, x, 1, True), lambda x: np.triu(x, 1)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_gradients(name: str) -> None:
    formula, numpy = SMOOTH[name]
    np.testing.assert_allclose(values(formula, X), numpy(X), 1e-6, 1e-9)
    b = Builder.net("m")
    check_gradients(b.finish({"y": formula(b, b.input("x", X.shape))}), {})


@pytest.mark.parametrize("exponent", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("known", [True, False])
def test_powers_without_end(exponent: float, known: bool) -> None:
    bases = np.array([0.5, 1.0, 2.0, -0.5, -1.0, -2.0, 0.0, math.inf, math.nan])

    def formula(b: Builder, x: SSAValue) -> SSAValue:
        return arithmetic.power(b, x, exponent if known else b.mul(x, b.full_like(x, exponent)))

    with np.errstate(all="ignore"):
        expected = np.power(bases, exponent if known else bases * exponent)
        np.testing.assert_array_equal(values(formula, bases), expected)


@pytest.mark.parametrize("known", [True, False])
def test_powers_of_signed_zeros_and_infinities(known: bool) -> None:
    """Odd powers have the sign of their base; other ones of -0 and -inf are those of 0 and inf."""
    bases = np.array([0.0, -0.0, math.inf, -math.inf, -2.0])
    for exponent in (1, 3, 4, -1, -3, -4, 33, -33, 0.25, 2.5, -0.25, -2.5):

        def formula(b: Builder, x: SSAValue, exponent: float = exponent) -> SSAValue:
            return arithmetic.power(b, x, exponent if known else b.full_like(x, exponent))

        with np.errstate(all="ignore"):
            expected, got = np.power(bases, exponent), values(formula, bases)
        np.testing.assert_allclose(got, expected, 1e-6, err_msg=str(exponent))
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


def test_batch_norm_of_a_large_average_keeps_its_digits() -> None:
    """Folded into the bias, an average of 10⁵ deviations costs the last five digits."""
    b = Builder.net("m")
    average, variance = channel(b, [1e4]), channel(b, [0.01])
    y = normalisation.batch_norm(b, b.input("x", [3, 1]), average, variance, None, None, 0.0)
    x = np.array([[1e4], [1e4 + 0.125], [1e4 - 0.25]], np.float32)
    got = rnncc.compile(b.finish({"y": y})).run({"x": x})["y"]
    np.testing.assert_allclose(got, [[0], [1.25], [-2.5]], 1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_zeros_have_a_norm_without_a_slope(p: int) -> None:
    zeros = np.zeros((2, 3))
    assert not slopes(lambda b, x: normalisation.lp_normalise(b, x, p, 1), zeros)[:, :0].any()
    assert np.isfinite(slopes(lambda b, x: normalisation.lp_normalise(b, x, p, 1), zeros)).all()
    np.testing.assert_array_equal(
        slopes(lambda b, x: reduction.root_of_powers(b, x, [1]), zeros), zeros
    )


def test_extreme_sums_of_exponentials() -> None:
    x = np.array([[1e4, 1e4], [-1e4, -1e4], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    got = values(lambda b, x: reduction.log_sum_exp(b, x, [1]), x)
    np.testing.assert_allclose(got, [1e4 + np.log(2), -1e4 + np.log(2), -np.inf, np.inf])


@pytest.mark.parametrize(
    ("kind", "last", "places"),
    [("max", False, [1, 0, 0]), ("max", True, [2, 2, 2]), ("min", False, [0, 0, 0])],
)
def test_places_of_equal_elements_and_nan(kind: str, last: bool, places: list[int]) -> None:
    x = np.array([[1, 3, 3], [np.nan, 5, np.nan], [2, 2, 2]])
    found = values(lambda b, v: indexing.extremum_place(b, v, kind, 1, last), x)
    np.testing.assert_array_equal(found, places)


def test_signs() -> None:
    x = np.array([-7.0, -0.0, 0.0, 7.0, np.nan])
    np.testing.assert_array_equal(values(arithmetic.sign, x), [-1, 0, 0, 1, 0])
    flat = slopes(lambda b, x: b.mul(arithmetic.sign(b, x), x), x[:4])
    np.testing.assert_array_equal(flat, [-1, 0, 0, 1])


@pytest.mark.parametrize("divisor", [3.0, -3.0])
def test_remainders_have_the_sign_of_the_divisor(divisor: float) -> None:
    x = np.array([-7.0, -6.0, 0.0, 7.5])
    got = values(lambda b, x: arithmetic.modulo(b, x, b.full_like(x, divisor)), x)
    np.testing.assert_array_equal(got, np.mod(x, divisor))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("other", [math.inf, -math.inf, math.nan, 2.0, -2.5])
def test_quotients_and_lengths_of_infinities(other: float) -> None:
    """NaN until now: of -1 over infinity, rounded down, and of NaN and an infinite side."""
    x = np.array([math.inf, -math.inf, math.nan, 3.0, -3.0, 0.0])
    y = np.full_like(x, other)
    quotients = values(lambda b, x: arithmetic.floor_divide(b, x, b.full_like(x, other)), x)
    np.testing.assert_array_equal(quotients, np.floor_divide(x, y))
    lengths = values(lambda b, x: arithmetic.hypotenuse(b, x, b.full_like(x, other)), x)
    np.testing.assert_allclose(lengths, np.hypot(x, y))


def test_gather_by_places() -> None:
    b = Builder.net("m")
    x, index = b.input("x", [2, 3]), b.input("index", [2, 2], "i64")
    program = b.finish({"y": indexing.gather_elements(b, x, index, 1)})
    array, at = RNG.standard_normal((2, 3)), np.array([[2, 0], [1, 1]])
    got = run(program, {"x": array, "index": at}, np.float64)["y"]
    np.testing.assert_array_equal(got, np.take_along_axis(array, at, 1))
    with pytest.raises(ValueError, match="an index outside"):
        run(program, {"x": array, "index": np.array([[0, 3], [0, 0]])}, np.float64)


@pytest.mark.parametrize(
    ("weights", "groups", "windows"),
    [
        ([6, 2, 3, 2], 2, [Window(3, 2, 1, (1, 0)), Window(2, 1, 2, (0, 1))]),
        ([4, 1, 3, 3], 4, [Window(3, 2, 1, (1, 0)), Window(3, 2, 1, (1, 1))]),
        ([2, 16, 5, 3], 1, [Window(5, 3, 1, (2, 2)), Window(3, 2, 1, (0, 0))]),
        ([4, 16, 1, 4], 2, [Window(1), Window(4, 3, 1, (1, 0))]),
    ],
    ids=["laid over", "depthwise", "by phases", "by phases of groups"],
)
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(
    weights: list[int], groups: int, windows: list[Window]
) -> None:
    b, image = Builder.net("m"), [2, weights[1] * groups, 5, 6]
    x, w = b.input("x", image), b.input("w", weights)
    y = convolution(b, x, w, None, windows, groups=groups)
    program = b.finish({"y": y})
    check_gradients(program, {})
    sizes, arrays = make_inputs(program, {})
    both = differentiate(program, ["y"], ["x"])
    outside = RNG.standard_normal(run(program, arrays, np.float64)["y"].shape)
    want = run(both, {**arrays, "grad:y": outside}, np.float64, sizes)["grad:x"]
    b = Builder.net("t")
    dy, w = b.input("dy", outside.shape), b.input("w", weights)
    cut = [(Dim.of(n), w.pads[0]) for n, w in zip((5, 6), windows, strict=True)]
    net = b.finish({"x": transposed_convolution(b, dy, w, None, windows, cut, groups=groups)})
    got = run(net, {"dy": outside, "w": arrays["w"]}, np.float64)["x"]
    np.testing.assert_allclose(got, want, 1e-9, 1e-12)
    check_gradients(net, {})


@pytest.mark.parametrize("beyond", [0, 2])
def test_gradients_of_phases_are_of_whole_windows(beyond: int) -> None:
    """One product each for x and for weights, where phases have 2 and 1 taps; with zeros behind."""
    b = Builder.net("m")
    x, w = b.input("x", ["N", 3, "T"]), b.input("w", [3, 16, 3])
    size = Dim.of("T") * 2 - 1 if not beyond else Dim.of("T") * 2 + 2
    y = transposed_convolution(b, x, w, None, [Window(3, 2)], [(size, 1)])
    program = b.finish({"y": y})
    check_gradients(program, {"N": 2, "T": 4})
    both = differentiate(program, ["y"], ["x", "w"])
    applied(Simplify())(both)
    assert count(program.net.body.block)["matmul"] == 2
    assert count(both.net.body.block)["matmul"] == 2 + 2


@pytest.mark.parametrize(("channels", "products"), [(64, 17), (32, 1)])
def test_long_runs_of_taps_are_read_in_place(channels: int, products: int) -> None:
    """Many runs of 256 elements are as many products; of 128 elements, one of a copy."""
    b = Builder.net("m")
    x, w = b.input("x", [1, channels, 18, 6]), b.input("w", [2, channels, 17, 4])
    windows = [Window(17, pads=(1, 0)), Window(4)]
    program = b.finish({"y": convolution(b, x, w, None, windows)})
    assert count(program.net.body.block)["matmul"] == 1
    applied(SplitWindows())(program)
    assert count(program.net.body.block)["matmul"] == products
    shapes = {"x": (1, channels, 18, 6), "w": (2, channels, 17, 4)}
    arrays = {name: RNG.standard_normal(shape) for name, shape in shapes.items()}
    padded = np.pad(arrays["x"], ((0, 0), (0, 0), (1, 0), (0, 0)))
    tiles = np.lib.stride_tricks.sliding_window_view(padded, (17, 4), (2, 3))
    want = np.einsum("nchwij,mcij->nmhw", tiles, arrays["w"])
    np.testing.assert_allclose(run(program, arrays, np.float64)["y"], want, 1e-9, 1e-12)


@pytest.mark.parametrize(
    ("size", "window", "products"),
    [
        (3, Window(3, pads=(1, 1)), 3),
        (1, Window(3, pads=(1, 1)), 1),
        (5, Window(3, 2, 1, (1, 0)), 2),
        (4, Window(3, 1, 2, (2, 2)), 2),
        (20, Window(3, pads=(1, 1)), 1),
        (2, Window(3, pads=(3, 1)), 1),
    ],
)
def test_pads_of_a_low_image_are_not_computed(size: int, window: Window, products: int) -> None:
    b, plain, shape = Builder.net("m"), Builder.net("p"), [2, 64, size, 5]
    windows = [window, Window(3, pads=(1, 1))]
    x, w = b.input("x", shape), b.input("w", [3, 64, 3, 3])
    program = b.finish({"y": convolution(b, x, w, None, windows)})
    assert count(program.net.body.block)["matmul"] == products
    x, w = plain.input("x", shape), plain.input("w", [3, 64, 3, 3])
    before, behind = (int(Dim.of(pad)) for pad in window.pads)
    x = plain.pad(x, 2, before, Dim.of(size + before + behind), 0.0)
    windows[0] = Window(window.taps, window.stride, window.dilation)
    whole = plain.finish({"y": convolution(plain, x, w, None, windows)})
    arrays = {"x": RNG.standard_normal(shape), "w": RNG.standard_normal((3, 64, 3, 3))}
    want = run(whole, arrays, np.float64)["y"]
    np.testing.assert_allclose(run(program, arrays, np.float64)["y"], want, 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("shape", "weights", "windows", "sums"),
    [
        ([2, 16, "T"], [3, 16, 3], [Window(3, 1, 2, (4, 0))], 0),
        ([1, 16, 9, 10], [5, 16, 3, 2], [Window(3, pads=(1, 1)), Window(2, 1, 3, (1, 2))], 0),
        ([1, 32, 9, 8], [16, 32, 3, 3], [Window(3, pads=(1, 1))] * 2, 2),
        ([2, 16, 8, 9, 9], [4, 16, 1, 3, 2], [Window(1), Window(3), Window(2, pads=(1, 0))], 4),
        ([1, 16, 9, 9], [4, 16, 3, 2], [Window(3, 2), Window(2, pads=(1, 0))], 3),
        ([1, 8, 9, 9], [4, 8, 3, 3], [Window(3, pads=(1, 1))] * 2, 2),
    ],
)
def test_gradients_of_convolutions_by_inputs(
    shape: Sequence[Any], weights: Sequence[int], windows: Sequence[Window], sums: int
) -> None:
    """Convolutions, too, along axes that windows cover one by one, where they have few pads and
    channels fill a vector; else sums of taps, beside those of a product for each run of taps."""
    b = Builder.net("m")
    x, w = b.input("x", shape), b.input("w", weights)
    program = b.finish({"y": convolution(b, x, w, None, windows)})
    applied(SplitWindows())(program)
    for change in (applied(Simplify()), lambda _: None):
        check_gradients(program, {"T": 8}, change)
    both = differentiate(program, ["y"], ["x"])
    applied(Simplify())(both)
    assert count(both.net.body.block).get("add", 0) == sums


POOLS: dict[str, Formula] = {
    "largest": lambda b, x: pooling.max_pool(b, x, [Window(2, 2), Window(3, 1, 1, (1, 1))]),
    "mean": lambda b, x: pooling.average_pool(b, x, [Window(2), Window(3, 2, 1, (1, 1))], False),
    "norm": lambda b, x: pooling.lp_pool(b, x, [Window(2), Window(2, 2)], 3),
    "parts": lambda b, x: pooling.adaptive_pool(b, "mean", x, [3, 2]),
    "largest of parts": lambda b, x: pooling.adaptive_pool(b, "max", x, [None, 4]),
}


@pytest.mark.parametrize("name", POOLS)
def test_gradients_of_pools(name: str) -> None:
    b = Builder.net("m")
    check_gradients(b.finish({"y": POOLS[name](b, b.input("x", IMAGE.shape))}), {})


def test_places_of_true_rows_come_first() -> None:
    """Each row has one place, so that no two are stored in the same."""
    for flags in ([0, 1, 0, 0, 1, 1], [0, 0], [1, 1], [0], [1]):
        b = Builder.net("m")
        places, count = indexing.first_places(b, b.input("flags", [len(flags)], "i1"))
        got = rnncc.compile(b.finish({"places": places, "count": count})).run(
            {"flags": np.array(flags, bool)}
        )
        assert got["places"].tolist()[: got["count"]] == np.flatnonzero(flags).tolist()
        assert sorted(got["places"].tolist()) == list(range(len(flags)))


def test_windows_that_reach_beyond_the_pads() -> None:
    """The last window begins on the data; what it has beyond the pads is no element."""
    window = Window(3, 2, 1, (1, 1), rounds_up=True)
    assert window.count(Dim.of(6)) == 4
    ones = np.ones((1, 1, 6))
    means = values(lambda b, x: pooling.average_pool(b, x, [window], True), ones)
    np.testing.assert_allclose(means, [[[2 / 3, 1, 1, 1 / 2]]])


WINDOWS = [
    Window(taps, stride, dilation, pads, rounds_up)
    for taps, stride, dilation in ((1, 1, 1), (3, 2, 1), (2, 3, 2), (2, 5, 1))
    for pads in ((0, 0), (1, 2), (0, 9))
    for rounds_up in (False, True)
]


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_of_an_open_size(window: Window) -> None:
    """As frameworks count them at each size: of those rounded up, one that is late is left out."""
    count, (before, behind) = window.count(Dim.of("T")), map(int, window.pads)
    for size in range(max(window.least - before - behind, 0), 30):
        room = size + before + behind - window.reach
        expected = room // window.stride + 1
        if window.rounds_up:
            expected = math.ceil(room / window.stride) + 1
            expected -= (expected - 1) * window.stride >= size + before
        assert count.evaluate({"T": size}) == expected == window.count(Dim.of(size)), size
