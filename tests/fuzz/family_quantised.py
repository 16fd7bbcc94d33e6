"""Random models of quantised tensors, as quantisers write them, in chains."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.frontends.onnx.models import KINDS
from tests.fuzz.family_recurrent import layer, residual, turned
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow
from tests.fuzz.random_nodes import pad, slices, transpose
from tests.fuzz.random_onnx import finished

LIMITS = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}
TYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32}


def _numbers(g: Growing, dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    low, high = LIMITS[dtype]
    return rng.integers(low, high + 1, shape).astype(TYPES[dtype])


def _weights(g: Growing, dtype: str, *shape: int) -> str:
    return g.constant(_numbers(g, dtype, *shape))


def _scale(g: Growing, *shape: int) -> str:
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    return g.constant(rng.uniform(0.004, 0.03, shape).astype(np.float32))


def _zero(g: Growing, dtype: str, *shape: int) -> str:
    low, high = LIMITS[dtype]
    usual = (low + high + 1) // 2
    at = usual if g.rng.random() < 0.5 else g.rng.randint(low, high)
    return g.constant(np.full(shape, at, TYPES[dtype]))


def _byte(g: Growing) -> str:
    return g.one_of("u8", "i8")


def pair(g: Growing) -> None:
    """Quantised and dequantised."""
    x = g.pick(1)
    dtype = g.one_of("u8", "i8", "u16", "i16") if g.opset >= 21 else _byte(g)
    scale, zero = _scale(g), _zero(g, dtype)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype)
    g.add("DequantizeLinear", [q, scale, zero], x.dims)


def by_axis(g: Growing) -> None:
    """The same with a scale for each row of an axis."""
    x = g.pick(2)
    axis = g.axis(x, static=True)
    size, dtype = int(x.dims[axis]), _byte(g)
    if g.opset < 13 or not size:
        raise NotPossibleError
    scale, zero = _scale(g, size), _zero(g, dtype, size)
    at = g.spelt(axis, x.rank)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype, axis=at)
    g.add("DequantizeLinear", [q, scale, zero], x.dims, axis=at)


def weighted(g: Growing) -> None:
    """A product of pairs: weights of bytes, per tensor or per channel, and a bias of int32."""
    x, made = g.pick(2, 3), g.one_of(1, 5, 16, 17)
    if not isinstance(x.dims[-1], int) or not x.dims[-1]:
        raise NotPossibleError
    depth, dtype = x.dims[-1], _byte(g)
    scale, zero = _scale(g), _zero(g, dtype)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype)
    a = g.add("DequantizeLinear", [q, scale, zero], x.dims)
    w, channels = _byte(g), g.opset >= 13 and g.rng.random() < 0.5
    shape = (made,) if channels else ()
    numbers = _weights(g, w, depth, made)
    given = [numbers, _scale(g, *shape), _zero(g, w, *shape)]
    more: dict[str, Any] = {"axis": 1} if channels else {}
    b = g.add("DequantizeLinear", given, (depth, made), **more)
    y = g.add("MatMul", [a, b], (*x.dims[:-1], made))
    y = g.add("Add", [y, g.floats(made)], y.dims)
    g.add(g.one_of("Relu", "Sigmoid", "Tanh", "Identity"), [y], y.dims)


def dynamic(g: Growing) -> None:
    """DynamicQuantizeLinear, MatMulInteger, and back to floats."""
    x, made = g.pick(2, 3), g.one_of(1, 5, 16, 33)
    if not isinstance(x.dims[-1], int) or not x.dims[-1] or g.opset < 11 or 0 in x.dims:
        raise NotPossibleError
    depth, w = x.dims[-1], _byte(g)
    q, s, z = g.add_all("DynamicQuantizeLinear", [x], [(x.dims, "u8"), ((), "f32"), ((), "u8")])
    channels = g.one_of((), (made,))
    weights, zero = _weights(g, w, depth, made), g.one_of("", _zero(g, w, *channels))
    dims = (*x.dims[:-1], made)
    y = g.cast(g.add("MatMulInteger", [q, weights, z, zero], dims, "i32"), "f32")
    both = g.add("Mul", [s, _scale(g, *channels)], channels)
    y = g.add("Mul", [y, both], dims)
    g.add("Add", [y, g.floats(made)], dims)


def linear(g: Growing) -> None:
    """QLinearMatMul between a pair's halves."""
    x, made = g.pick(2, 3), g.one_of(1, 5, 17)
    if not isinstance(x.dims[-1], int) or not x.dims[-1] or g.opset < 10:
        raise NotPossibleError
    depth, dtype = x.dims[-1], _byte(g)
    scale, zero, after, there = _scale(g), _zero(g, dtype), _scale(g), _zero(g, dtype)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype)
    w = "i8" if dtype == "i8" else _byte(g)
    shape = g.one_of((), (made,)) if w == "i8" else ()
    weights = _weights(g, w, depth, made)
    zeros = g.constant(np.zeros(shape, np.int8)) if w == "i8" else _zero(g, w)
    given: list[str | Tensor] = [q, scale, zero, weights, _scale(g, *shape), zeros, after, there]
    y = g.add("QLinearMatMul", given, (*x.dims[:-1], made), dtype)
    g.add("DequantizeLinear", [y, after, there], y.dims)


def convolved(g: Growing) -> None:
    """QLinearConv or ConvInteger over [N, C, W] of known channels."""
    x = g.pick(3, 3)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels or g.opset < 10 or 0 in x.dims:
        raise NotPossibleError
    taps, dtype = g.one_of(1, 3), _byte(g)
    group = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    made = group * g.one_of(1, 2)
    scale, zero = _scale(g), _zero(g, dtype)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype)
    dims = (x.dims[0], made, x.dims[2])
    more = {"pads": [taps // 2, taps // 2], "group": group}
    w = "i8" if dtype == "i8" else _byte(g)
    weights = _weights(g, w, made, channels // group, taps)
    if g.rng.random() < 0.4:
        y = g.add("ConvInteger", [q, weights, zero, _zero(g, w)], dims, "i32", **more)
        g.add("Mul", [g.cast(y, "f32"), _scale(g)], dims)
        return
    shape = g.one_of((), (made,))
    zeros = g.constant(np.zeros(shape, TYPES[w]) if w == "i8" else np.full(shape, 128, np.uint8))
    bias = g.constant(np.random.default_rng(0).integers(-999, 999, made).astype(np.int32))
    after, there = _scale(g), _zero(g, dtype)
    given: list[str | Tensor] = [q, scale, zero, weights, _scale(g, *shape), zeros, after, there]
    y = g.add("QLinearConv", [*given, g.one_of("", bias)], dims, dtype, **more)
    g.add("DequantizeLinear", [y, after, there], dims)


def own(g: Growing) -> None:
    """Elementwise operators of com.microsoft between halves of pairs."""
    x = g.pick(1, 3)
    y = g.rng.choice([v for v in g.values if v.dims == x.dims and v.dtype == "f32"])
    dtype, kind = _byte(g), g.one_of("QLinearAdd", "QLinearMul", "QLinearSigmoid")
    one, two, three = ((_scale(g), _zero(g, dtype)) for _ in range(3))
    a = g.add("QuantizeLinear", [x, *one], x.dims, dtype)
    given: list[str | Tensor] = [a, *one]
    if kind != "QLinearSigmoid":
        given += [g.add("QuantizeLinear", [y, *two], x.dims, dtype), *two]
    made = g.add(kind, [*given, *three], x.dims, dtype, domain="com.microsoft")
    g.add("DequantizeLinear", [made, *three], x.dims)


def whole_layer(g: Growing) -> None:
    """DynamicQuantizeLSTM."""
    x, hidden = g.pick(3, 3), g.one_of(1, 4, 8)
    if not isinstance(x.dims[2], int) or 0 in x.dims:
        raise NotPossibleError
    count, w = g.one_of(1, 2), _byte(g)
    more = {"hidden_size": hidden, "direction": "bidirectional" if count == 2 else "forward"}
    given = [
        *(x, _weights(g, w, count, x.dims[2], 4 * hidden)),
        *(_weights(g, w, count, hidden, 4 * hidden), g.floats(count, 8 * hidden)),
        *("", "", "", ""),
        *(_scale(g, count), _zero(g, w, count), _scale(g, count), _zero(g, w, count)),
    ]
    dims = (x.dims[0], count, x.dims[1], hidden)
    y = g.add("DynamicQuantizeLSTM", given, dims, domain="com.microsoft", **more)
    if count == 1:
        g.squeezed(y, 1)


def table(g: Growing) -> None:
    """Rows of a table of bytes by the places of the largest."""
    x = g.pick(2, 3)
    if not isinstance(x.dims[-1], int) or not x.dims[-1]:
        raise NotPossibleError
    dtype, size = _byte(g), g.one_of(1, 6)
    places = g.add("ArgMax", [x], x.dims[:-1], "i64", axis=x.rank - 1, keepdims=0)
    dims: Dims = (*places.dims, size)
    rows = g.add("Gather", [_weights(g, dtype, x.dims[-1], size), places], dims, dtype)
    g.add("DequantizeLinear", [rows, _scale(g), _zero(g, dtype)], dims)


def moved(g: Growing) -> None:
    """Quantised, moved as bytes, and dequantised."""
    x = g.pick(2, 3)
    dtype = _byte(g)
    scale, zero = _scale(g), _zero(g, dtype)
    q = g.add("QuantizeLinear", [x, scale, zero], x.dims, dtype)
    perm = g.rng.sample(range(x.rank), x.rank)
    q = g.add("Transpose", [q], tuple(x.dims[i] for i in perm), dtype, perm=perm)
    if g.rng.random() < 0.5:
        q = g.add("Relu", [g.add("Cast", [q], q.dims, to=KINDS["f32"])], q.dims)
        return
    g.add("DequantizeLinear", [q, scale, zero], q.dims)


MAKERS: list[Maker] = [
    *(pair, by_axis, weighted, weighted, dynamic, dynamic, linear, convolved, own, whole_layer),
    *(table, moved, layer, residual, turned, transpose, slices, pad),
]


def quantised_model(rng: random.Random) -> Any:
    """A sequence through a few of these."""
    g = Growing(rng, opset=rng.randint(10, 25))
    steps, batch = rng.choice(["T", 1, 3]), rng.choice(["N", 1, 2])
    g.values = [Tensor("x", (steps, batch, rng.choice([1, 3, 8, 64, 70])))]
    inputs = list(g.values)
    grow(g, rng.randint(1, 6), MAKERS)
    return finished(g, inputs)
