"""Functions that build well-known formulas from the primitives of `rnn`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.ir.build import Build, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, dims_of, dtype_of

MOST_FACTORS = 64
"""The largest whole power that is a product of squares."""


def times(b: Build, x: SSAValue, number: float) -> SSAValue:
    """x · number"""
    return b.mul(x, b.full_like(x, number))


def plus(b: Build, x: SSAValue, number: float) -> SSAValue:
    """x + number"""
    return b.add(x, b.full_like(x, number))


def softmax(b: Build, x: SSAValue, axis: int) -> SSAValue:
    """exp(x - max x) / sum exp(x - max x) along one axis; a row of -inf alone gives NaN."""
    exps = b.exp(b.sub(x, keep(b, "max", x, [axis])))
    return b.div(exps, keep(b, "sum", exps, [axis]))


def log_softmax(b: Build, x: SSAValue, axis: int) -> SSAValue:
    """x - max x - ln sum exp(x - max x) along one axis.

    The maximum cancels out of the sum, so that no gradient needs to go through it.
    """
    centred = b.sub(x, b.stop_gradient(keep(b, "max", x, [axis])))
    return b.sub(centred, b.log(keep(b, "sum", b.exp(centred), [axis])))


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
    mean = b.div(keep(b, "sum", rows, [axis]), size)
    centred = b.sub(rows, mean)
    variance = b.div(keep(b, "sum", b.mul(centred, centred), [axis]), size)
    std = b.sqrt(plus(b, variance, epsilon))
    y = b.reshape(b.div(centred, std), dims)
    y = y if scale is None else b.mul(y, scale)
    y = y if bias is None else b.add(y, bias)
    kept = kept_dims(x, range(axis, len(dims)))
    return y, b.reshape(mean, kept), b.reshape(std, kept)


def by_channel(b: Build, vector: SSAValue, x: SSAValue) -> SSAValue:
    """A vector along axis 1 of tensors like x."""
    return b.reshape(vector, (*dims_of(vector), *[1] * (len(dims_of(x)) - 2)))


def keep(b: Build, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Reduce along axes that stay, with size 1."""
    return b.reshape(b.reduce(kind, x, axes), kept_dims(x, axes))


def kept_dims(x: SSAValue, axes: Sequence[int]) -> list[Dim]:
    """The shape of x with size 1 along some axes."""
    return [Dim.of(1) if axis in axes else size for axis, size in enumerate(dims_of(x))]


def count(b: Build, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """How many elements each sum along some axes has, in x's type."""
    size = product(dims_of(x)[axis] for axis in axes)
    if size.is_static:
        return b.fill(int(size), (), dtype_of(x))
    return b.cast(b.size(size), dtype_of(x))


def move_axis(b: Build, x: SSAValue, source: int, target: int) -> SSAValue:
    """x with one axis, counted from the front, at another place; the others keep their order."""
    order = [axis for axis in range(len(dims_of(x))) if axis != source]
    order.insert(target, source)
    return b.transpose(x, order)


def cumulate(
    b: Build,
    x: SSAValue,
    axis: int,
    function: Callable[[Build, SSAValue, SSAValue], SSAValue] = Build.add,
    start: float = 0,
    exclusive: bool = False,
    reverse: bool = False,
) -> SSAValue:
    """Running sums along an axis, or what another function makes of the total and each row.

    Args:
        start: the first total.
        exclusive: whether a row's own value comes behind it.
    """
    rows = move_axis(b, x, axis, 0)

    def step(inner: Build, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        total = function(inner, carry[0], row[0])
        return [total], [carry[0] if exclusive else total]

    first = b.fill(start, dims_of(rows)[1:], dtype_of(x))
    _, (totals,) = b.scan([], [first], [rows], step, reverse=reverse)
    return move_axis(b, totals, 0, axis)


def ranks(b: Build, x: SSAValue, largest: bool) -> SSAValue:
    """How many of the last axis' elements come before each, as i32: beyond it, or equal earlier.

    NaN counts as larger than any number, as NumPy and PyTorch sort it.
    """
    dims = dims_of(x)
    rank, size = len(dims), dims[-1]
    wide = (*dims, size)
    mine = b.broadcast(x, wide, range(rank))
    other = b.broadcast(x, wide, [*range(rank - 1), rank])
    beyond = b.compare("gt" if largest else "lt", other, mine)
    equal = b.compare("eq", other, mine)
    if dtype_of(x) in FLOATS:
        nans = b.compare("ne", other, other), b.compare("ne", mine, mine)
        farther, nearer = nans if largest else reversed(nans)
        beyond = b.logical("or", beyond, b.logical("and", farther, b.logical_not(nearer)))
        equal = b.logical("or", equal, b.logical("and", *nans))
    earlier = b.compare("lt", b.iota(wide, rank, "i32"), b.iota(wide, rank - 1, "i32"))
    equal = b.logical("and", equal, earlier)
    return b.reduce("sum", b.cast(b.logical("or", beyond, equal), "i32"), [rank])


def power(b: Build, x: SSAValue, exponent: SSAValue | float) -> SSAValue:
    """x to a power, of floats; a number as exponent is cheaper, whole ones and halves exact.

    Zero to the power of 0 is 1; of a negative x only whole powers are numbers.
    """
    if isinstance(exponent, (int, float)):
        return _known_power(b, x, float(exponent))
    x, exponent = b.broadcast_together(x, exponent)
    one, zero = b.full_like(x, 1.0), b.full_like(x, 0.0)
    size = b.exp(b.mul(exponent, b.log(b.abs(x))))
    half = b.mul(exponent, b.full_like(x, 0.5))
    odd = b.compare("ne", b.round("floor", half), half)
    whole = b.compare("eq", b.round("floor", exponent), exponent)
    signed = b.select(odd, b.neg(size), size)
    below = b.select(whole, signed, b.full_like(x, math.nan))
    y = b.select(b.compare("lt", x, zero), below, size)
    return b.select(
        b.logical("or", b.compare("eq", exponent, zero), b.compare("eq", x, one)), one, y
    )


def _known_power(b: Build, x: SSAValue, exponent: float) -> SSAValue:
    if exponent < 0:
        return b.div(b.full_like(x, 1.0), _known_power(b, x, -exponent))
    if exponent == 0.5:
        return b.sqrt(x)
    if exponent != int(exponent) or exponent > MOST_FACTORS:
        return power(b, x, b.full_like(x, exponent))
    result, square, left = None, x, int(exponent)
    while left:
        if left & 1:
            result = square if result is None else b.mul(result, square)
        left >>= 1
        square = b.mul(square, square) if left else square
    return b.full_like(x, 1.0) if result is None else result


def strided(b: Build, x: SSAValue, axis: int, start: Dim | int, count: Dim, step: int) -> SSAValue:
    """x[start], x[start + step], ... along an axis, `count` of them; step may be negative."""
    dims = dims_of(x)
    if step == 1:
        return b.slice(x, axis, start, count)
    if step > 0:
        windows = b.windows(x, axis, start, count, step)
        return b.reshape(windows, (*dims[:axis], count, *dims[axis + 1 :]))
    number = b.mul(b.iota((count,), 0, "i64"), b.fill(step, (), "i64"))
    return b.gather(x, b.add(number, b.size(Dim.of(start))), axis)


def convolution(
    b: Build,
    x: SSAValue,
    weights: SSAValue,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    groups: int = 1,
) -> SSAValue:
    """Convolution with channels last: windows of x, each a row of one product.

    Args:
        x: [N, size of each axis..., C].
        weights: [M, C / groups, taps of each axis...].
        pads: zeros before and behind, of each axis.
    Returns:
        [N, windows of each axis..., M].
    """
    rank, taps = len(strides), [int(d) for d in dims_of(weights)[2:]]
    x = _windows(b, x, taps, strides, pads, dilations)
    batch, *counts = dims_of(x)[: rank + 1]
    depth, channels = math.prod(taps), int(dims_of(weights)[1])
    outputs = int(dims_of(weights)[0]) // groups
    by_tap = b.transpose(weights, [0, *range(2, rank + 2), 1])
    rows = b.reshape(by_tap, (groups * outputs, depth * channels))
    if channels == outputs == 1 < groups:
        kernel = b.transpose(b.reshape(rows, (groups, depth)), (1, 0))
        flat = b.reshape(x, (batch, *counts, depth, groups))
        return b.reduce("sum", b.mul(flat, kernel), [rank + 1])
    parts = list[SSAValue]()
    for group in range(groups):
        some = b.slice(x, 2 * rank + 1, group * channels, channels)
        own = b.slice(rows, 0, group * outputs, outputs)
        flat = b.reshape(some, (batch, *counts, depth * channels))
        parts.append(b.matmul(flat, own, transpose_b=True))
    return b.concat(parts, rank + 1)


def _windows(
    b: Build,
    x: SSAValue,
    taps: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> SSAValue:
    """x [N, sizes..., C], with pads, as [N, windows of each axis..., taps of each axis..., C]."""
    rank = len(strides)
    for i in range(rank):
        axis = 1 + 2 * i  # each axis before has become two
        size = dims_of(x)[axis] + sum(pads[i])
        x = b.pad(x, axis, pads[i][0], size, 0.0)
        count = window_count(size, taps[i], strides[i], dilations[i])
        x = b.windows(x, axis, 0, count, strides[i], taps[i], dilations[i])
    places = [1 + 2 * i for i in range(rank)]
    return b.transpose(x, [0, *places, *(p + 1 for p in places), 2 * rank + 1])


def window_count(size: Dim, taps: int, stride: int, dilation: int = 1) -> Dim:
    """How many windows fit an axis.

    Raises:
        ValueError: there is no formula for it, as the stride does not divide an open size.
    """
    room = size - (taps - 1) * dilation - 1
    if room.is_static:
        return Dim.of(max(int(room) // stride + 1, 0))
    rest = room.coefficient() % stride
    whole = (room - rest).divide(stride)
    if whole is None:
        raise ValueError(f"({room})/{stride} + 1 windows, of which there is no formula")
    return whole + 1
