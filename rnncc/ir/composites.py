"""Functions that build well-known formulas from the primitives of `rnn`."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.types import dims_of, dtype_of


def softmax(b: Build, x: SSAValue, axis: int) -> SSAValue:
    """exp(x - max x) / sum exp(x - max x) along one axis; a row of -inf alone gives NaN."""
    exps = b.exp(b.sub(x, _keep(b, "max", x, axis)))
    return b.div(exps, _keep(b, "sum", exps, axis))


def layer_norm(
    b: Build,
    x: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    axis: int,
    epsilon: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Normalise along one axis: y = (x - mean) / std * scale + bias, std = sqrt(var + epsilon).

    Args:
        scale, bias: of a shape that broadcasts against x; None for 1 and 0.
    Returns:
        y like x; mean and std like x with size 1 along the axis. The variance is the biased one.
    """
    size = dims_of(x)[axis]
    static = size.is_static
    count = b.fill(int(size), (), dtype_of(x)) if static else b.cast(b.size(size), dtype_of(x))
    mean = b.div(_keep(b, "sum", x, axis), count)
    centred = b.sub(x, mean)
    variance = b.div(_keep(b, "sum", b.mul(centred, centred), axis), count)
    std = b.sqrt(b.add(variance, b.fill(epsilon, (), dtype_of(x))))
    y = b.div(centred, std)
    y = y if scale is None else b.mul(y, scale)
    return (y if bias is None else b.add(y, bias)), mean, std


def _keep(b: Build, kind: str, x: SSAValue, axis: int) -> SSAValue:
    """Reduce along an axis that stays, with size 1."""
    dims = dims_of(x)
    return b.reshape(b.reduce(kind, x, [axis]), (*dims[:axis], 1, *dims[axis + 1 :]))
