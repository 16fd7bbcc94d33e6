"""Softmax and normalisation."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import plus
from rnncc.nn.axes import kept_dims
from rnncc.nn.reduction import count, reduce_keepdims


def softmax(b: Build, x: SSAValue, axis: int) -> SSAValue:
    """exp(x - max x) / sum exp(x - max x) along one axis; a row of -inf alone gives NaN."""
    exps = b.exp(b.sub(x, reduce_keepdims(b, "max", x, [axis])))
    return b.div(exps, reduce_keepdims(b, "sum", exps, [axis]))


def log_softmax(b: Build, x: SSAValue, axis: int) -> SSAValue:
    """x - max x - ln sum exp(x - max x) along one axis.

    The maximum cancels out of the sum, so that no gradient needs to go through it.
    """
    centred = b.sub(x, b.stop_gradient(reduce_keepdims(b, "max", x, [axis])))
    return b.sub(centred, b.log(reduce_keepdims(b, "sum", b.exp(centred), [axis])))


def layer_norm(
    b: Build,
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
    size = count(b, rows, [axis])
    mean = b.div(reduce_keepdims(b, "sum", rows, [axis]), size)
    centred = b.sub(rows, mean)
    variance = b.div(reduce_keepdims(b, "sum", b.mul(centred, centred), [axis]), size)
    std = b.sqrt(plus(b, variance, epsilon))
    y = b.reshape(b.div(centred, std), dims)
    y = y if scale is None else b.mul(y, scale)
    y = y if bias is None else b.add(y, bias)
    kept = kept_dims(x, range(axis, len(dims)))
    return y, b.reshape(mean, kept), b.reshape(std, kept)
