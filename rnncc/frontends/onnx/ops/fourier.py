"""Fourier transforms, as products with a matrix of sines and cosines, and mel filters."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import FLOATS, MAX_FOLDED, Node, OnnxOperator
from rnncc.frontends.onnx.values import Array
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import NUMPY, dims_of, dtype_of, shape_text
from rnncc.nn.axes import move_axis, strided
from rnncc.nn.fourier import Transform, transformed
from rnncc.nn.windows import Window

MAX_LENGTH = 4096
"""Elements of a transform whose matrix has their square."""
MAX_FACTORED = 1 << 16
"""Of one that is made of shorter ones."""


def _transformed(n: Node, x: SSAValue, transform: Transform) -> SSAValue:
    """x [..., rows, 1 or 2] as [..., bins, 1 or 2]."""
    if transform.widest > MAX_LENGTH or transform.length > MAX_FACTORED:
        most = MAX_LENGTH if transform.factor == 1 else MAX_FACTORED
        what = f"transforms {transform.length} elements, at most {most} are supported"
        raise n.unsupported(what)
    return transformed(n.b, x, transform, n.literal)


def _transformed_whole(n: Node, x: SSAValue, half: bool, inverse: bool) -> SSAValue:
    """x [..., rows, 1 or 2] of open size as [..., as many bins or half of them, 2], by sines and
    cosines that each call computes."""
    b, (*lead, rows, parts) = n.b, dims_of(x)
    n.b.require(MAX_LENGTH - rows)
    bins, last = rows.under(2) + 1 if half else rows, len(lead) + 1
    places = b.mul(b.iota((rows, bins), 0, "i64"), b.iota((rows, bins), 1, "i64"))
    places = b.cast(b.rem(places, b.size(rows)), dtype_of(x))
    count = b.cast(b.size(rows), dtype_of(x))
    angle = b.mul(b.div(places, count), n.full(2 * math.pi, places))
    cosine, sine = b.cos(angle), b.sin(angle) if inverse else b.neg(b.sin(angle))
    shape = (*(lead or [Dim.of(1)]), rows)
    real, *imaginary = (b.reshape(b.slice(x, last, k, 1), shape) for k in range(int(parts)))
    halves = [b.matmul(real, cosine), b.matmul(real, sine)]
    for side in imaginary:
        halves = [
            b.sub(halves[0], b.matmul(side, sine)),
            b.add(halves[1], b.matmul(side, cosine)),
        ]
    y = b.concat([b.reshape(side, (*lead, bins, 1)) for side in halves], last)
    return b.div(y, count) if inverse else y


def _dft(n: Node) -> SSAValue:
    """The discrete Fourier transform along an axis, or its inverse; the last axis holds real and
    imaginary parts.

    Refused: computed lengths; more than 65,536 elements, more than 4096 of an open number or one
    that has no two like factors; half a spectrum that is shorter or longer than the length says.
    """
    b, dims = n.b, n.dims()
    x = n.x(0, FLOATS)
    if len(dims) < 2 or dims[-1] not in (1, 2):
        raise n.error(f"has data of shape {shape_text(dims)}, whose last axis is not 1 or 2")
    at = (n.scalar(2) if n.has(2) else -2) if n.opset >= 20 else n.integer("axis", 1)
    axis, onesided = n.axis(at, len(dims)), n.flag("onesided", 0)
    if axis == len(dims) - 1:
        raise n.error("transforms the axis of real and imaginary parts")
    inverse, size = n.flag("inverse"), dims[axis]
    real = inverse and onesided
    if real and dims[-1] != 2:
        raise n.error("goes back from half a spectrum that has no imaginary parts")
    if real and not (size.is_static and (not n.has(1) or n.size(1).is_static)):
        whole = move_axis(b, _whole_of_half(n, x, axis), axis, len(dims) - 2)
        y = _transformed_whole(n, whole, False, True)
        return move_axis(b, b.slice(y, len(dims) - 1, 0, 1), len(dims) - 2, axis)
    if not size.is_static and n.has(1):
        x, size = _of_open_length(n, x, axis, n.size(1)), n.size(1)
    if not size.is_static:
        x = move_axis(b, x, axis, len(dims) - 2)
        return move_axis(b, _transformed_whole(n, x, bool(onesided), inverse), len(dims) - 2, axis)
    return _of_known_length(n, x, axis, bool(onesided), bool(inverse))


def _of_known_length(n: Node, x: SSAValue, axis: int, onesided: bool, inverse: bool) -> SSAValue:
    """The same where the axis and the length are numbers."""
    b, size, last, real = n.b, int(dims_of(x)[axis]), len(dims_of(x)) - 2, inverse and onesided
    length = int(n.scalar(1)) if n.has(1) else 2 * (size - 1) if real else size
    if length < 1:
        raise n.error(f"transforms {length} elements")
    half = length // 2 + 1
    if real and half != size:  # where ONNX Runtime does otherwise than the standard says
        what = f"goes back to {length} elements from half a spectrum of {size}, not {half}"
        raise n.unsupported(f"{what}, which is not supported")
    x = move_axis(b, _of_length(b, x, axis, half if real else length), axis, last)
    bins = half if onesided and not inverse else length
    return move_axis(b, _transformed(n, x, Transform(length, bins, inverse, real)), last, axis)


def _whole_of_half(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """The spectrum of real numbers, of which the second half is the first one's conjugate
    backwards, where its length is a formula."""
    b, size, last = n.b, dims_of(x)[axis], len(dims_of(x)) - 1
    length = n.size(1) if n.has(1) else (size - 1) * 2
    b.require(length - 1)
    if (half := length.under(2) + 1) != size:
        what = f"goes back to {length} elements from half a spectrum of {size}, not {half}"
        raise n.differ([size], [half], what)
    behind = strided(b, x, axis, length - size, length - size, -1)
    real, imaginary = (b.slice(behind, last, part, 1) for part in (0, 1))
    return b.concat([x, b.concat([real, b.neg(imaginary)], last)], axis)


def _of_open_length(n: Node, x: SSAValue, axis: int, length: Dim) -> SSAValue:
    """The same of an axis of open size, or to a length that is a formula."""
    b, size = n.b, dims_of(x)[axis]
    if length == size:
        return x
    b.require(length - 1)
    if not is_natural(size - length):
        x = b.pad(x, axis, 0, size + length, 0.0)
    return b.slice(x, axis, 0, length)


def _of_length(b: Builder, x: SSAValue, axis: int, length: int) -> SSAValue:
    """x cut off, or with zeros behind it."""
    if length > int(dims_of(x)[axis]):
        return b.pad(x, axis, 0, Dim.of(length), 0.0)
    return b.slice(x, axis, 0, length)


def _stft(n: Node) -> SSAValue:
    """Fourier transforms of windows of a signal, each times the window's weights.

    Refused: a computed step or length; more than 65,536 elements, or more than 4096 whose number
    has no two like factors.
    """
    b, dims = n.b, n.dims()
    x, step = n.x(0, FLOATS), int(n.scalar(1))
    window = n.value(2) if n.has(2) else None
    shown = f"has a signal of shape {shape_text(dims)}"
    if len(dims) not in (2, 3):
        raise n.error(shown)
    if len(dims) == 3 and dims[2] not in (1, 2):  # half a spectrum is that of real numbers
        whole = not dims[2].is_static and not n.flag("onesided", 1)
        raise n.error(shown) if whole else n.differ(dims[2:], [Dim.of(1)], shown)
    length = int(n.scalar(3)) if n.has(3) else (n.static(2) or [0])[0] if window else 0
    parts = int(dims[2]) if len(dims) == 3 else 1
    if length < 1 or step < 1 or (window is not None and n.dims(2) != (length,)):
        raise n.error(f"has windows of {length} in steps of {step}")
    x = b.reshape(x, (*dims[:2], parts))
    x = Window(length, step).along(b, x, 1, 0.0)
    if window is not None:
        x = b.mul(x, b.reshape(n.x(2, FLOATS), (length, 1)))
    onesided = n.flag("onesided", 1)
    return _transformed(n, x, Transform(length, length // 2 + 1 if onesided else length))


def _mel_weight_matrix(n: Node) -> Array:
    """Triangular filters at equal distances on the mel scale, 2595 log10(1 + f / 700): in column i
    from edge i up to 1 at edge i + 1 and down to edge i + 2, as numbers of bins, rounded down.

    Refused: computed inputs; edges beyond the last bin; integers as the result.
    """
    filters, length, rate = (int(n.scalar(i)) for i in range(3))
    low, high = float(n.scalar(3)), float(n.scalar(4))
    dtype = dtype_name(n.integer("output_datatype", 1))
    if dtype not in FLOATS:
        raise n.unsupported(f"makes {dtype}, only {' and '.join(FLOATS)} are supported")
    if not (filters >= 1 and length >= 1 and rate >= 1 and 0 <= low <= high < math.inf):
        shown = f"{filters} filters of {length} elements at {rate} Hz from {low:g} to {high:g} Hz"
        raise n.error(f"has {shown}")
    bins = length // 2 + 1
    if bins * filters > MAX_FOLDED:
        raise n.unsupported(f"has {filters} filters of {bins} bins, {MAX_FOLDED} numbers at most")
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    mels = ends[0] + np.arange(filters + 2) * ((ends[1] - ends[0]) / (filters + 2))
    edges = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
    if edges[-1] >= bins:
        raise n.unsupported(f"has an edge at bin {edges[-1]} of {bins}, beyond the last")
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    at = np.arange(bins)[:, None]
    up: Array = np.maximum(at - left, 0) / np.maximum(middle - left, 1)
    down: Array = np.maximum(right - at, 0) / np.maximum(right - middle, 1)
    weights: Array = np.select([at < middle, at == middle], [up, np.ones_like(up)], down)
    return weights.astype(NUMPY[dtype])


OPERATORS: dict[str, OnnxOperator] = {
    "DFT": OnnxOperator(_dft),
    "STFT": OnnxOperator(_stft),
    "MelWeightMatrix": OnnxOperator(_mel_weight_matrix),
}
