"""Pools: the largest element, the mean or a norm of each window or channel, and their opposite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator, contributed
from rnncc.frontends.onnx.ops.channels_last import channels_last
from rnncc.frontends.onnx.ops.conv import Geometry
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.axes import kept_dims
from rnncc.nn.indexing import put
from rnncc.nn.pooling import average_pool, lp_pool, max_places, max_pool
from rnncc.nn.reduction import largest, mean, root_of_powers
from rnncc.nn.windows import Window


def pool_windows(n: Node) -> list[Window]:
    """The windows of a pool."""
    dims = n.dims()
    kernel = n.integers("kernel_shape")
    if len(kernel) != len(dims) - 2 or min(kernel, default=0) < 1:
        raise n.error(f"attribute 'kernel_shape' = {kernel} for data {shape_text(dims)}")
    geometry, rounds_up = Geometry(n, kernel), n.flag("ceil_mode", 0)
    if geometry.auto.startswith("SAME"):
        geometry.pads = [_same(n, geometry, axis, size) for axis, size in enumerate(dims[2:])]
        geometry.auto = "NOTSET"
        rounds_up = rounds_up and max(geometry.dilations) > 1  # else nothing is left
        if rounds_up and not all(Dim.of(pad).is_static for pads in geometry.pads for pad in pads):
            raise n.unsupported("rounds up the number of dilated windows on axes of open size")
    geometry.fit(dims[2:], rounds_up)
    return geometry.windows(rounds_up)


def _same(n: Node, g: Geometry, axis: int, size: Dim) -> tuple[Dim | int, Dim | int]:
    """Automatic pads of an axis as ONNX Runtime makes them: they leave dilations out of account."""
    last = (size.over(g.strides[axis]) - 1) * g.strides[axis]
    short, lower = last + g.kernel[axis] - size, g.auto == "SAME_LOWER"
    if at_most(size, last + g.kernel[axis]):
        return Window(g.kernel[axis], g.strides[axis]).with_same_pads(size, not lower).pads
    if short.is_static and int(short) + lower > -2 and g.dilations[axis] == 1:
        return Dim.of(0), Dim.of(0)
    what = f"attribute 'auto_pad' = {g.auto!r} with windows of {g.kernel[axis]}"
    raise n.unsupported(f"{what} in strides of {g.strides[axis]} on {size} elements")


def max_pooled(n: Node) -> list[SSAValue]:
    """The largest element of each window; and where in X it stands, counted along its last axis
    first, or with `storage_order` along the first axis of space.

    Refused: auto_pad SAME_UPPER and SAME_LOWER with windows shorter than their stride.
    """
    b, x, windows = n.b, n.x(0, NUMBERS), pool_windows(n)
    y = max_pool(b, x, windows)
    if len(n.op.output) < 2 or not n.op.output[1]:
        return [y]
    place = max_places(b, x, windows, n.flag("storage_order", 0))
    batch, channels, *sizes = dims_of(x)
    channel = b.mul(b.iota((batch * channels,), 0, "i64"), b.size(product(sizes), "i64"))
    return [y, b.add(place, b.reshape(channel, (batch, channels, *[1] * len(sizes))))]


def _bytes_last(n: Node) -> SSAValue:
    """MaxPool of bytes [N, space..., C]."""
    y, *_ = max_pooled(n)
    return n.b.cast(y, n.value(0).dtype)


def _max_unpool(n: Node) -> SSAValue:
    """Zeros, but for X's elements at the places in the result that the second input holds.

    Refused: a shape of the result other than that of which X are the windows; elements other than
    floats, int32, int64.
    """
    b, x, dims, kernel = n.b, n.x(0, NUMBERS), n.dims(), n.integers("kernel_shape")
    if len(kernel) != len(dims) - 2 or n.dims(1) != dims:
        what = f"has places of shape {shape_text(n.dims(1))} for data {shape_text(dims)}"
        raise n.differ(n.dims(1), dims, what)
    geometry = Geometry(n, kernel)
    sizes = [
        (size - 1) * geometry.strides[axis] + kernel[axis] - sum(geometry.pads[axis])
        for axis, size in enumerate(dims[2:])
    ]
    shape = [*dims[:2], *sizes]
    if n.has(2) and n.sizes(2) != shape:
        raise n.unsupported(f"has the windows of {shape_text(shape)} in {shape_text(n.sizes(2))}")
    places = b.reshape(n.x(1, ("i64",)), (product(dims),))
    zeros = b.fill(0, (product(shape),), dtype_of(x))
    return b.reshape(put(b, zeros, b.reshape(x, (product(dims),)), places), shape)


def _average_pool(n: Node) -> SSAValue:
    """The mean of each window, of its elements within X or of all.

    Refused: elements other than floats; auto_pad SAME_UPPER and SAME_LOWER with windows
    shorter than their stride.
    """
    return averaged(n, n.x(0, FLOATS))


def averaged(n: Node, x: SSAValue) -> SSAValue:
    """The means of the windows of x."""
    return average_pool(n.b, x, pool_windows(n), n.flag("count_include_pad", 0))


def _lp_pool(n: Node) -> SSAValue:
    """(Σ |X|^p)^(1/p) of each window.

    Refused: elements other than floats; auto_pad SAME_UPPER and SAME_LOWER with windows
    shorter than their stride.
    """
    return lp_pool(n.b, n.x(0, FLOATS), pool_windows(n), _order(n))


def _order(n: Node) -> int:
    """The p of a norm."""
    p = n.integer("p", 2)
    if p < 1:
        raise n.error(f"attribute 'p' = {p} is below 1")
    return p


def _global(function: Callable[[Node, SSAValue, list[int]], SSAValue], formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        x = n.x(0, FLOATS)
        axes = list(range(2, len(dims_of(x))))
        return n.b.reshape(function(n, x, axes), kept_dims(x, axes))

    build.__doc__ = f"{formula} of each channel.\n\nRefused: elements other than floats."
    return build


OPERATORS: dict[str, OnnxOperator] = {
    "com.microsoft.NhwcMaxPool": contributed(
        channels_last(_bytes_last),
        "x",
        "auto_pad:s ceil_mode:i dilations:ints kernel_shape:ints! pads:ints strides:ints",
    ),
    "MaxUnpool": OnnxOperator(_max_unpool),
    "AveragePool": OnnxOperator(_average_pool),
    "LpPool": OnnxOperator(_lp_pool),
    "GlobalAveragePool": OnnxOperator(_global(lambda n, x, axes: mean(n.b, x, axes), "The mean")),
    "GlobalMaxPool": OnnxOperator(
        _global(lambda n, x, axes: largest(n.b, x, axes), "The largest element")
    ),
    "GlobalLpPool": OnnxOperator(
        _global(lambda n, x, axes: root_of_powers(n.b, x, axes, _order(n)), "(Σ |X|^p)^(1/p)")
    ),
}
