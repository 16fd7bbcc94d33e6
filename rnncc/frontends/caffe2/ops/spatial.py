"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.channels import PLANE, SIDES, OfChannels
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import MAX_GROUPS, convolution
from rnncc.nn.pooling import average_pool, lp_pool, max_pool
from rnncc.nn.reduction import mean, picked_largest, root_of_powers
from rnncc.nn.transposed_convolution import has_too_many_groups, transposed_convolution
from rnncc.nn.windows import Window

GIVEN, VALID, SAME, CAFFE = range(4)
"""What `legacy_pad` says of the pads: they are told, none, as many as leave a window for each
stride, or those of Caffe, whose last window may reach beyond them."""


class Spatial(OfChannels):
    """An operator over windows of X [N, C, size of each axis...], or of all that with the channels
    last, where `order` is NHWC."""

    paddings: ClassVar[Sequence[int]] = (GIVEN, VALID, SAME)
    """Values of `legacy_pad`."""

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.padding = self._padding()
        whole = self.args.flag("global_pooling")
        taps = [] if whole else self.numbers("kernel", PLANE, None, 2)
        rank = 2 if whole else len(taps)
        strides, dilations = (self.numbers(n, PLANE, 1, rank) for n in ("stride", "dilation"))
        edges = self.numbers("pad", SIDES, 0, 2 * rank)
        if whole:
            if any(edges) or {*strides, *dilations} != {1}:
                raise self.error("has strides, dilations or pads beside 'global_pooling'")
            strides, dilations, edges, rank = [], [], [], 0
        if min([*taps, *strides, *dilations], default=1) < 1 or min(edges, default=0) < 0:
            raise self.error(f"has kernels {taps}, strides {strides} and pads {edges}")
        has_pads = any(f"pad{end}" in self.args for end in ("", "s", "_t", "_l", "_b", "_r"))
        if self.padding in (VALID, SAME) and has_pads:
            raise self.error(f"has pads beside the argument 'legacy_pad' = {self.padding}")
        pads = zip(edges[:rank], edges[rank:], strict=True)
        numbers = zip(taps, strides, dilations, pads, strict=True)
        self.windows = [Window(*numbers_of_axis) for numbers_of_axis in numbers]
        # Caffe2 would pad by less than nothing, and Caffe's last window begin behind all elements.
        apart = any(window.stride > window.taps for window in self.windows)
        if self.padding in (SAME, CAFFE) and apart:
            raise self.error(f"has strides {strides} longer than kernels, beside 'legacy_pad'")

    def _padding(self) -> int:
        """The rule that pads follow, of those that this operator knows."""
        rule = self.args.int("legacy_pad", GIVEN)
        if rule not in self.paddings:
            raise self.error(f"argument 'legacy_pad' is {rule}, which is not supported")
        return rule

    def sizes(self, s: Shapes, dims: Dims) -> list[Dim]:
        """The result's sizes along the axes of space; variables while those of X are open."""
        if len(dims) != len(self.windows) + 2:
            raise self.error(f"data of shape {s.text(dims)}, expected {len(self.windows) + 2} axes")
        known = self.dims(s, self.ys[0]) or [s.fresh() for _ in dims]
        by_axis = enumerate(zip(self.windows_on(dims), dims[2:], strict=True))
        return [known[k + 2] if s.is_open(d) else self._size(w, d) for k, (w, d) in by_axis]

    def windows_on(self, dims: Dims) -> list[Window]:
        """Those along the axes of space of X."""
        if self.padding != SAME:
            return self.windows
        return [w.with_same_pads(d) for w, d in zip(self.windows, dims[2:], strict=True)]

    def _size(self, window: Window, size: Dim) -> Dim:
        whole = size + sum(window.pads)
        if whole.is_static and int(whole) < window.reach:
            raise self.error(f"has windows over {window.reach} elements on an axis of {whole}")
        return window.count(size)


class Conv(Spatial):
    """Y = windows of X times W [M, C / group, kernels...] + b [M], in groups of channels; with
    `order` NHWC the channels of X, W and Y come last.

    Refused: Caffe's `legacy_pad`, and others with strides longer than the kernels; weights of
    symbolic sizes; elements other than float32.
    """

    inputs = (2, 3)

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.group = self.args.int("group", 1)
        if self.group < 1:
            raise self.error(f"argument 'group' is {self.group}")

    def infer(self, s: Shapes) -> None:
        x, w, *bias = self.xs
        if s.dims(w) is None:
            taps = [window.taps for window in self.windows]
            self.expect(s, w, (s.fresh(), s.fresh(), *taps))
        weights = self._weights(s)
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        for blob in bias:
            s.expect(blob, (self._outputs(weights),))
        dims = self.dims(s, x)
        if dims is None:
            s.expect(x, [s.fresh() for _ in range(len(self.windows) + 2)])
            return
        sizes = self.sizes(s, dims)
        if not s.equal(dims[1], self._channels(weights)):
            raise self.error(f"data of shape {s.text(dims)} for weights {s.text(weights)}")
        self.expect(s, self.ys[0], (dims[0], self._outputs(weights), *sizes))

    def _weights(self, s: Shapes) -> Dims:
        dims, taps = self.dims(s, self.xs[1]), [window.taps for window in self.windows]
        assert dims is not None, "stated before"
        if len(dims) != len(taps) + 2 or not all(map(s.equal, dims[2:], map(Dim.of, taps))):
            raise self.error(f"weights of shape {s.text(dims)} for the kernels {taps}")
        first = dims[0]
        if first.is_static and int(first) % self.group:
            raise self.error(f"weights of shape {s.text(dims)} in {self.group} groups")
        return dims

    def _channels(self, weights: Dims) -> Dim:
        return weights[1] * self.group

    def _outputs(self, weights: Dims) -> Dim:
        return weights[0]

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return s.known(self.xs[1])

    def build(self, e: Emitter) -> None:
        x, w = (self.operand(e, blob) for blob in self.xs[:2])
        bias = e[self.xs[2]] if len(self.xs) > 2 else None
        windows = self.windows_on(dims_of(x))
        self.give(e, self.ys[0], convolution(e.b, x, w, bias, windows, self.group))


class ConvRelu(Conv):
    """Y = what Conv gives, and 0 where that is below 0."""

    def give(self, e: Emitter, blob: Blob, y: SSAValue) -> None:
        super().give(e, blob, e.b.relu(y))


class ConvTranspose(Conv):
    """Y = the opposite of Conv: X times windows W [C, M / group, kernels...], laid over each other,
    + b [M].

    Refused: `legacy_pad`; more than 512 groups of several channels; weights of symbolic sizes;
    elements other than float32.
    """

    paddings = (GIVEN,)

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        rank = len(self.windows)
        self.extra = self.numbers("adj", PLANE, 0, rank)
        if any(window.dilation != 1 for window in self.windows) or min(self.extra, default=0) < 0:
            raise self.error(f"has dilations, or the argument 'adj' {self.extra}")
        if any(adj >= window.stride for adj, window in zip(self.extra, self.windows, strict=True)):
            strides = [window.stride for window in self.windows]
            what = f"argument 'adj' {self.extra} is not less than the strides {strides}"
            raise self.error(f"{what}: Caffe2 leaves elements unset")

    def sizes(self, s: Shapes, dims: Dims) -> list[Dim]:
        if len(dims) != len(self.windows) + 2:
            raise self.error(f"data of shape {s.text(dims)}, expected {len(self.windows) + 2} axes")
        by_axis = zip(self.windows, dims[2:], self.extra, strict=True)
        return [(d - 1) * w.stride + w.reach + adj - sum(w.pads) for w, d, adj in by_axis]

    def _weights(self, s: Shapes) -> Dims:
        weights = super()._weights(s)
        if has_too_many_groups(weights, self.group):
            raise self.error(f"has {self.group} groups, at most {MAX_GROUPS} are supported")
        return weights

    def _channels(self, weights: Dims) -> Dim:
        return weights[0]

    def _outputs(self, weights: Dims) -> Dim:
        return weights[1] * self.group

    def build(self, e: Emitter) -> None:
        x, w = (self.operand(e, blob) for blob in self.xs[:2])
        bias = e[self.xs[2]] if len(self.xs) > 2 else None
        before = [window.pads[0] for window in self.windows]
        sizes = zip(self.sizes(e.shapes, dims_of(x)), before, strict=True)
        y = transposed_convolution(e.b, x, w, bias, self.windows, list(sizes), self.group)
        self.give(e, self.ys[0], y)


class MaxPool(Spatial):
    """Y = the largest element of each window of X, or with `global_pooling` of each channel; with
    `order` NHWC the channels come last.

    Refused: `legacy_pad` with strides longer than the kernels; elements other than float32.
    """

    paddings = (GIVEN, VALID, SAME, CAFFE)

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        if any(window.dilation != 1 for window in self.windows):
            raise self.error("has dilations, which pooling does not")
        if any(int(p) >= window.taps for window in self.windows for p in window.pads):
            raise self.error("has pads as long as its windows")
        if self.padding == CAFFE:
            # Caffe pads behind as much as before, whatever is told, and divides rounding up.
            pads = [window.pads[0] for window in self.windows]
            self.windows = [
                replace(window, pads=(pad, pad), rounds_up=True)
                for window, pad in zip(self.windows, pads, strict=True)
            ]

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = self.dims(s, self.xs[0])
        if dims is None:
            return
        if self.args.flag("global_pooling"):
            self.expect(s, self.ys[0], (*dims[:2], *[1] * (len(dims) - 2)))
        else:
            self.expect(s, self.ys[0], (*dims[:2], *self.sizes(s, dims)))

    def build(self, e: Emitter) -> None:
        x = self.operand(e, self.xs[0])
        dims = dims_of(x)
        if self.args.flag("global_pooling"):
            y = self.whole(e.b, x, range(2, len(dims)))
            y = e.b.reshape(y, (*dims[:2], *[1] * (len(dims) - 2)))
        else:
            y = self.pooled(e.b, x)
        self.give(e, self.ys[0], y)

    def whole(self, b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        """Of each channel."""
        return picked_largest(b, x, axes, of_each=True)

    def pooled(self, b: Builder, x: SSAValue) -> SSAValue:
        """Of each window."""
        return max_pool(b, x, self.windows_on(dims_of(x)), of_each=True)


class AveragePool(MaxPool):
    """Y = the mean of each window of X without the pads, which `count_include_pad` counts too, or
    with `global_pooling` of each channel."""

    def whole(self, b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        return mean(b, x, axes)

    def pooled(self, b: Builder, x: SSAValue) -> SSAValue:
        windows = self.windows_on(dims_of(x))
        return average_pool(b, x, windows, self.args.flag("count_include_pad"))


class LpPool(MaxPool):
    """Y = (sum of |X|^p)^(1/p) of each window of X, or with `global_pooling` of each channel; with
    `order` NHWC the channels come last."""

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.order = self.args.float("p", 2.0)
        if not self.order > 0:
            raise self.error(f"argument 'p' is {self.order:g}, expected a positive number")

    def whole(self, b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        return root_of_powers(b, x, axes, self.order)

    def pooled(self, b: Builder, x: SSAValue) -> SSAValue:
        return lp_pool(b, x, self.windows_on(dims_of(x)), self.order)


_OF_RANKS: dict[str, type[Operator]] = {
    "Conv": Conv,
    "MaxPool": MaxPool,
    "AveragePool": AveragePool,
}
OPERATORS: dict[str, type[Operator]] = {
    **_OF_RANKS,
    **{f"{kind}{rank}D": of for kind, of in _OF_RANKS.items() for rank in (1, 2, 3)},
    "ConvRelu": ConvRelu,
    "ConvTranspose": ConvTranspose,
    "LpPool": LpPool,
}
