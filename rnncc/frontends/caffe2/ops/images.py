"""Operators on the channels and the planes of images: normalised, shuffled, resized, padded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.gradient import gradients
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.channels import SIDES, OfChannels
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import power
from rnncc.nn.normalisation import MOST_CHANNELS, response_scale
from rnncc.nn.resizing import Resizing, resize


class ImageOperator(OfChannels):
    """Y = what becomes of X [N, C, ...], or where `order` is NHWC of [N, ..., C]."""

    rank: ClassVar[int | None] = None
    """How many axes X has, if that is given."""

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, *self.ys)
        dims = self.dims(s, self.xs[0])
        if dims is None:
            return
        if len(dims) != (self.rank or len(dims)) or len(dims) < 2:
            axes = "an axis of channels" if self.rank is None else f"{self.rank} axes"
            raise self.error(f"data of shape {s.text(dims)}, expected {axes}")
        self.expect(s, self.ys[0], self.shape(dims))

    def shape(self, dims: Dims) -> Dims:
        """Y's, given X's, both as in NCHW."""
        return dims

    def build(self, e: Emitter) -> None:
        self.give(e, self.ys[0], self.result(e, self.operand(e, self.xs[0])))

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        """Y of X, both as in NCHW."""
        raise NotImplementedError


class LRN(ImageOperator):
    """Y0 = X / Y1^beta, Y1 = bias + alpha / size times the sum of the squares of `size`
    neighbouring channels, in the middle of which is X's; with `order` NHWC the channels come last.

    Refused: a `size` that is even, or above 64; elements other than float32.
    """

    outputs = (1, 2)
    rank = 4

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.size = self.args.int("size", 0)
        if self.size < 1 or self.size % 2 == 0 or self.size > MOST_CHANNELS:
            expected = f"expected an odd number up to {MOST_CHANNELS}"
            raise self.error(f"argument 'size' is {self.size}, {expected}")

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_shape(self.xs[0], *self.ys)

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        alpha, bias = self.args.float("alpha", 0.0), self.args.float("bias", 1.0)
        scale = response_scale(e.b, x, self.size, alpha, bias)
        for blob in self.ys[1:]:
            self.give(e, blob, scale)
        return e.b.div(x, power(e.b, scale, self.args.float("beta", 0.0)))


class ChannelShuffle(ImageOperator):
    """Y = X with the channels in another order: those that stand first in each of `group` groups,
    then those that stand second, and so on; with `order` NHWC the channels come last.

    Refused: a symbolic number of channels, or one that is not a multiple of `group`; elements other
    than float32.
    """

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.group = self.args.int("group", 1)

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        dims = self.dims(s, self.xs[0])
        return [] if dims is None else [dims[1]]

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        dims = dims_of(x)
        if self.group < 1 or int(dims[1]) % self.group:
            raise self.error(f"has {dims[1]} channels in {self.group} groups")
        sizes = self.group, int(dims[1]) // self.group
        by_group = e.b.reshape(x, (dims[0], *self.in_order_of_x(*sizes), *dims[2:]))
        axes = [0, 2, 1, *range(3, len(dims) + 1)]
        return e.b.reshape(e.b.transpose(by_group, axes), dims)

    def in_order_of_x(self, groups: int, size: int) -> tuple[int, int]:
        """The axes that X's channels are, given how many groups there are of how many channels."""
        return groups, size


class ChannelShuffleGradient(ChannelShuffle):
    """dX = dY with the channels in the order that they had before ChannelShuffle.

    Refused: a symbolic number of channels, or one that is not a multiple of `group`; elements other
    than float32.
    """

    is_gradient = True

    def in_order_of_x(self, groups: int, size: int) -> tuple[int, int]:
        return size, groups


class ResizeNearest(ImageOperator):
    """Y = X with `height_scale` and `width_scale` times as many rows and columns, each the nearest
    of X towards the front; with `order` NHWC the channels come last.

    Refused: scales in a blob; scales of a symbolic size that are no integers; elements other than
    float32.
    """

    rank = 4
    how: ClassVar[Resizing] = Resizing("nearest", "asymmetric", "floor")

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.scales = [self.args.float(f"{side}_scale", 1.0) for side in ("height", "width")]
        if not all(0 < scale < 1 << 16 for scale in self.scales):
            raise self.error(f"scales by {self.scales}, expected positive numbers")

    def shape(self, dims: Dims) -> Dims:
        sizes = [self._size(d, scale) for d, scale in zip(dims[2:], self.scales, strict=True)]
        return (*dims[:2], *sizes)

    def _size(self, size: Dim, scale: float) -> Dim:
        if size.is_static:
            # In float32, as Caffe2 multiplies: 0.7 of 10 rows are 7, though 0.7 is a little less.
            size = Dim.of(int(np.float32(int(size)) * np.float32(scale)))
            if size == 0:
                raise self.error(f"scales by {self.scales}, which leaves nothing")
            return size
        if scale == int(scale):
            return size * int(scale)
        raise self.error(f"scales an axis of symbolic size {size} by {scale:g}, not an integer")

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        sizes = self.shape(dims_of(x))[2:]
        for axis, (size, scale) in enumerate(zip(sizes, self.scales, strict=True), 2):
            x = resize(e.b, x, axis, size, self.factor(scale), self.how)
        return x

    def factor(self, scale: float) -> float | None:
        """By which coordinates are divided; None for what the sizes say."""
        return scale


class UpsampleBilinear(ResizeNearest):
    """Y = X with `height_scale` and `width_scale` times as many rows and columns, which are means
    of X's two nearest by distance, the outermost being X's own; with `order` NHWC the channels come
    last."""

    how = Resizing("linear", "align_corners")

    def factor(self, scale: float) -> float | None:
        return None


class PadImage(ImageOperator):
    """Y = X with rows and columns around it, as many as `pads`, `pad`, or `pad_t`, `pad_l`, `pad_b`
    and `pad_r`, tell: of `value`, or with `mode` edge and reflect of X's outermost, or mirrored
    ones; with `order` NHWC the channels come last.

    Refused: negative pads; with `reflect` ones as long as an axis; elements other than float32.
    """

    rank = 4

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        pads = self.numbers("pad", SIDES, 0, 4)
        self.mode = self.args.str("mode", "constant")
        if self.mode not in ("constant", "edge", "reflect") or min(pads) < 0:
            raise self.error(f"pads by {pads} in the mode {self.mode!r}")
        self.pads = list(zip(pads[:2], pads[2:], strict=True))

    def shape(self, dims: Dims) -> Dims:
        return (*dims[:2], *(d + sum(pads) for d, pads in zip(dims[2:], self.pads, strict=True)))

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        return self.padded(e.b, x)

    def padded(self, b: Builder, x: SSAValue) -> SSAValue:
        """X, with channels first, and what is around it."""
        for axis, (before, behind) in enumerate(self.pads, 2):
            x = self._padded(b, x, axis, before, behind)
        return x

    def _padded(self, b: Builder, x: SSAValue, axis: int, before: int, behind: int) -> SSAValue:
        size = dims_of(x)[axis]
        if self.mode == "constant":
            return b.pad(x, axis, before, size + before + behind, self.args.float("value", 0.0))
        reflects = self.mode == "reflect"
        if reflects and size.is_static and int(size) <= max(before, behind):
            raise self.error(f"mirrors {max(before, behind)} of {size} rows or columns")
        if reflects:
            b.require(size - 1 - max(before, behind))
        # The k-th row before the first one, or behind the last one, is that many rows inside.
        inside = [k * reflects for k in range(1, max(before, behind) + 1)]
        front = [b.slice(x, axis, k, 1) for k in reversed(inside[:before])]
        back = [b.slice(x, axis, size - 1 - k, 1) for k in inside[:behind]]
        return b.concat([*front, x, *back], axis)


class PadImageGradient(PadImage):
    """dX = dY without the rows and columns that PadImage put around X; those of the modes edge and
    reflect are added to the rows and columns that they repeat.

    Refused: pads that leave nothing; elements other than float32.
    """

    is_gradient = True

    def shape(self, dims: Dims) -> Dims:
        sizes = [d - sum(pads) for d, pads in zip(dims[2:], self.pads, strict=True)]
        if any(size.is_static and int(size) < 1 for size in sizes):
            raise self.error(f"takes pads of {self.pads} from an axis, which leaves nothing")
        return (*dims[:2], *sizes)

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        image = e.b.fill(0.0, self.shape(dims_of(x)))  # padding is linear: any image has the slope
        [dx] = gradients(e, [(self.padded(e.b, image), x)], [image], [image])
        return dx


class SpaceToBatch(ImageOperator):
    """Y [B² N, C, H', W'] = the images that are every B-th row and column of X [N, C, H, W], B the
    `block_size`, with `pad` rows and columns of zeros around it, above it `pad_t`: those that begin
    with the first row first.

    Refused: rows or columns that are no multiple of `block_size`; `order` NHWC; elements other than
    float32.
    """

    rank = 4

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.block = self.args.int("block_size", 2)
        pad = self.args.int("pad", 0)
        above = self.args.int("pad_t", pad)  # Caffe2 takes no notice of those of other sides
        if self.channels_last:
            raise self.error("argument 'order' is NHWC, which is not supported")
        if min(above, pad) < 0 or self.block < 1:
            raise self.error(f"has blocks of {self.block}, pads of {min(above, pad)}")
        self.pads = [(above, pad), (pad, pad)]

    def shape(self, dims: Dims) -> Dims:
        wide = [d + sum(pads) for d, pads in zip(dims[2:], self.pads, strict=True)]
        return (dims[0] * self.block**2, dims[1], *(self._quotient(d, self.block) for d in wide))

    def _quotient(self, size: Dim, number: int) -> Dim:
        quotient = size.divide(number)
        if quotient is None:
            raise self.error(f"divides {size} by {number}")
        return quotient

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        b, block, dims = e.b, self.block, self.shape(dims_of(x))
        for axis, (before, behind) in enumerate(self.pads, 2):
            x = b.pad(x, axis, before, dims_of(x)[axis] + before + behind, 0.0)
        images, channels, rows, columns = *dims_of(x)[:2], *dims[2:]
        blocks = b.reshape(x, (images, channels, rows, block, columns, block))
        return b.reshape(b.transpose(blocks, (3, 5, 0, 1, 2, 4)), dims)


class BatchToSpace(SpaceToBatch):
    """Y [N, C, H, W] = the opposite of SpaceToBatch: X [B² N, C, H', W'] as every B-th row and
    column, B the `block_size`, without the rows and columns that are pads there.

    Refused: images that are no multiple of B²; `order` NHWC; elements other than float32.
    """

    def shape(self, dims: Dims) -> Dims:
        by_axis = zip(dims[2:], self.pads, strict=True)
        sizes = [d * self.block - sum(pads) for d, pads in by_axis]
        if any(d.is_static and int(d) < 1 for d in sizes):
            raise self.error(f"takes pads of {self.pads} from an axis, which leaves nothing")
        return (self._quotient(dims[0], self.block**2), dims[1], *sizes)

    def result(self, e: Emitter, x: SSAValue) -> SSAValue:
        b, block, dims = e.b, self.block, self.shape(dims_of(x))
        rows, columns = dims_of(x)[2:]
        blocks = b.reshape(x, (block, block, *dims[:2], rows, columns))
        y = b.transpose(blocks, (2, 3, 4, 0, 5, 1))
        y = b.reshape(y, (*dims[:2], rows * block, columns * block))
        for axis, (before, _) in enumerate(self.pads, 2):
            y = b.slice(y, axis, before, dims[axis])
        return y


OPERATORS: dict[str, type[Operator]] = {
    "LRN": LRN,
    "ChannelShuffle": ChannelShuffle,
    "ChannelShuffleGradient": ChannelShuffleGradient,
    "ResizeNearest": ResizeNearest,
    "UpsampleBilinear": UpsampleBilinear,
    "PadImage": PadImage,
    "PadImageGradient": PadImageGradient,
    "SpaceToBatch": SpaceToBatch,
    "BatchToSpace": BatchToSpace,
}
