"""Normalisation of aten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc.frontends.torch.aten.reductions import count
from rnncc.frontends.torch.node_context import NodeContext, Number, Table, Value, rank_of
from rnncc.ir.types import dims_of
from rnncc.nn import normalisation
from rnncc.nn.arithmetic import reciprocal
from rnncc.nn.reduction import centre


def layer_norm(
    at: NodeContext,
    x: Value,
    shape: Sequence[Any],
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: Number = 1e-5,
    *_: Any,
) -> Value:
    """(x - mean) / √(variance + epsilon) · weight + bias"""
    return native_layer_norm(at, x, shape, weight, bias, epsilon)[0]


def native_layer_norm(
    at: NodeContext,
    x: Value,
    shape: Sequence[Any],
    weight: Value | None,
    bias: Value | None,
    epsilon: Number,
) -> tuple[Value, Value, Value]:
    """The same; the mean, and 1 over the root"""
    axis = rank_of(x) - len(shape)
    y, mean, std = normalisation.layer_norm(at.b, x, weight, bias, axis, float(epsilon))
    return y, mean, reciprocal(at.b, std)


def batch_norm(
    at: NodeContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: Number,
    epsilon: Number,
) -> tuple[Value, ...]:
    """With the running mean and variance of each channel, axis 1"""
    y = normalisation.batch_norm(at.b, x, mean, variance, weight, bias, float(epsilon))
    return y, mean, reciprocal(at.b, at.b.sqrt(at.b.add(variance, at.value(epsilon))))


def batch_norm_in_training(
    at: NodeContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    training: bool,
    momentum: Number,
    epsilon: Number,
) -> tuple[Value, ...]:
    """With the batch's own mean and variance; then the running ones, moved towards them"""
    if not training:
        normalised = batch_norm(at, x, weight, bias, mean, variance, momentum, epsilon)
        return *normalised, mean, variance
    own, biased, unbiased = _of_batch(at, x)
    normalised = batch_norm(at, x, weight, bias, own, biased, momentum, epsilon)
    return *normalised, _moved(at, mean, own, momentum), _moved(at, variance, unbiased, momentum)


def batch_norm_of_batch(
    at: NodeContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: Number,
    epsilon: Number,
) -> tuple[Value, ...]:
    """With the batch's own mean and variance; none are kept"""
    own, biased, _ = _of_batch(at, x)
    return batch_norm(at, x, weight, bias, own, biased, momentum, epsilon)


def _of_batch(at: NodeContext, x: Value) -> tuple[Value, Value, Value]:
    """The mean of each channel, and its variance: over the count, and over one less"""
    b, axes = at.b, [axis for axis in range(rank_of(x)) if axis != 1]
    average, rest = centre(b, x, axes)
    spread = b.reduce("sum", b.mul(rest, rest), axes)
    biased, unbiased = (b.div(spread, count(at, x, axes, less)) for less in (0, 1))
    return b.reshape(average, dims_of(spread)), biased, unbiased


def group_norm(
    at: NodeContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: object,
    channels: object,
    rest: object,
    groups: int,
    epsilon: Number,
) -> tuple[Value, Value, Value]:
    """Over groups of channels and all that is behind; the mean, and 1 over the root"""
    y, mean, deviation = normalisation.group_norm(at.b, x, groups, weight, bias, float(epsilon))
    return y, mean, reciprocal(at.b, deviation)


def rms_norm(
    at: NodeContext,
    x: Value,
    shape: Sequence[Any],
    weight: Value | None = None,
    epsilon: Number | None = None,
) -> Value:
    """x / √(mean of x² + epsilon) · weight; epsilon is the type's, 2⁻²³ or 2⁻⁵², unless given"""
    own = 2.0 ** (-52 if at.dtype == "f64" else -23)
    least = own if epsilon is None else float(epsilon)
    axis = rank_of(x) - len(shape)
    return normalisation.rms_norm(at.b, x, weight, axis, least)


def fused_rms_norm(
    at: NodeContext, x: Value, shape: Sequence[Any], weight: Value | None, epsilon: Number | None
) -> tuple[Value, None]:
    """The same; what its backward would read is not computed"""
    return rms_norm(at, x, shape, weight, epsilon), None


def _moved(at: NodeContext, old: Value, new: Value, momentum: Number) -> Value:
    """A running average, which has no gradients"""
    old, new = at.b.stop_gradient(old), at.b.stop_gradient(new)
    kept = at.b.mul(old, at.value(1 - momentum))
    return at.b.add(kept, at.b.mul(new, at.value(momentum)))


OPERATORS: Table = {
    "layer_norm": layer_norm,
    "native_layer_norm": native_layer_norm,
    "native_group_norm": group_norm,
    "rms_norm": rms_norm,
    "_fused_rms_norm": fused_rms_norm,
    "_native_batch_norm_legit.no_stats": batch_norm_of_batch,
    "_native_batch_norm_legit_no_training": batch_norm,
    "_native_batch_norm_legit_functional": batch_norm_in_training,
}
