"""Fourier transforms, as products with a matrix of sines and cosines."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, Operator
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, dims_of, dtype_of, shape_text
from rnncc.nn.axes import move_axis
from rnncc.nn.convolution import Window

MAX_LENGTH = 4096
"""Elements of one transform, whose matrix has their square."""


def _matrix(n: Node, length: int, bins: int, parts: int, dtype: str) -> SSAValue:
    """[parts · length, 2 · bins]: real and imaginary parts of a row beside those of a bin."""
    if length > MAX_LENGTH:
        raise n.unsupported(f"transforms {length} elements, at most {MAX_LENGTH} are supported")
    angle = 2 * np.pi * (np.outer(np.arange(length), np.arange(bins)) % length) / length
    cosine, sine = np.cos(angle), -np.sin(angle)
    rows = [np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)][:parts]
    whole = np.stack(rows, 1).reshape(length * parts, bins * 2)
    return n.scope.ssa(Value.of(whole.astype(NUMPY[dtype]), f"dft_{length}"))


def _transformed(n: Node, x: SSAValue, bins: int) -> SSAValue:
    """x [..., length, 1 or 2] as [..., bins, 2]."""
    *lead, size, parts = dims_of(x)
    length, complex_ = int(size), int(parts)
    flat = n.b.reshape(x, (*lead, length * complex_))
    flat = flat if lead else n.b.reshape(flat, (1, length * complex_))
    y = n.b.matmul(flat, _matrix(n, length, bins, complex_, dtype_of(x)))
    return n.b.reshape(y, (*lead, bins, 2))


def _dft(n: Node) -> SSAValue:
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary parts.

    Refused: open or computed lengths; more than 4096 elements; the inverse.
    """
    b, dims = n.b, n.dims()
    x = n.x(0, FLOATS)
    if len(dims) < 2 or dims[-1] not in (1, 2):
        raise n.error(f"has data of shape {shape_text(dims)}, whose last axis is not 1 or 2")
    at = (n.scalar(2) if n.has(2) else -2) if n.opset >= 20 else n.integer("axis", 1)
    axis, onesided = n.axis(at, len(dims)), n.flag("onesided", 0)
    if axis == len(dims) - 1:
        raise n.error("transforms the axis of real and imaginary parts")
    if n.integer("inverse", 0):
        raise n.unsupported("goes back from a spectrum, which is not supported")
    size = dims[axis]
    length = int(n.scalar(1)) if n.has(1) else None
    if not size.is_static:
        raise n.unsupported(f"transforms an axis of {size}", "--shape gives a size")
    if length is not None and length > int(size):
        x = b.pad(x, axis, 0, Dim.of(length), 0.0)
    elif length is not None:
        x = b.slice(x, axis, 0, length)
    if length is not None and length < 1:
        raise n.error(f"transforms {length} elements")
    count = int(dims_of(x)[axis])
    last = len(dims) - 2
    y = _transformed(n, move_axis(b, x, axis, last), count // 2 + 1 if onesided else count)
    return move_axis(b, y, last, axis)


def _stft(n: Node) -> SSAValue:
    """Fourier transforms of windows of a signal, each times the window's weights.

    Refused: a computed step or length; complex signals with `onesided`; more than 4096 elements.
    """
    b, dims = n.b, n.dims()
    x, step = n.x(0, FLOATS), int(n.scalar(1))
    window = n.value(2) if n.has(2) else None
    if len(dims) not in (2, 3) or (len(dims) == 3 and dims[2] not in (1, 2)):
        raise n.error(f"has a signal of shape {shape_text(dims)}")
    length = int(n.scalar(3)) if n.has(3) else (n.static(2) or [0])[0] if window else 0
    parts = int(dims[2]) if len(dims) == 3 else 1
    if length < 1 or step < 1 or (window is not None and n.dims(2) != (length,)):
        raise n.error(f"has windows of {length} in steps of {step}")
    x = b.reshape(x, (*dims[:2], parts))
    x = Window(length, step).along(b, x, 1, 0.0)
    if window is not None:
        x = b.mul(x, b.reshape(n.x(2, FLOATS), (length, 1)))
    onesided = n.flag("onesided", 1) and parts == 1
    return _transformed(n, x, length // 2 + 1 if onesided else length)


OPERATORS: dict[str, Operator] = {"DFT": Operator(_dft), "STFT": Operator(_stft)}
