"""Softmax and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import plus, reciprocal, times
from rnncc.nn.axes import by_channel, kept_dims
from rnncc.nn.reduction import (
    centre,
    mean,
    mean_keepdims,
    reduce_keepdims,
    root_of_powers,
    total,
)

MOST_CHANNELS = 64
"""Of `response_scale`, which has a term for each."""


def softmax(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """exp(x - max x) / sum exp(x - max x) along one axis; a row of -inf alone gives NaN."""
    exps = b.exp(b.sub(x, reduce_keepdims(b, "max", x, [axis])))
    return b.share(exps, reduce_keepdims(b, "sum", exps, [axis]))


def safe_softmax(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """Softmax along one axis; a row of -inf alone, such as one that is masked, gives zeros, and has
    zeros as its gradient."""
    most = b.stop_gradient(reduce_keepdims(b, "max", x, [axis]))
    none = b.compare("eq", most, b.full_like(most, -math.inf))
    exps = b.exp(b.sub(x, b.select(none, b.full_like(most, 0.0), most)))
    sums = reduce_keepdims(b, "sum", exps, [axis])
    return b.share(exps, b.select(none, b.full_like(sums, 1.0), sums))


def log_softmax(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """x - max x - ln sum exp(x - max x) along one axis.

    The maximum cancels out of the sum, so that no gradient needs to go through it.
    """
    centred = b.sub(x, b.stop_gradient(reduce_keepdims(b, "max", x, [axis])))
    return b.sub(centred, b.log(reduce_keepdims(b, "sum", b.exp(centred), [axis])))


def normalise(
    b: Builder, x: SSAValue, mean: Callable[[SSAValue], SSAValue], epsilon: float
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(x - mean) / std with std = √(mean of (x - mean)² + epsilon).

    Args:
        mean: of what has x's shape; its own is one that broadcasts against that.
    Returns:
        y like x; the mean and std.
    """
    average = mean(x)
    centred = b.sub(x, average)
    std = b.sqrt(plus(b, mean(b.mul(centred, centred)), epsilon))
    return b.div(centred, std), average, std


def layer_norm(
    b: Builder,
    x: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    axis: int,
    epsilon: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Normalise over the axes from one on: y = (x - mean) / std * scale + bias.

    Args:
        scale, bias: of a shape that broadcasts against x; None for 1 and 0.
    Returns:
        y like x; mean and std = sqrt(var + epsilon) like x with size 1 along these axes. The
        variance is the biased one.
    """
    dims = dims_of(x)
    rows = b.reshape(x, (*dims[:axis], product(dims[axis:])))
    y, average, std = normalise(b, rows, lambda z: mean_keepdims(b, z, [axis]), epsilon)
    y = b.reshape(y, dims)
    y = y if scale is None else b.mul(y, scale)
    y = y if bias is None else b.add(y, bias)
    kept = kept_dims(x, range(axis, len(dims)))
    return y, b.reshape(average, kept), b.reshape(std, kept)


def rms_norm(
    b: Builder, x: SSAValue, scale: SSAValue | None, axis: int, epsilon: float
) -> SSAValue:
    """X / √(mean of x² + epsilon) · scale over the axes from one on (Zhang and Sennrich, 2019)."""
    axes = range(axis, len(dims_of(x)))
    root = b.sqrt(plus(b, mean(b, b.mul(x, x), axes), epsilon))
    y = b.div(x, b.reshape(root, kept_dims(x, axes)))
    return y if scale is None else b.mul(y, scale)


def group_norm(
    b: Builder,
    x: SSAValue,
    groups: int,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Normalise over groups of channels, axis 1, and all that is behind (Wu and He, 2018).

    Args:
        scale, bias: [C]; None for 1 and 0.
    Returns:
        y like x; mean and std = sqrt(var + epsilon), [N, groups].
    """
    dims = dims_of(x)
    rows = b.reshape(x, (dims[0], groups, int(dims[1]) // groups, *dims[2:]))
    y, average, std = layer_norm(b, rows, None, None, 2, epsilon)
    y = b.reshape(y, dims)
    y = y if scale is None else b.mul(y, by_channel(b, scale, x))
    y = y if bias is None else b.add(y, by_channel(b, bias, x))
    per_group = (dims[0], groups)
    return y, b.reshape(average, per_group), b.reshape(std, per_group)


def channel_moments(b: Builder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The mean and the variance, of all elements, of each channel of x [N, C, ...]."""
    channels = dims_of(x)[1]
    axes = [axis for axis in range(len(dims_of(x))) if axis != 1]
    average, centred = centre(b, x, axes)
    return b.reshape(average, (channels,)), mean(b, b.mul(centred, centred), axes)


def batch_norm(
    b: Builder,
    x: SSAValue,
    average: SSAValue,
    variance: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
) -> SSAValue:
    """(x - average) · (scale / √(variance + epsilon)) + bias, each [C] along axis 1 of x.

    The average is subtracted first: folded into the bias it would cost digits where it is large
    beside the deviation.
    """
    std = b.sqrt(plus(b, variance, epsilon))
    factor = reciprocal(b, std) if scale is None else b.div(scale, std)
    y = b.mul(b.sub(x, by_channel(b, average, x)), by_channel(b, factor, x))
    return y if bias is None else b.add(y, by_channel(b, bias, x))


def lp_normalise(b: Builder, x: SSAValue, p: int, axis: int) -> SSAValue:
    """X / (Σ |x|^p)^(1/p) along an axis, p 1 or 2; zeros stay, and are flat."""
    size = total(b, b.abs(x), [axis]) if p == 1 else root_of_powers(b, x, [axis])
    size = b.reshape(size, kept_dims(x, [axis]))
    none = b.compare("eq", size, b.full_like(size, 0.0))
    return b.div(x, b.select(none, b.full_like(size, 1.0), size))


def response_scale(b: Builder, x: SSAValue, size: int, alpha: float, bias: float) -> SSAValue:
    """bias + alpha / size · Σ x² over so many neighbouring channels, axis 1, the middle one being
    the element's own (Krizhevsky et al., 2012)."""
    channels = dims_of(x)[1]
    padded = b.pad(b.mul(x, x), 1, (size - 1) // 2, channels + size - 1, 0.0)
    squares = reduce(b.add, [b.slice(padded, 1, k, channels) for k in range(size)])
    return plus(b, times(b, squares, alpha / size), bias)
