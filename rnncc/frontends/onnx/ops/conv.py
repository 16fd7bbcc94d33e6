"""Convolutions over one axis or more, and the sums of windows that are their opposite."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.weights import maybe_weights, weights
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.windows import overlap_add
from rnncc.ir.types import shape_text
from rnncc.nn.axes import move_axis
from rnncc.nn.convolution import MAX_GROUPS, convolution
from rnncc.nn.deformed_convolution import deformed_convolution
from rnncc.nn.transposed_convolution import MAX_TAPS, has_too_many_groups, transposed_convolution
from rnncc.nn.windows import Window

Pads = list[tuple[Dim | int, Dim | int]]
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
        numbers = self.n.integers(name, [default] * rank)
        if len(numbers) != rank or min(numbers, default=1) < 1:
            raise self.n.error(f"attribute {name!r} = {numbers} for {rank} axes")
        return numbers

    def reach(self, axis: int) -> int:
        """How many elements a window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def windows(self, rounds_up: bool = False) -> list[Window]:
        """What `rnncc.nn` calls it, of each axis."""
        axes = zip(self.kernel, self.strides, self.dilations, self.pads, strict=True)
        return [Window(*numbers, rounds_up) for numbers in axes]

    def _check_fits(self, axis: int, size: Dim, least: int) -> None:
        """Refuse windows that are longer than a padded axis: the standard has no result."""
        before, behind = self.pads[axis]
        whole = size + before + behind
        if whole.is_static and int(whole) < least:
            what = f"has windows over {self.reach(axis)} elements on an axis of {whole}"
            raise self.n.unsupported(what)

    def fit(self, sizes: Sequence[Dim], rounds_up: bool = False) -> None:
        """Turn `auto_pad` into pads; refuse windows that do not fit."""
        if self.auto == "VALID":
            self.pads = [(0, 0)] * len(self.kernel)
        for axis, size in enumerate(sizes):
            if self.auto.startswith("SAME"):
                window = self.windows()[axis].with_same_pads(size, self.auto == "SAME_UPPER")
                self.pads[axis] = window.pads
            self._check_fits(axis, size, self.windows(rounds_up)[axis].least)


def _kernel(n: Node, index: int = 1) -> list[int]:
    """The sizes of the weights' axes of space."""
    dims, shape = n.dims(0), n.static(index)
    if len(dims) < 3 or len(dims) != len(shape):
        raise n.error(f"has data {shape_text(dims)} and weights {shape_text(n.dims(index))}")
    kernel_shape = n.integers("kernel_shape", shape[2:])
    if kernel_shape != shape[2:]:
        raise n.error(f"attribute 'kernel_shape' = {kernel_shape}, the weights' is {shape[2:]}")
    return shape[2:]


def convolved(n: Node) -> SSAValue:
    """Weights times windows of X, plus a bias, over one axis or more, in groups of channels."""
    x, taps = n.x(0, FLOATS), weights(n, 1)
    windows, groups = windows_of(n)
    return convolution(n.b, x, taps, maybe_weights(n, 2), windows, groups)


def _deformed(n: Node) -> SSAValue:
    """Conv over two axes whose taps are moved by offsets, interpolated, and scaled by a mask.

    Refused: elements other than floats; other than two axes of space; weights of open sizes.
    """
    b, x, dims = n.b, n.x(0, FLOATS), n.dims()
    if len(dims) != 4:
        raise n.unsupported(f"has data of shape {shape_text(dims)}, supported: two axes of space")
    windows, groups = windows_of(n)
    parts, taps = n.integer("offset_group", 1), prod(w.taps for w in windows)
    if parts < 1 or int(dims[1]) % parts:
        raise n.error(f"attribute 'offset_group' = {parts} for {dims[1]} channels")
    counts = [w.count(size) for w, size in zip(windows, dims[2:], strict=True)]
    for index, each in ((2, 2), (4, 1)):
        expected = (dims[0], Dim.of(parts * taps * each), *counts)
        if n.has(index) and n.dims(index) != expected:
            shown = shape_text(n.dims(index))
            what = f"has offsets or a mask of shape {shown}, expected {shape_text(expected)}"
            raise n.differ(n.dims(index), expected, what)
    others = weights(n, 1), maybe_weights(n, 3), n.x(2, FLOATS), n.maybe(4, FLOATS)
    return deformed_convolution(b, x, *others, windows, groups, parts)


def windows_of(n: Node, index: int = 1) -> tuple[list[Window], int]:
    """The windows of each axis that a convolution of input 0 has, and its groups.

    Args:
        index: of the weights.
    """
    geometry, dims, groups = Geometry(n, _kernel(n, index)), n.dims(0), n.integer("group", 1)
    geometry.fit(dims[2:])
    outputs, channels = n.static(index)[:2]
    if groups < 1 or outputs % groups or dims[1] != channels * groups:
        what = f"has {dims[1]} channels in {groups} groups, weights {shape_text(n.dims(index))}"
        raise n.differ([dims[1]], [Dim.of(channels * groups)], what)
    return geometry.windows(), groups


def _conv_transpose(n: Node) -> SSAValue:
    """The opposite of Conv: windows of X times weights, laid over each other, plus a bias.

    Refused: elements other than floats; weights of open sizes; more than 1024 taps of an axis; more
    than 512 groups of several channels; auto_pad SAME_UPPER or SAME_LOWER with windows shorter than
    their stride.
    """
    dims, shape = n.dims(0), n.static(1)
    kernel, groups = _kernel(n), n.integer("group", 1)
    geometry, rank = Geometry(n, kernel), len(kernel)
    if has_too_many_groups(n.dims(1), groups):
        raise n.unsupported(f"has {groups} groups, at most {MAX_GROUPS} are supported")
    shown = f"has data {shape_text(dims)}, weights {shape_text(n.dims(1))}"
    if groups < 1 or max(kernel) > MAX_TAPS:
        raise n.error(shown)
    if dims[1] != shape[0]:
        raise n.differ(dims[1:2], [Dim.of(shape[0])], shown)
    extra = n.integers("output_padding", [0] * rank)
    if len(extra) != rank or min(extra) < 0:
        raise n.error(f"attribute 'output_padding' = {extra} for {rank} axes")
    sizes = _transposed_sizes(n, geometry, dims[2:], extra)
    operands = (n.x(0, FLOATS), weights(n, 1), maybe_weights(n, 2))
    return transposed_convolution(n.b, *operands, geometry.windows(), sizes, groups)


def _transposed_sizes(
    n: Node, g: Geometry, sizes: Sequence[Dim], extra: list[int]
) -> list[tuple[Dim, Dim | int]]:
    """Of each axis: its size, and how much is cut off in front.

    Of an odd total of padding SAME_UPPER has the larger half at the end, every other `auto_pad` at
    the start.
    """
    rank, sizes_and_pads = len(sizes), list[tuple[Dim, Dim | int]]()
    shape = n.integers("output_shape", [])
    if len(shape) not in (0, rank, rank + 2) or min(shape, default=0) < 0:
        raise n.error(f"attribute 'output_shape' = {shape} for {rank} axes")
    for axis, size in enumerate(sizes):
        whole = (size - 1) * g.strides[axis] + g.reach(axis) + extra[axis]
        if not shape and not g.auto.startswith("SAME"):
            pads = (0, 0) if g.auto == "VALID" else g.pads[axis]
            sizes_and_pads.append((whole - sum(pads), pads[0]))
            continue
        result = Dim.of(shape[axis - rank]) if shape else size * g.strides[axis]
        cut = whole - result
        if not cut.is_static:
            raise n.unsupported(f"wants {result} of {whole} elements", "--shape gives a size")
        if int(cut) < 0 and not shape:  # the standard says the product, ONNX Runtime `whole`
            what = f"reaches {g.reach(axis)} elements in strides of {g.strides[axis]}"
            raise n.unsupported(f"{what}, of which auto_pad cannot make {result}")
        total = max(int(cut), 0)
        sizes_and_pads.append(
            (result, total // 2 if g.auto == "SAME_UPPER" else total - total // 2)
        )
    return sizes_and_pads


def _image_of_columns(n: Node) -> SSAValue:
    """The windows of an image, whose taps are channels of X, laid over each other and added up.

    Refused: elements other than floats.
    """
    b, x, dims, image, block = n.b, n.x(0, FLOATS), n.dims(), n.sizes(1), n.known_integers(2)
    geometry, rank = Geometry(n, block), len(block)
    fits = len(dims) == 3 and len(image) == rank and min(block, default=0) > 0
    channels = dims[1].divide(Dim.of(prod(block))) if fits else None
    if channels is None:
        what = f"makes {shape_text(image)} of windows {block} in data {shape_text(dims)}"
        raise n.error(what)
    windows = geometry.windows()
    counts = [w.count(size) for w, size in zip(windows, image, strict=True)]
    if dims[2] != product(counts):
        what = f"has {dims[2]} windows for {shape_text(counts)} of them in {shape_text(image)}"
        raise n.differ([dims[2]], [product(counts)], what)
    y = b.reshape(x, (dims[0], channels, *block, *counts))
    for axis, (window, size) in enumerate(zip(windows, image, strict=True), 2):
        y = move_axis(b, y, 2 + rank, axis)  # the windows of the axis, in front of their taps
        whole, steps = size + sum(window.pads), (window.stride, window.dilation)
        y = overlap_add(b, y, axis, Dim.of(0), whole, steps)
        y = b.slice(y, axis, window.pads[0], size)
    return y


OPERATORS: dict[str, OnnxOperator] = {
    "DeformConv": OnnxOperator(_deformed),
    "ConvTranspose": OnnxOperator(_conv_transpose),
    "Col2Im": OnnxOperator(_image_of_columns),
}
