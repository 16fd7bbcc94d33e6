"""Convolutions and pooling over one axis or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import at_most, larger
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.axes import kept_dims
from rnncc.nn.convolution import Window, convolution, transposed_convolution
from rnncc.nn.pooling import average_pool, lp_pool, max_pool
from rnncc.nn.reduction import mean

Pads = list[tuple[Dim | int, Dim | int]]
MAX_GROUPS = 256
"""Each is a product of its own, unless each has one channel."""
MAX_TAPS = 1024
"""Along an axis of ConvTranspose, which adds up one shifted tensor a tap."""
AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


class Geometry:
    """Kernel, strides, dilations and pads of each axis of space."""

    def __init__(self, n: Node, kernel: Sequence[int]) -> None:
        self.n, self.kernel, rank = n, list(kernel), len(kernel)
        self.strides = self._each("strides", rank, 1)
        self.dilations = self._each("dilations", rank, 1)
        self.auto = n.one_of("auto_pad", AUTO, "NOTSET")
        flat = n.integers("pads", [0] * (2 * rank))
        if len(flat) != 2 * rank or min(flat, default=0) < 0:
            raise n.error(f"attribute 'pads' = {flat} for {rank} axes")
        self.pads: Pads = list(zip(flat[:rank], flat[rank:], strict=True))

    def _each(self, name: str, rank: int, default: int) -> list[int]:
        found = self.n.integers(name, [default] * rank)
        if len(found) != rank or min(found, default=1) < 1:
            raise self.n.error(f"attribute {name!r} = {found} for {rank} axes")
        return found

    def reach(self, axis: int) -> int:
        """How many elements a window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def windows(self, rounds_up: bool = False) -> list[Window]:
        """What `rnncc.nn` calls it, of each axis."""
        axes = zip(self.kernel, self.strides, self.dilations, self.pads, strict=True)
        return [Window(*numbers, rounds_up) for numbers in axes]

    def _check_fits(self, axis: int, size: Dim) -> None:
        """Refuse windows that are longer than a padded axis: the standard has no result."""
        before, behind = self.pads[axis]
        whole = size + before + behind
        if whole.is_static and int(whole) < self.reach(axis):
            what = f"has windows over {self.reach(axis)} elements on an axis of {whole}"
            raise self.n.unsupported(what)

    def fit(self, sizes: Sequence[Dim]) -> None:
        """Turn `auto_pad` into pads; refuse windows that do not fit."""
        if self.auto == "VALID":
            self.pads = [(0, 0)] * len(self.kernel)
        for axis, size in enumerate(sizes):
            if self.auto.startswith("SAME"):
                self._pad_to_same(axis, size)
            self._check_fits(axis, size)

    def _pad_to_same(self, axis: int, size: Dim) -> None:
        """Pads with which an axis has a window for each stride."""
        stride = self.strides[axis]
        whole = (size.over(stride) - 1) * stride + self.reach(axis)
        short = larger(whole - size, Dim.of(0))
        less = short.under(2)
        upper = self.auto == "SAME_UPPER"
        self.pads[axis] = (less, short - less) if upper else (short - less, less)


def _kernel(n: Node, index: int = 1) -> list[int]:
    """The sizes of the weights' axes of space."""
    dims, weights = n.dims(0), n.static(index)
    if len(dims) < 3 or len(dims) != len(weights):
        raise n.error(f"has data {shape_text(dims)} and weights {shape_text(n.dims(index))}")
    kernel_shape = n.integers("kernel_shape", weights[2:])
    if kernel_shape != weights[2:]:
        raise n.error(f"attribute 'kernel_shape' = {kernel_shape}, the weights' is {weights[2:]}")
    return weights[2:]


def convolved(n: Node) -> SSAValue:
    """Weights times windows of X, plus a bias, over one axis or more, in groups of channels.

    Refused: elements other than floats; weights of open sizes.
    """
    x, weights = n.x(0, FLOATS), n.x(1, FLOATS)
    windows, groups = windows_of(n)
    return convolution(n.b, x, weights, n.maybe(2, FLOATS), windows, groups)


def windows_of(n: Node, index: int = 1) -> tuple[list[Window], int]:
    """The windows of each axis that a convolution of input 0 has, and its groups.

    Args:
        index: of the weights.
    """
    geometry, dims, groups = Geometry(n, _kernel(n, index)), n.dims(0), n.integer("group", 1)
    geometry.fit(dims[2:])
    outputs, channels = n.static(index)[:2]
    if groups > MAX_GROUPS and (channels, outputs) != (1, groups):
        raise n.unsupported(f"has {groups} groups, at most {MAX_GROUPS} are supported")
    if groups < 1 or outputs % groups or dims[1] != channels * groups:
        what = f"has {dims[1]} channels in {groups} groups, weights {shape_text(n.dims(index))}"
        raise n.differ([dims[1]], [Dim.of(channels * groups)], what)
    return geometry.windows(), groups


def _conv_transpose(n: Node) -> SSAValue:
    """The opposite of Conv: windows of X times weights, laid over each other, plus a bias.

    Refused: elements other than floats; weights of open sizes; more than 1024 taps of an axis;
    auto_pad SAME_UPPER or SAME_LOWER with windows shorter than their stride.
    """
    dims, weights = n.dims(0), n.static(1)
    kernel, groups = _kernel(n), n.integer("group", 1)
    geometry, rank = Geometry(n, kernel), len(kernel)
    if groups > MAX_GROUPS:
        raise n.unsupported(f"has {groups} groups, at most {MAX_GROUPS} are supported")
    if groups < 1 or dims[1] != weights[0] or max(kernel) > MAX_TAPS:
        raise n.error(f"has data {shape_text(dims)}, weights {shape_text(n.dims(1))}")
    extra = n.integers("output_padding", [0] * rank)
    if len(extra) != rank or min(extra) < 0:
        raise n.error(f"attribute 'output_padding' = {extra} for {rank} axes")
    sizes = _transposed_sizes(n, geometry, dims[2:], extra)
    operands = (n.x(0, FLOATS), n.x(1, FLOATS), n.maybe(2, FLOATS))
    return transposed_convolution(n.b, *operands, geometry.windows(), sizes, groups)


def _transposed_sizes(
    n: Node, g: Geometry, sizes: Sequence[Dim], extra: list[int]
) -> list[tuple[Dim, Dim | int]]:
    """Of each axis: its size, and how much is cut off in front.

    Of an odd total of padding SAME_UPPER has the larger half at the end, every other `auto_pad` at
    the start.
    """
    rank, found = len(sizes), list[tuple[Dim, Dim | int]]()
    shape = n.integers("output_shape", [])
    if len(shape) not in (0, rank, rank + 2) or min(shape, default=0) < 0:
        raise n.error(f"attribute 'output_shape' = {shape} for {rank} axes")
    for axis, size in enumerate(sizes):
        whole = (size - 1) * g.strides[axis] + g.reach(axis) + extra[axis]
        if not shape and not g.auto.startswith("SAME"):
            pads = (0, 0) if g.auto == "VALID" else g.pads[axis]
            found.append((whole - sum(pads), pads[0]))
            continue
        result = Dim.of(shape[axis - rank]) if shape else size * g.strides[axis]
        cut = whole - result
        if not cut.is_static:
            raise n.unsupported(f"wants {result} of {whole} elements", "--shape gives a size")
        if int(cut) < 0 and not shape:  # the standard says the product, ONNX Runtime `whole`
            what = f"reaches {g.reach(axis)} elements in strides of {g.strides[axis]}"
            raise n.unsupported(f"{what}, of which auto_pad cannot make {result}")
        total = max(int(cut), 0)
        found.append((result, total // 2 if g.auto == "SAME_UPPER" else total - total // 2))
    return found


def _pooled(n: Node) -> list[Window]:
    """The windows of a pool."""
    dims = n.dims()
    kernel = n.integers("kernel_shape")
    if len(kernel) != len(dims) - 2 or min(kernel, default=0) < 1:
        raise n.error(f"attribute 'kernel_shape' = {kernel} for data {shape_text(dims)}")
    geometry = Geometry(n, kernel)
    _check_same(n, geometry, dims[2:])
    geometry.fit(dims[2:])
    rounds_up = n.flag("ceil_mode", 0) and not geometry.auto.startswith("SAME")  # nothing is left
    return geometry.windows(rounds_up)


def _check_same(n: Node, g: Geometry, sizes: Sequence[Dim]) -> None:
    """Refuse automatic pads of which the standard and ONNX Runtime make different windows."""
    for axis, size in enumerate(sizes) if g.auto.startswith("SAME") else ():
        if g.dilations[axis] > 1:
            raise n.unsupported(f"attribute 'auto_pad' = {g.auto!r} with dilations")
        last = (size.over(g.strides[axis]) - 1) * g.strides[axis]
        if not at_most(size, last + g.reach(axis)):
            what = f"attribute 'auto_pad' = {g.auto!r} with windows of {g.kernel[axis]}"
            raise n.unsupported(f"{what} in strides of {g.strides[axis]} on {size} elements")


def _max_pool(n: Node) -> SSAValue:
    """The largest element of each window.

    Refused: the places of the largest; auto_pad SAME_UPPER and SAME_LOWER with dilations, or
    windows shorter than their stride.
    """
    return max_pool(n.b, n.x(0, NUMBERS), _pooled(n))


def _average_pool(n: Node) -> SSAValue:
    """The mean of each window, of its elements within X or of all.

    Refused: elements other than floats; auto_pad SAME_UPPER and SAME_LOWER with dilations, or
    windows shorter than their stride.
    """
    return averaged(n, n.x(0, FLOATS))


def averaged(n: Node, x: SSAValue) -> SSAValue:
    """The means of the windows of x."""
    return average_pool(n.b, x, _pooled(n), n.flag("count_include_pad", 0))


def _lp_pool(n: Node) -> SSAValue:
    """(Σ |X|^p)^(1/p) of each window.

    Refused: elements other than floats; auto_pad SAME_UPPER and SAME_LOWER with dilations, or
    windows shorter than their stride.
    """
    p = n.integer("p", 2)
    if p < 1:
        raise n.error(f"attribute 'p' = {p} is below 1")
    return lp_pool(n.b, n.x(0, FLOATS), _pooled(n), p)


def _global(kind: str, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        x = n.x(0, FLOATS)
        axes = list(range(2, len(dims_of(x))))
        y = mean(n.b, x, axes) if kind == "mean" else n.b.reduce(kind, x, axes)
        return n.b.reshape(y, kept_dims(x, axes))

    build.__doc__ = f"{formula} of each channel.\n\nRefused: elements other than floats."
    return build


OPERATORS: dict[str, OnnxOperator] = {
    "Conv": OnnxOperator(convolved),
    "ConvTranspose": OnnxOperator(_conv_transpose),
    "MaxPool": OnnxOperator(_max_pool),
    "AveragePool": OnnxOperator(_average_pool),
    "LpPool": OnnxOperator(_lp_pool),
    "GlobalAveragePool": OnnxOperator(_global("mean", "The mean")),
    "GlobalMaxPool": OnnxOperator(_global("max", "The largest element")),
}
