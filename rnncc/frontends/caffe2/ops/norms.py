"""Normalisation of channels: of a batch's, of each picture's, in groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Dims, Shapes
from rnncc.ir.dims import Dim
from rnncc.nn.convolution import channels_first, channels_last
from rnncc.nn.normalisation import batch_norm, group_norm


class ChannelNorm(Operator):
    """Y = X [N, C, ...] normalised, times X1[c], plus X2[c]; with `order` NHWC the channels of X
    come last."""

    inputs = (3, 3)
    epsilon: ClassVar[float] = 1e-5

    def setup(self, maker: Resolver) -> None:
        self.last = self.has_channels_last()
        self.variance_added = self.args.float("epsilon", self.epsilon)
        if self.variance_added < 0:
            raise self.error(f"argument 'epsilon' is {self.variance_added:g}")

    def infer(self, s: Shapes) -> None:
        x, *per_channel = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        dims = s.dims(x)
        if dims is None:
            return
        if len(dims) < 2:
            raise self.error(f"data of shape {s.text(dims)}, expected channels")
        for blob in per_channel:
            s.expect(blob, (self._channels(dims),))

    def _channels(self, dims: Dims) -> Dim:
        return dims[-1 if self.last else 1]

    def build(self, e: Emitter) -> None:
        x, *per_channel = (e[blob] for blob in self.xs)
        x = channels_first(e.b, x) if self.last else x
        y = self.normalised(e, x, per_channel)
        e[self.ys[0]] = channels_last(e.b, y) if self.last else y

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> SSAValue:
        """Y, of X and the others, all as in NCHW."""
        raise NotImplementedError


class SpatialBN(ChannelNorm):
    """Y = (X - X3[c]) / sqrt(X4[c] + epsilon) X1[c] + X2[c], of a mean and a variance for each
    channel of X [N, C, ...]; with `order` NHWC the channels come last.

    Refused: `is_test` other than 1; a negative `epsilon`; elements other than float32.
    """

    inputs = (5, 5)

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        if not self.args.flag("is_test"):
            raise self.error("argument 'is_test' is not 1: statistics of a batch are not supported")

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> SSAValue:
        scale, bias, average, variance = per_channel
        return batch_norm(e.b, x, average, variance, scale, bias, self.variance_added)


class InstanceNorm(ChannelNorm):
    """Y = X [N, C, ...] normalised over each channel of each n, times X1[c], plus X2[c]; with
    `order` NHWC the channels come last.

    Refused: more than one output; a negative `epsilon`; a symbolic number of channels; elements
    other than float32.
    """

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return [self._channels(s.known(self.xs[0]))]

    def normalised(self, e: Emitter, x: SSAValue, per_channel: list[SSAValue]) -> SSAValue:
        groups = self.groups(e)
        scale, bias = per_channel
        return group_norm(e.b, x, groups, scale, bias, self.variance_added)[0]

    def groups(self, e: Emitter) -> int:
        """How many groups of channels there are."""
        return int(self._channels(e.dims(self.xs[0])))


class GroupNorm(InstanceNorm):
    """Y = X [N, C, ...] normalised over each of `group` groups of channels of each n, times X1[c],
    plus X2[c]; with `order` NHWC the channels come last."""

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        dims, count = s.dims(self.xs[0]), self.args.int("group", 32)
        if dims is not None and self._channels(dims).is_static:
            channels = int(self._channels(dims))
            if count < 1 or channels % count:
                raise self.error(f"has {channels} channels in {count} groups")

    def groups(self, e: Emitter) -> int:
        return self.args.int("group", 32)


OPERATORS: dict[str, type[Operator]] = {
    "SpatialBN": SpatialBN,
    "InstanceNorm": InstanceNorm,
    "GroupNorm": GroupNorm,
}
