"""Convolutions, pooling and TopK against loops in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.applied import Array, apply, real
from tests.frontends.caffe2.nets import net, op

X, W, BIAS = real(2, 4, 6, 7), real(6, 4, 3, 2), real(6)


def padded(x: Array, pads: list[int], value: float = 0.0) -> Array:
    """pads: in front of each axis of space, then behind each."""
    rank = len(pads) // 2
    ends = list(zip(pads[:rank], pads[rank:], strict=True))
    return np.pad(x, [(0, 0), (0, 0), *ends], constant_values=value)


def windows(x: Array, taps: list[int], strides: list[int], dilations: list[int]) -> Any:
    """Each place of the result with its window."""
    reach = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    pairs = zip(x.shape[2:], reach, strides, strict=True)
    counts = [(size - span) // step + 1 for size, span, step in pairs]
    for place in product(*map(range, counts)):
        starts = [i * s for i, s in zip(place, strides, strict=True)]
        ranges = zip(starts, reach, dilations, strict=True)
        yield place, x[:, :, *(slice(a, a + r, d) for a, r, d in ranges)]


def pooled(function: Callable[..., Any], x: Array, taps: list[int], strides: list[int]) -> Array:
    found = {p: function(w, axis=(2, 3)) for p, w in windows(x, taps, strides, [1, 1])}
    rows, columns = (1 + max(place[k] for place in found) for k in (0, 1))
    made = [[found[r, c] for c in range(columns)] for r in range(rows)]
    return np.moveaxis(np.array(made), (0, 1), (2, 3))


def convolved(
    x: Array,
    w: Array,
    pads: list[int],
    strides: list[int],
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Array:
    each, outputs = w.shape[1], w.shape[0] // groups
    found: dict[Any, Array] = {}
    apart = dilations or [1] * len(strides)
    for place, window in windows(padded(x, pads), list(w.shape[2:]), strides, apart):
        parts = [
            np.tensordot(
                window[:, g * each : (g + 1) * each],
                w[g * outputs : (g + 1) * outputs],
                (list(range(1, w.ndim)), list(range(1, w.ndim))),
            )
            for g in range(groups)
        ]
        found[place] = np.concatenate(parts, 1)
    sizes = [1 + max(place[k] for place in found) for k in range(len(strides))]
    y = np.zeros((*next(iter(found.values())).shape, *sizes), np.float32)
    for place, value in found.items():
        y[:, :, *place] = value
    return y


def transposed(x: Array, w: Array, strides: list[int], pads: list[int], extra: list[int]) -> Array:
    sizes = [
        (n - 1) * s + k + a
        for n, s, k, a in zip(x.shape[2:], strides, w.shape[2:], extra, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[1], *sizes), np.float32)
    for place in product(*map(range, x.shape[2:])):
        value = np.tensordot(x[:, :, *place], w, (1, 0))
        starts = zip(place, strides, w.shape[2:], strict=True)
        y[:, :, *(slice(i * s, i * s + k) for i, s, k in starts)] += value
    cut = zip(pads[:2], pads[2:], sizes, strict=True)
    return y[:, :, *(slice(low, size - high) for low, high, size in cut)]


def largest(x: Array, count: int, axis: int) -> list[Array]:
    places = np.argsort(-x, axis, kind="stable").take(range(count), axis)
    return [np.take_along_axis(x, places, axis), places]


CASES: list[tuple[str, list[Array], dict[str, Any], Callable[..., Any]]] = [
    (
        "Conv",
        [X, W, BIAS],
        {"kernel_h": 3, "kernel_w": 2, "stride": 2, "pad": 1},
        lambda x, w, b: convolved(x, w, [1] * 4, [2, 2]) + b[:, None, None],
    ),
    (
        "Conv",
        [X, W],
        {"kernels": [3, 2], "strides": [1, 2], "pads": [0, 1, 2, 0], "dilations": [2, 1]},
        lambda x, w: convolved(x, w, [0, 1, 2, 0], [1, 2], [2, 1]),
    ),
    (
        "Conv",
        [X, W[:, :2]],
        {"kernels": [3, 2], "group": 2, "pad_t": 1, "pad_l": 0, "pad_b": 0, "pad_r": 2},
        lambda x, w: convolved(x, w, [1, 0, 0, 2], [1, 1], groups=2),
    ),
    (
        "Conv",
        [X[:, :, 0], W[:, :, 0]],
        {"kernels": [2]},
        lambda x, w: convolved(x, w, [0, 0], [1]),
    ),
    (
        "ConvTranspose",
        [X, W[:4], BIAS[:4]],
        {"kernels": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "adj": 1},
        lambda x, w, b: transposed(x, w, [2, 3], [1, 0, 0, 1], [1, 1]) + b[:, None, None],
    ),
    ("MaxPool", [X], {"kernel": 2, "stride": 2}, lambda x: pooled(np.max, x, [2, 2], [2, 2])),
    (
        "MaxPool",
        [X],
        {"kernel_h": 3, "kernel_w": 2, "pad": 1},
        lambda x: pooled(np.max, padded(x, [1] * 4, -np.inf), [3, 2], [1, 1]),
    ),
    (
        "AveragePool",
        [X],
        {"kernel": 3, "stride": 2, "pad": 1},
        lambda x: pooled(np.nanmean, padded(x, [1] * 4, np.nan), [3, 3], [2, 2]),
    ),
    (
        "AveragePool",
        [X],
        {"kernel": 3, "pad": 1, "count_include_pad": 1},
        lambda x: pooled(np.mean, padded(x, [1] * 4), [3, 3], [1, 1]),
    ),
    ("TopK", [X], {"k": 3}, lambda x: largest(x, 3, -1)),
    ("TopK", [X[0]], {"k": 2, "axis": 1}, lambda x: largest(x, 2, 1)),
]


@pytest.mark.parametrize(("kind", "inputs", "args", "numpy"), CASES)
def test_values(
    kind: str, inputs: list[Array], args: dict[str, Any], numpy: Callable[..., Any]
) -> None:
    expected = numpy(*inputs)
    want = expected if isinstance(expected, list) else [expected]
    for got, array in zip(apply(kind, inputs, len(want), args), want, strict=True):
        np.testing.assert_allclose(got, array, 1e-4, 1e-5)


def test_open_sizes() -> None:
    """The size of an image whose height is open, halved and not."""
    made = net([op("Conv", "x w", "y", kernel=3, pad=1)], "x w", "y")
    program = import_net(made, shapes={"x": ("N", 4, "H", 7), "w": (6, 4, 3, 3)})
    w = real(6, 4, 3, 3)
    got = run(program, {"x": X, "w": w})["y"]
    np.testing.assert_allclose(got, convolved(X, w, [1] * 4, [1, 1]), 1e-4, 1e-5)
    made = net([op("MaxPool", "x", "y", kernel=2, stride=2)], "x", "y")
    program = import_net(made, shapes={"x": ("N", 4, "H", 7)})
    for height in (2, 3, 5):
        pairs = X[:, :, : height // 2 * 2, :6].reshape(-1, 4, height // 2, 2, 3, 2)
        got = run(program, {"x": X[:, :, :height]})["y"]
        np.testing.assert_allclose(got, pairs.max((3, 5)))
    with pytest.raises(CompileError, match="is negative"):
        run(program, {"x": X[:, :, :1]})


WRONG = [
    ("Conv", {"kernel": 2, "group": 3}, "data of shape|in 3 groups"),
    ("Conv", {}, "lacks the argument 'kernel'"),
    ("Conv", {"kernel": 3}, "for the kernels"),
    ("Conv", {"kernels": [2, 2], "pads": [1]}, "'pads' has 1 numbers, expected 4"),
    ("Conv", {"kernel": 2, "stride": 0}, "strides"),
    ("ConvTranspose", {"kernel": 2, "dilation": 2}, "dilations"),
]


@pytest.mark.parametrize(("kind", "args", "message"), WRONG)
def test_errors(kind: str, args: dict[str, Any], message: str) -> None:
    made = net([op(kind, "x w", "y", **args)], "x w", "y")
    with pytest.raises(CompileError, match=message):
        import_net(made, shapes={"x": (1, 2, 4, 4), "w": (4, 2, 2, 2)})


def test_windows_beyond_the_data() -> None:
    made = net([op("MaxPool", "x", "y", kernel=5)], "x", "y")
    with pytest.raises(CompileError, match="windows over 5 elements on an axis of 4"):
        import_net(made, shapes={"x": (1, 2, 4, 4)})


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("LRN", {"size": 3, "alpha": 0.5, "beta": 0.75}),
        ("ResizeNearest", {"height_scale": 2.0, "width_scale": 3.0}),
        ("UpsampleBilinear", {"height_scale": 2.0}),
        *(("PadImage", {"pad": 2, "mode": mode}) for mode in ("constant", "edge", "reflect")),
        ("SpaceToBatch", {"block_size": 1, "pad": 1}),
        *(
            (kind, {"kernel": 3, "stride": 2, "legacy_pad": rule})
            for kind in ("MaxPool", "AveragePool")
            for rule in (1, 2, 3)
        ),
        ("LpPool", {"kernel": 2, "p": 3.0}),
    ],
)
def test_images_of_any_size(kind: str, args: dict[str, Any]) -> None:
    """Compiled once for all sizes, they are what they are of each."""
    single = net([op(kind, "x", "y", **args)], "x", "y")
    model = rnncc.compile(single, shapes={"x": "N,2,H,W"})
    for shape in ((1, 2, 3, 5), (3, 2, 6, 4)):
        x = real(*shape)
        want = run(import_net(single, shapes={"x": shape}), {"x": x})["y"]
        np.testing.assert_allclose(model.run({"x": x})["y"], want, 1e-5, 1e-6)
