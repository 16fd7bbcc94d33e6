"""Normalisation of channels, a batch's or each picture's or in groups; and of rows by their root
mean squares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.channels import OfChannels
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import plus, reciprocal, times
from rnncc.nn.axes import by_channel, kept_dims
from rnncc.nn.normalisation import batch_norm, channel_moments, group_norm
from rnncc.nn.reduction import count, mean

Results = tuple[SSAValue, ...]


class ChannelNorm(OfChannels):
    """Y0 = X [N, C, ...] normalised, times X1[c], plus X2[c], and statistics of channels; with
    `order` NHWC the channels of X come last."""

    inputs = (3, 3)
    epsilon: ClassVar[float] = 1e-5

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.variance_added = self.args.float("epsilon", self.epsilon)
        if self.variance_added < 0:
            raise self.error(f"argument 'epsilon' is {self.variance_added:g}")

    def infer(self, s: Shapes) -> None:
        x, *per_channel = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", *self.xs, *self.ys)
        dims = self.dims(s, x)
        if dims is None:
            return
        if len(dims) < 2:
            raise self.error(f"data of shape {s.text(dims)}, expected channels")
        for blob in per_channel:
            s.expect(blob, dims[1:2])
        for blob in self.ys[1:]:
            s.expect(blob, self.statistics(dims))

    def statistics(self, dims: Dims) -> Dims:
        """The shape of those that are outputs."""
        return dims[1:2]

    def build(self, e: Emitter) -> None:
        x, *per_channel = self.xs
        y, *statistics = self.normalised(e, self.operand(e, x), [e[blob] for blob in per_channel])
        self.give(e, self.ys[0], y)
        for blob, value in zip(self.ys[1:], statistics, strict=False):
            e[blob] = value

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> Results:
        """Y and the statistics, of X and the others, as in NCHW."""
        raise NotImplementedError


class SpatialBN(ChannelNorm):
    """Y0 = (X - mean[c]) / sqrt(var[c] + epsilon) X1[c] + X2[c] for each channel of X [N, C, ...];
    with `order` NHWC the channels come last. With `is_test` mean and var are X3 and X4. Else they
    are the batch's, of n elements a channel; Y1 = momentum X3 + (1 - momentum) mean, Y2 =
    momentum X4 + (1 - momentum) var n / (n - 1), Y3 = mean and Y4 = 1 / sqrt(var + epsilon).

    Refused: `num_batches` other than 1; a negative `epsilon`; elements other than float32.
    """

    inputs = (5, 5)
    outputs = (1, 5)

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.trains = not self.args.flag("is_test")
        if self.args.int("num_batches", 1) != 1:
            raise self.error("argument 'num_batches' is not 1, which is not supported")
        if len(self.ys) != (5 if self.trains else 1):
            raise self.error(f"has {len(self.ys)} outputs, expected {5 if self.trains else 1}")

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> Results:
        b, (scale, bias, average, variance) = e.b, per_channel
        if not self.trains:
            return (batch_norm(b, x, average, variance, scale, bias, self.variance_added),)
        own, spread = channel_moments(b, x)
        y = batch_norm(b, x, own, spread, scale, bias, self.variance_added)
        number = count(b, x, [axis for axis in range(len(dims_of(x))) if axis != 1])
        unbiased = b.mul(spread, b.div(number, plus(b, number, -1.0)))
        kept = self.args.float("momentum", 0.9)
        running = [
            b.add(times(b, old, kept), times(b, new, 1 - kept))
            for old, new in ((average, own), (variance, unbiased))
        ]
        return y, *running, own, reciprocal(b, b.sqrt(plus(b, spread, self.variance_added)))


class InstanceNorm(ChannelNorm):
    """Y0 = X [N, C, ...] normalised over each channel of each n, times X1[c], plus X2[c]; with
    `order` NHWC the channels come last. Y1 and Y2 are the means and 1 / sqrt(var + epsilon).

    Refused: a negative `epsilon`; a symbolic number of channels; elements other than float32.
    """

    outputs = (1, 3)

    def statistics(self, dims: Dims) -> Dims:
        return dims[0], self.groups(dims)

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return (self.dims(s, self.xs[0]) or ())[1:2]

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> Results:
        groups, (scale, bias) = int(self.groups(dims_of(x))), per_channel
        y, average, std = group_norm(e.b, x, groups, scale, bias, self.variance_added)
        return y, average, reciprocal(e.b, std)

    def groups(self, dims: Dims) -> Dim:
        """How many groups of channels there are."""
        return dims[1]


class GroupNorm(InstanceNorm):
    """Y0 = X [N, C, ...] normalised over each of `group` groups of channels of each n, times X1[c],
    plus X2[c]; with `order` NHWC the channels come last. Y1 and Y2 are the means and 1 / sqrt(var +
    epsilon) of the groups."""

    def infer(self, s: Shapes) -> None:
        dims, number = self.dims(s, self.xs[0]), self.args.int("group", 32)
        if dims is not None and len(dims) > 1 and dims[1].is_static:
            channels = int(dims[1])
            if number < 1 or channels % number:
                raise self.error(f"has {channels} channels in {number} groups")
        super().infer(s)

    def groups(self, dims: Dims) -> Dim:
        return Dim.of(self.args.int("group", 32))


class AffineChannel(ChannelNorm):
    """Y = X0 times X1[c], plus X2[c], for each channel; with `order` NHWC the channels come last.

    Refused: elements other than float32.
    """

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> Results:
        scale, bias = (by_channel(e.b, vector, x) for vector in per_channel)
        return (e.b.add(e.b.mul(x, scale), bias),)


class RMSNorm(Operator):
    """Y0 = X / sqrt(mean of X² + eps) X1 + X2 over rows from `axis` on; Y1 = 1 / that root.

    Refused: rows of symbolic size; elements other than float32.
    """

    inputs = (3, 3)
    outputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, *affine = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", *self.xs, *self.ys)
        dims = s.dims(x)
        if dims is not None:
            axis = self.axis("axis", 1, len(dims))
            s.expect(self.ys[1], dims[:axis])
            for blob in affine:
                s.expect(blob, dims[axis:])

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        dims = s.known(self.xs[0])
        return dims[self.axis("axis", 1, len(dims)) :]

    def build(self, e: Emitter) -> None:
        b, (x, scale, bias) = e.b, (e[blob] for blob in self.xs)
        axes = range(self.axis("axis", 1, len(dims_of(x))), len(dims_of(x)))
        root = b.sqrt(plus(b, mean(b, b.mul(x, x), axes), self.args.float("eps", 0.0)))
        e[self.ys[1]] = factor = reciprocal(b, root)
        y = b.mul(x, b.reshape(factor, kept_dims(x, axes)))
        e[self.ys[0]] = b.add(b.mul(y, scale), bias)


OPERATORS: dict[str, type[Operator]] = {
    "SpatialBN": SpatialBN,
    "InstanceNorm": InstanceNorm,
    "GroupNorm": GroupNorm,
    "AffineChannel": AffineChannel,
    "RMSNorm": RMSNorm,
}
