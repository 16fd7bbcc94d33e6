"""Convolutions and pools along the axis of rows whose number the run decides, and pads around.

Behind the rows that count stands what pads hold, so that each window that there is with so many
rows has the elements that it would have without the others.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import one_that_fits
from rnncc.frontends.onnx.counted.rows import Partial, crossed, filled
from rnncc.frontends.onnx.counted_ops.batches import Operands, only, pads_around
from rnncc.frontends.onnx.counted_ops.edges import mirrored
from rnncc.frontends.onnx.counted_ops.sums import neutral, with_others
from rnncc.frontends.onnx.formulas.offsets import total
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.computed_sizes import is_computed
from rnncc.frontends.onnx.ops.conv import Geometry, windows_of
from rnncc.frontends.onnx.ops.pooling import pool_windows
from rnncc.frontends.onnx.ops.slicing import pad_by_computed, padded_axes
from rnncc.frontends.onnx.values import Value, sizes_value
from rnncc.frontends.onnx.weights import maybe_weights, weights
from rnncc.ir.dims import Dim
from rnncc.nn.convolution import convolution
from rnncc.nn.windows import Window

SPACE = 2
"""The first axis that windows lie along."""
SUM = 3
"""What FusedConv adds to its result."""
WEIGHTS_AT = {"QLinearConv": 3}
"""Which input the weights are, if not the second."""
ZERO_POINT = 2
"""Of the rows, where a convolution is of integers."""
OF_INTEGERS = ("ConvInteger", "QLinearConv")

Move = Callable[[Node, Operands], Value | None]


def convolved(name: str) -> Move:
    """Windows of rows that count, with pads around these."""

    def move(n: Node, inputs: Operands) -> Partial | None:
        x = only(inputs)
        summed = name == "com.microsoft.FusedConv" and n.has(SUM)
        if x is None or x.count is None or x.axis < SPACE or summed:
            return None
        window = windows_of(n, WEIGHTS_AT.get(name, 1))[0][x.axis - SPACE]
        if _same(n) and window.stride > 1:
            return _in_strides(n, x) if name == "Conv" else None
        if not all(Dim.of(pad).is_static for pad in window.pads):
            return None
        n.inputs[0] = _with_pads(n, x, name)
        return Partial.counted(n.built_as(name), x.axis, _number_of(n, window, x.count))

    return move


def _with_pads(n: Node, x: Partial, name: str) -> Value:
    """All rows of the bound, behind those that count what stands for 0."""
    if name not in OF_INTEGERS or not n.has(ZERO_POINT):
        return with_others(n, x, 0)
    assert x.made is not None and x.count is not None
    zero = n.b.reshape(n.scope.ssa(n.value(ZERO_POINT)), ())
    return Value(x.dtype, x.dims, made=filled(n.b, x.made, x.count, x.axis, zero))


def _in_strides(n: Node, x: Partial) -> Partial:
    """A window for each stride of the rows that count, whose number decides the pads around them:
    the rows are moved to where the first window begins."""
    b, (windows, groups) = n.b, windows_of(n)
    window, size = windows[x.axis - SPACE], x.dims[x.axis]
    most, stride, count = window.reach - 1, window.stride, x.count
    assert count is not None

    def number(value: int) -> SSAValue:
        return n.full(value, count)

    steps = b.div(_added(n, count, stride - 1), number(stride))
    needed = _added(n, b.mul(b.sub(steps, number(1)), number(stride)), most + 1)
    short = b.maximum(b.sub(needed, count), number(0))
    before = b.div(short, number(2))
    if n.text("auto_pad") == "SAME_LOWER":
        before = b.sub(short, before)
    rows = n.scope.ssa(with_others(n, x, 0))
    padded = b.pad(rows, x.axis, most, size + 2 * most, 0)
    first = b.sub(number(most), before)
    places = b.iota((size + most,), 0, "i64")
    moved = b.gather(padded, b.add(places, b.broadcast(first, (size + most,), [])), x.axis)
    windows[x.axis - SPACE] = Window(window.taps, stride, window.dilation)
    y = convolution(b, moved, weights(n, 1), maybe_weights(n, 2), windows, groups)
    return Partial.counted(n.scope.value(n, 0, y), x.axis, steps)


def pooled(n: Node, inputs: Operands) -> Partial | None:
    """The largest element, or the mean, of each window of rows that count; means take no pads."""
    x, means = only(inputs), n.op.op_type == "AveragePool"
    if x is None or x.count is None or x.axis < SPACE or any(n.op.output[1:]):
        return None
    if _same(n) or n.flag("ceil_mode", 0):
        return None
    window = pool_windows(n)[x.axis - SPACE]
    other = neutral("Sum" if means else "Max", x.dtype)
    if other is None or (means and window.pads != (0, 0) and not n.flag("count_include_pad", 0)):
        return None
    n.inputs[0] = with_others(n, x, other)
    result = n.built_as(n.op.op_type)
    return Partial.counted(result, x.axis, _number_of(n, window, x.count))


def _number_of(n: Node, window: Window, count: SSAValue) -> SSAValue:
    """How many windows so many rows have, with pads of known sizes around."""
    more = sum(int(Dim.of(pad)) for pad in window.pads) - window.reach
    if (more, window.stride) == (-1, 1):
        return count
    left = _added(n, count, more)
    steps = n.b.div(left, n.full(window.stride, left)) if window.stride > 1 else left
    return _added(n, steps, 1)


def transposed(n: Node, inputs: Operands) -> Partial | None:
    """Windows of the result, as many as there are rows that count, laid over each other."""
    x = only(inputs)
    if x is None or x.count is None or x.axis < SPACE or _same(n) or n.given("output_shape"):
        return None
    geometry, axis = Geometry(n, n.static(1)[2:]), x.axis - SPACE
    pads = (0, 0) if geometry.auto == "VALID" else geometry.pads[axis]
    extra = n.integers("output_padding", [0] * len(geometry.kernel))[axis]
    stride, reach = geometry.strides[axis], geometry.reach(axis)
    n.inputs[0] = with_others(n, x, 0)
    result = n.built_as("ConvTranspose")
    whole = n.b.mul(x.count, n.full(stride, x.count)) if stride > 1 else x.count
    more = reach - stride + extra - sum(int(pad) for pad in map(Dim.of, pads))
    return Partial.counted(result, x.axis, _added(n, whole, more))


def padded(n: Node, inputs: Operands) -> Value | None:
    """A known number before the rows that count, and behind them; or as many as are missing; or
    one that the run decides."""
    x = only(inputs)
    if x is not None and (filled := _filled_up(n, x)) is not None:
        return filled
    if x is not None and n.opset >= 11 and is_computed(n, 1):
        return _by_computed(n, x)
    around = None if x is None else pads_around(n, x)
    if x is None or x.count is None or not around or around == (0, 0):
        return None
    if (rows := mirrored(n, x)) is not None:
        return rows
    number = _known_fill(n)
    if number is None or not all(amount.is_static and int(amount) >= 0 for amount in around):
        return None
    n.inputs[0] = with_others(n, x, number)
    more = sum(map(int, around))
    return Partial.counted(n.built_as("Pad"), x.axis, _added(n, x.count, more))


def _by_computed(n: Node, x: Partial) -> Value | None:
    """The same by amounts that the run decides, of the rows or along another axis."""
    rows = pad_by_computed(n, x)
    if rows is not None or x.count is None:
        return rows
    pads = zip(2 * padded_axes(n), n.places(1), strict=False)
    plain = all(place == 0 for axis, place in pads if axis == x.axis)
    others = pad_by_computed(n, x.whole()) if plain else None
    return crossed(x, others) if isinstance(others, Partial) else None


def _filled_up(n: Node, x: Partial) -> Value | None:
    """Rows up to a size of the net's: as many behind those that count as are missing."""
    if n.opset < 11 or n.value(1).known is not None:
        return None
    number, places = _known_fill(n), n.places(1)
    axes = n.axes(n.known_integers(3), x.rank) if n.has(3) else [*range(x.rank)]
    if number is None or x.count is None or x.axis not in axes or len(places) != 2 * len(axes):
        return None
    at = axes.index(x.axis)
    missing = places.pop(at + len(axes))
    pads = [place for place in places if isinstance(place, Dim)]
    rows = None if isinstance(missing, Dim) else total(x.count, missing)
    if rows is None or len(pads) != len(places):
        return None
    pads.insert(at + len(axes), rows - x.dims[x.axis])
    n.inputs[0], n.inputs[1] = with_others(n, x, number), sizes_value(pads)
    return n.built_as("Pad")


def _known_fill(n: Node) -> float | None:
    """What a Pad of mode constant puts there, if that is known."""
    if n.text("mode", "constant") != "constant":
        return None
    if n.opset < 11:
        return n.real("value", 0)
    if not n.has(2):
        return 0
    return n.scalar(2) if n.value(2).known is not None else None


def _same(n: Node) -> bool:
    return n.text("auto_pad", "NOTSET").startswith("SAME")


def _added(n: Node, count: SSAValue, more: int) -> SSAValue:
    """A count with others added: if there are fewer than none, the run fails."""
    if more == 0:
        return count
    total = n.b.add(count, n.full(more, count))
    if more > 0:
        return total
    return one_that_fits(n.b, total, n.b.compare("ge", total, n.full(0, total)))
