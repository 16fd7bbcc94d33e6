"""Softmax and normalisation."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.values import Value
from rnncc.frontends.onnx.weights import weights
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.arithmetic import plus, power, reciprocal, times
from rnncc.nn.axes import by_channel, kept_dims
from rnncc.nn.indexing import extremum_place, one_hot
from rnncc.nn.normalisation import (
    MOST_CHANNELS,
    batch_norm,
    channel_moments,
    layer_norm,
    log_softmax,
    lp_normalise,
    response_scale,
    rms_norm,
    softmax,
)
from rnncc.nn.reduction import centre, mean

VARIANCE = 4
"""The input of BatchNormalization that is neither multiplied with nor added."""


def _rows(n: Node) -> tuple[SSAValue, int]:
    """X, flattened to a matrix before opset 13, and the axis of a row."""
    x, dims = n.x(0, FLOATS), n.dims()
    if n.opset >= 13:
        return x, n.axis(n.integer("axis", -1), len(dims))
    axis = n.axis(n.integer("axis", 1), len(dims)) if dims else 0
    return n.b.reshape(x, (product(dims[:axis]), product(dims[axis:]))), 1


def _softmax(n: Node) -> SSAValue:
    """e^(X - max) / Σ e^(X - max) along an axis; before opset 13 along all from it on.

    Refused: elements other than floats.
    """
    x, axis = _rows(n)
    return n.b.reshape(softmax(n.b, x, axis), n.dims())


def _log_softmax(n: Node) -> SSAValue:
    """X - max - ln Σ e^(X - max) along an axis; before opset 13 along all from it on.

    Refused: elements other than floats.
    """
    x, axis = _rows(n)
    return n.b.reshape(log_softmax(n.b, x, axis), n.dims())


def _hardmax(n: Node) -> SSAValue:
    """1 at the first largest element along an axis, else 0.

    Refused: elements other than floats.
    """
    b, (x, axis) = n.b, _rows(n)
    place = extremum_place(b, x, "max", axis)
    is_largest = one_hot(b, place, dims_of(x)[axis], axis)
    return b.reshape(b.cast(is_largest, dtype_of(x)), n.dims())


def layer_norm_outputs(n: Node) -> list[SSAValue | Value]:
    """(X - mean) / √(variance + epsilon) · scale + bias over the axes from `axis` on; also the mean
    and 1 / √(variance + epsilon).

    Refused: elements other than floats; a `stash_type` other than float32.
    """
    _check_stash(n)
    x, axis = n.x(0, FLOATS), n.axis(n.integer("axis", -1), len(n.dims()))
    scale, bias = n.x(1, FLOATS), n.maybe(2, FLOATS)
    y, average, std = layer_norm(n.b, x, scale, bias, axis, n.real("epsilon", 1e-5))
    return [n.like(y, x), *statistics(n, average, std)]


def statistics(n: Node, average: SSAValue, std: SSAValue) -> list[SSAValue | Value]:
    """The mean and 1 / std as outputs, float32 whatever X is."""
    return [Value.computed(n.b.cast(v, "f32")) for v in (average, reciprocal(n.b, std))]


def _check_stash(n: Node) -> None:
    """Refuse another type to compute in than float32 (the number 1) or float64 (11), that of X.

    Of float64 all is computed in it, as by ONNX Runtime, whatever the number.
    """
    stash = n.integer("stash_type", 1)
    if stash != 1 and (stash, n.value(0).dtype) != (11, "f64"):
        raise n.unsupported("computes its mean and variance in another type than float32")


def _batch_norm(n: Node) -> list[SSAValue]:
    """(X - mean) / √(variance + epsilon) · scale + B by channels, with given statistics; or in
    training mode with X's own, and given · momentum + own · (1 - momentum).

    Refused: training mode before opset 14; elements other than floats.
    """
    trains = n.opset >= 14 and n.flag("training_mode")
    if not trains and sum(1 for name in n.op.output if name) > 1:
        raise n.unsupported("gives statistics outside of the training mode of opset 14")
    if n.opset < 9 and not n.flag("spatial", 1):
        raise n.unsupported("is not spatial")
    b, epsilon = n.b, n.real("epsilon", 1e-5)
    scale, bias, average, variance = (_channels(n, i) for i in range(1, 5))
    x = b.reshape(n.x(0, FLOATS), n.dims() if len(n.dims()) > 1 else (*n.dims(), 1))
    if not trains:
        return [b.reshape(batch_norm(b, x, average, variance, scale, bias, epsilon), n.dims())]
    own, kept = channel_moments(b, x), n.real("momentum", float(np.float32(0.9)))
    running = [
        b.add(times(b, old, kept), times(b, new, 1 - kept))
        for old, new in zip((average, variance), own, strict=True)
    ]
    return [b.reshape(batch_norm(b, x, *own, scale, bias, epsilon), n.dims()), *running]


def _channels(n: Node, index: int) -> SSAValue:
    """An input that has one number for each channel of X, of which a vector has one."""
    dims, shape = n.dims(), n.dims(index)
    channels = dims[1:2] if len(dims) > 1 else (Dim.of(1),)
    if not dims or shape != channels:
        what = f"has {shape_text(shape)} numbers for the channels of {shape_text(dims)}"
        raise n.differ(shape, channels if dims else (), what)
    return n.x(index, FLOATS) if index == VARIANCE else weights(n, index)


def _instance_norm(n: Node) -> SSAValue:
    """(X - mean) / √(variance + epsilon) · scale + B over all axes behind the channels.

    Refused: elements other than floats.
    """
    x = n.x(0, FLOATS)
    if len(dims_of(x)) < 2:
        raise n.error(f"has data of shape {shape_text(dims_of(x))}, which has no channels")
    scale, bias = (by_channel(n.b, _channels(n, i), x) for i in (1, 2))
    return layer_norm(n.b, x, scale, bias, 2, n.real("epsilon", 1e-5))[0]


def _lp_norm(n: Node) -> SSAValue:
    """X / (Σ |X|^p)^(1/p) along an axis, p 1 or 2; zeros stay.

    Refused: elements other than floats.
    """
    axis, p = n.axis(n.integer("axis", -1), len(n.dims())), n.integer("p", 2)
    if p not in (1, 2):
        raise n.error(f"attribute 'p' = {p} is not one of 1, 2")
    return lp_normalise(n.b, n.x(0, FLOATS), p, axis)


def rms_normalised(n: Node) -> SSAValue:
    """X / √(mean of X² + epsilon) · scale over the axes from `axis` on.

    Refused: elements other than floats; a `stash_type` other than float32.
    """
    _check_stash(n)
    x, axis = n.x(0, FLOATS), n.axis(n.integer("axis", -1), len(n.dims()))
    epsilon = n.real("epsilon", float(np.float32(1e-5)))
    return n.like(rms_norm(n.b, x, n.x(1, FLOATS), axis, epsilon), x)


def _mean_variance(n: Node) -> SSAValue:
    """(X - mean) / (√variance + 1e-9) over `axes`: without these over all but the channels.

    Refused: elements other than floats.
    """
    b, x, rank = n.b, n.x(0, FLOATS), len(n.dims())
    axes = n.axes(n.integers("axes", [0, *range(2, max(rank, 4))]), rank)
    _, apart = centre(b, x, axes)
    variance = b.reshape(mean(b, b.mul(apart, apart), axes), kept_dims(x, axes))
    return b.div(apart, plus(b, b.sqrt(variance), 1e-9))


def _local_response(n: Node) -> SSAValue:
    """X / (bias + alpha/size · Σ X²)^beta, the sum over so many neighbouring channels.

    Refused: elements other than floats; more than 64 channels to a sum.
    """
    b, x, size = n.b, n.x(0, FLOATS), n.integer("size")
    if len(n.dims()) < 2 or size < 1:
        raise n.error(f"has data of shape {shape_text(n.dims())} and the size {size}")
    if size > MOST_CHANNELS:
        raise n.unsupported(f"sums {size} channels, at most {MOST_CHANNELS} are supported")
    scale = response_scale(b, x, size, n.real("alpha"), n.real("bias"))
    return b.div(x, power(b, scale, n.real("beta")))


OPERATORS: dict[str, OnnxOperator] = {
    "Softmax": OnnxOperator(_softmax),
    "LogSoftmax": OnnxOperator(_log_softmax),
    "Hardmax": OnnxOperator(_hardmax),
    "LayerNormalization": OnnxOperator(layer_norm_outputs),
    "RMSNormalization": OnnxOperator(rms_normalised),
    "BatchNormalization": OnnxOperator(_batch_norm, fixed=(3, VARIANCE)),
    "InstanceNormalization": OnnxOperator(_instance_norm),
    "LpNormalization": OnnxOperator(_lp_norm),
    "MeanVarianceNormalization": OnnxOperator(_mean_variance),
    "LRN": OnnxOperator(_local_response),
}
