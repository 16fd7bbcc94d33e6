"""Transforms along axes of open size: Fourier's, long ones too, and images moved by matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    imported,
    info,
    interpreted,
    model,
    node,
)


def transform(parts: int, axis: int, **attributes: Any) -> Any:
    nodes = [node("DFT", "x _ axis", "y", **attributes)]
    return model(
        nodes, [info("x", ["N", "T", "U", parts])], [info("y", None)], {"axis": np.array(axis)}, 20
    )


def of_length(*nodes: Any, **constants: Any) -> Any:
    """The length is given, as PyTorch's exporter writes it: `t` is that of the axis."""
    before = [node("Shape", "x", "sizes", start=1, end=2), node("Squeeze", "sizes", "t"), *nodes]
    inputs = [info("x", ["N", "T", "U", 1])]
    numbers = {"axis": np.array(1), "two": np.array(2), **constants}
    last = node("DFT", "x length axis", "y", onesided=1)
    return model([*before, last], inputs, [info("y", None)], numbers, 20)


CASES = {
    "real": transform(1, 1),
    "half": transform(1, 1, onesided=1),
    "complex": transform(2, 2),
    "inverse": transform(2, 1, inverse=1),
    "length": of_length(node("Identity", "t", "length")),
    "twice": of_length(node("Mul", "t two", "length")),
    "less": of_length(node("Add", "t two", "u"), node("Div", "u two", "length")),
    "known": of_length(length=np.array(12)),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_any_length(name: str) -> None:
    made = CASES[name]
    compiled: Any = rnncc.compile(made)
    parts = made.graph.input[0].type.tensor_type.shape.dim[-1].dim_value
    for t, u in ((1, 3), (6, 8), (7, 1), (64, 5)):
        x = np.random.default_rng(t).standard_normal((2, t, u, parts)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x})["y"]
        got = compiled.run({"x": x})["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-4, 2e-5 * max(1, np.abs(want).max()))


def test_long_ones_are_refused() -> None:
    compiled: Any = rnncc.compile(CASES["real"])
    with pytest.raises(ArrayError, match="would be -1"):
        compiled.run({"x": np.zeros((1, 4097, 1, 1), np.float32)})


def known(length: int, parts: int, opset: int = 20, **attributes: Any) -> Any:
    """A transform of a known length, along the first of two axes beside that of the batch."""
    nodes = [node("DFT", "x length axis", "y", **attributes)]
    rows = length // 2 + 1 if attributes.get("onesided") and attributes.get("inverse") else length
    inputs = [info("x", ["N", rows, 2, parts])]
    constants = {"axis": np.array(1), "length": np.array(length)}
    return model(nodes, inputs, [info("y", None)], constants, opset)


@pytest.mark.parametrize("length", [127, 128, 225, 400, 508, 1025])
def test_long_ones_are_made_of_shorter_ones(length: int) -> None:
    """Also of lengths that have no two like factors."""
    rng = np.random.default_rng(length)
    x = rng.standard_normal((2, length, 2, 2)).astype(np.float32)
    z = np.asarray(x[..., 0] + 1j * x[..., 1], np.complex128)
    half = z[:, : length // 2 + 1]
    cases = [
        (known(length, 1), x[..., :1], np.fft.fft(z.real, axis=1)),
        (known(length, 1, onesided=1), x[..., :1], np.fft.rfft(z.real, axis=1)),
        (known(length, 2), x, np.fft.fft(z, axis=1)),
        (known(length, 2, inverse=1), x, np.fft.ifft(z, axis=1)),
        (known(length, 2, inverse=1, onesided=1), x[:, : length // 2 + 1], half),
    ]
    for made, given, want in cases:
        got = interpreted(made, {"x": given})["y"]
        if want is half:
            want = np.fft.irfft(half, length, axis=1)
            got = np.concatenate([got, np.zeros_like(got)], -1)
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, 0, 2e-6 * abs(want).max())
        largest = max(array.size for array in imported(made).arrays.values())
        assert largest <= (4 * length * length if length in (127, 508) else 80 * length)


def test_lengths_beyond_those_of_matrices() -> None:
    x = np.random.default_rng(0).standard_normal((1, 8192, 2, 1)).astype(np.float32)
    got = interpreted(known(8192, 1), {"x": x})["y"]
    want = np.fft.fft(x[..., 0].astype(float), axis=1)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, 0, 2e-6 * abs(want).max())
    for length, most in ((4099, 4096), (1 << 17, 1 << 16)):
        with pytest.raises(CompileError, match=f"{length} elements, at most {most} are"):
            imported(known(length, 1))


@pytest.mark.peers
@pytest.mark.parametrize("corners", [0, 1])
def test_images_moved_by_matrices(corners: int) -> None:
    """A batch of one, too: the standard's definition of AffineGrid drops axes of one element."""
    nodes = [
        node("Shape", "x", "sizes"),
        node("AffineGrid", "theta sizes", "grid", align_corners=corners),
        node("GridSample", "x grid", "y", align_corners=corners),
    ]
    inputs = [info("theta", ["N", 2, 3]), info("x", ["N", 2, "H", "W"])]
    made = model(nodes, inputs, [info("grid", None), info("y", None)], {}, 20)
    rng = np.random.default_rng(0)
    for n, h, w in ((1, 1, 3), (1, 4, 5), (2, 3, 1)):
        theta, x = rng.standard_normal((n, 2, 3)), rng.standard_normal((n, 2, h, w))
        given = {"theta": theta.astype(np.float32), "x": x.astype(np.float32)}
        assert_close(interpreted(made, given), by_onnxruntime(made, given))


def test_matrices_that_do_not_fit() -> None:
    inputs, outputs = [info("theta", ["N", 2, 3])], [info("y", None)]
    for size in ([2, 1, 4, 5, 6], [2], [2, 1, 4]):
        sizes = {"sizes": np.array(size)}
        with pytest.raises(CompileError, match=r"has matrices of shape \w x 2 x 3 for a tensor"):
            imported(model([node("AffineGrid", "theta sizes", "y")], inputs, outputs, sizes, 20))


@pytest.mark.peers
@pytest.mark.parametrize("length", ["", "even", "odd", "known"])
def test_back_from_half_a_spectrum(length: str) -> None:
    """To twice the size less two by default, to one more, or to a known number of elements."""
    nodes = [node("Shape", "x", "bins", start=1, end=2), node("Squeeze", "bins", "b")]
    nodes += [node("Mul", "b two", "c"), node("Sub", "c two", "even"), node("Sub", "c one", "odd")]
    nodes.append(node("DFT", f"x {length or '_'} one", "y", inverse=1, onesided=1))
    numbers = {"one": np.array(1), "two": np.array(2), "known": np.array(9)}
    inputs = [info("x", ["N", "F", 3, 2])]
    made = model(nodes, inputs, [info("y", None)], numbers, 20)
    compiled: Any = rnncc.compile(made)
    for bins in (5,) if length == "known" else (2, 3, 8):
        x = np.random.default_rng(bins).standard_normal((2, bins, 3, 2)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x})
        assert_close(compiled.run({"x": x}), want)
    with pytest.raises(ArrayError):
        compiled.run({"x": np.ones((2, 4 if length == "known" else 0, 3, 2), np.float32)})


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_places_far_away(mode: str, padding: str) -> None:
    """Where floats do not tell neighbours apart, and at infinity, an element at the border counts
    once: it was counted twice, or NaN. ONNX Runtime has zeros or other elements there."""
    nodes = [node("GridSample", "x grid", "y", mode=mode, padding_mode=padding)]
    inputs = [info("x", [1, 2, 3, 4]), info("grid", [1, 1, "N", 2])]
    compiled: Any = rnncc.compile(model(nodes, inputs, [info("y", None)], None, 20))
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)

    def at(*columns: float) -> Any:
        grid = np.array([[[(place, 0.2) for place in columns]]], np.float32)
        return compiled.run({"x": x, "grid": grid})["y"]

    if padding == "reflection":  # the ends of the axis are 5e8 lengths away, and mirrored there
        assert (np.abs(at(1e9, -1e9)) <= np.abs(x).max() * 1.5).all()
        return
    near = at(99, 99, 99, -99, -99, -99)
    np.testing.assert_array_equal(at(1e10, 3e38, np.inf, -1e10, -3e38, -np.inf), near)
    assert not near.any() if padding == "zeros" else near.all()
