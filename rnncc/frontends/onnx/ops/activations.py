"""Activation functions."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.formulas import sizes
from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.arithmetic import folded as folded_pairs
from rnncc.frontends.onnx.ops.elementwise import folded_sizes, of_floats
from rnncc.frontends.onnx.values import Array
from rnncc.ir.dims import Dim
from rnncc.ir.types import dtype_of, shape_text
from rnncc.nn import unsigned
from rnncc.nn.activations import (
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    prelu,
    shrink,
    silu,
    soft_sign,
    softplus,
    thresholded_relu,
)


def _relu(n: Node) -> SSAValue:
    """max(X, 0).

    Refused: elements other than floats, int32, int64.
    """
    x = n.x(0, NUMBERS)
    return n.b.relu(x) if dtype_of(x) in FLOATS else n.b.maximum(x, n.full(0, x))


def _elu(n: Node) -> SSAValue:
    """X where it is positive, else alpha · (e^X - 1).

    Refused: elements other than floats.
    """
    return elu(n.b, n.x(0, FLOATS), n.real("alpha", 1.0))


def _selu(n: Node) -> SSAValue:
    """gamma · X where it is positive, else gamma · alpha · (e^X - 1).

    Refused: elements other than floats.
    """
    return elu(n.b, n.x(0, FLOATS), n.real("alpha"), n.real("gamma"))


def _celu(n: Node) -> SSAValue:
    """max(0, X) + min(0, alpha · (e^(X / alpha) - 1)).

    Refused: elements other than floats.
    """
    alpha = n.real("alpha", 1.0)
    if alpha == 0:
        raise n.error("attribute 'alpha' is 0")
    return elu(n.b, n.x(0, FLOATS), alpha, input_scale=1 / alpha)


def _leaky_relu(n: Node) -> SSAValue:
    """X where it is positive, else alpha · X.

    Refused: elements other than floats.
    """
    return leaky_relu(n.b, n.x(0, FLOATS), n.real("alpha", 0.01))


def _thresholded_relu(n: Node) -> SSAValue:
    """X where it is above alpha, else 0.

    Refused: elements other than floats.
    """
    return thresholded_relu(n.b, n.x(0, FLOATS), n.real("alpha", 1.0))


def _hard_sigmoid(n: Node) -> SSAValue:
    """alpha · X + beta, within 0 and 1.

    Refused: elements other than floats.
    """
    return hard_sigmoid(n.b, n.x(0, FLOATS), n.real("alpha", 0.2), n.real("beta", 0.5))


def _swish(n: Node) -> SSAValue:
    """X · sigmoid(alpha · X).

    Refused: elements other than floats.
    """
    return silu(n.b, n.x(0, FLOATS), n.real("alpha", 1.0))


def _gelu(n: Node) -> SSAValue:
    """X/2 · (1 + erf(X/√2)), or with `approximate` tanh in the place of erf.

    Refused: elements other than floats.
    """
    by_tanh = n.one_of("approximate", ("none", "tanh"), "none") == "tanh"
    return gelu(n.b, n.x(0, FLOATS), by_tanh)


def _prelu(n: Node) -> SSAValue:
    """X where it is positive, else slope · X.

    Refused: elements other than floats, int32, int64.
    """
    return prelu(n.b, n.x(0, NUMBERS), n.x(1, NUMBERS))


def _shrink(n: Node) -> SSAValue:
    """X + bias below -lambd, X - bias above lambd, else 0.

    Refused: elements other than floats.
    """
    return shrink(n.b, n.x(0, FLOATS), n.real("lambd", 0.5), n.real("bias", 0.0))


def _clip(n: Node) -> SSAValue:
    """X held within min and max, where they are given; max where min is above it.

    Refused: elements other than floats, int32, int64.
    """
    if n.value(0).dtype == "u64":
        x = n.bits(0)
        for index, function in ((1, unsigned.maximum), (2, unsigned.minimum)):
            x = function(n.b, x, _scalar(n, index, n.bits(index))) if n.has(index) else x
        return x
    x = n.x(0, NUMBERS)
    if n.opset < 11:
        for name, function in (("min", n.b.maximum), ("max", n.b.minimum)):
            x = function(x, n.full(n.real(name), x)) if n.given(name) else x
        return x
    for index, function in ((1, n.b.maximum), (2, n.b.minimum)):
        limit = n.maybe(index, NUMBERS)
        x = x if limit is None else function(x, _scalar(n, index, limit))
    return x


def _scalar(n: Node, index: int, value: SSAValue) -> SSAValue:
    """A limit without axes; raises `CompileError` unless it is one number."""
    if any(d != 1 for d in n.dims(index)) or len(n.dims(index)) > 1:
        raise n.error(f"has a limit of shape {shape_text(n.dims(index))}, expected one number")
    return n.b.reshape(value, ())


def _fold_clip(n: Node, arrays: list[Array]) -> Array | None:
    x: Array | None = arrays[0]
    if n.opset < 11:
        return None
    for index, fold in ((1, _AT_LEAST), (2, _AT_MOST)):
        if n.has(index) and x is not None:
            limit = arrays[index]
            if limit.size != 1:
                raise n.error(f"has {limit.size} limits, expected one number")
            x = fold(n, [x, limit.reshape(())])
    return x


_AT_LEAST = folded_pairs(np.maximum, sizes.larger, rounds=False)
_AT_MOST = folded_pairs(np.minimum, sizes.smaller, rounds=False)


OPERATORS: dict[str, OnnxOperator] = {
    "Softplus": OnnxOperator(of_floats(softplus, "ln(1 + e^X).")),
    "Softsign": OnnxOperator(of_floats(soft_sign, "X / (1 + |X|).")),
    "HardSwish": OnnxOperator(of_floats(hard_swish, "X · min(max(X / 6 + 1/2, 0), 1).")),
    "Mish": OnnxOperator(of_floats(mish, "X · tanh(ln(1 + e^X)).")),
    "Relu": OnnxOperator(_relu, folded_sizes(lambda x: np.maximum(x, 0), Dim.excess)),
    "Elu": OnnxOperator(_elu),
    "Selu": OnnxOperator(_selu),
    "Celu": OnnxOperator(_celu),
    "LeakyRelu": OnnxOperator(_leaky_relu),
    "ThresholdedRelu": OnnxOperator(_thresholded_relu),
    "HardSigmoid": OnnxOperator(_hard_sigmoid),
    "Swish": OnnxOperator(_swish),
    "Gelu": OnnxOperator(_gelu),
    "PRelu": OnnxOperator(_prelu),
    "Shrink": OnnxOperator(_shrink),
    "Clip": OnnxOperator(_clip, _fold_clip),
}
