"""Convolutions, pooling, and the largest elements along an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Dims, Shapes
from rnncc.ir.dims import Dim
from rnncc.nn.convolution import Window, convolution
from rnncc.nn.indexing import MAX_RANKED, extremum_place, top_k
from rnncc.nn.pooling import average_pool, max_pool
from rnncc.nn.reduction import largest, mean
from rnncc.nn.transposed_convolution import transposed_convolution

MAX_GROUPS = 256
"""Each is a product of its own, unless each has one channel."""


class Spatial(Operator):
    """An operator over windows of X [N, C, size of each axis...]."""

    def setup(self, maker: Resolver) -> None:
        for name, plain in (("order", "NCHW"), ("legacy_pad", 0)):
            if name in self.args:
                read = self.args.str if isinstance(plain, str) else self.args.int
                if read(name, plain) != plain:  # type: ignore[arg-type]  # of the type of `plain`
                    what = f"argument {name!r} is not {plain}, which is not supported"
                    raise self.error(what)
        whole = self.args.flag("global_pooling")
        taps = [] if whole else self._each("kernel", ("h", "w"), None)
        rank = len(taps)
        strides = self._each("stride", ("h", "w"), 1, rank)
        dilations = self._each("dilation", ("h", "w"), 1, rank)
        edges = self._each("pad", ("t", "l", "b", "r"), 0, 2 * rank)
        if min([*taps, *strides, *dilations], default=1) < 1 or min(edges, default=0) < 0:
            raise self.error(f"has kernels {taps}, strides {strides} and pads {edges}")
        pads = zip(edges[:rank], edges[rank:], strict=True)
        numbers = zip(taps, strides, dilations, pads, strict=True)
        self.windows = [Window(*numbers_of_axis) for numbers_of_axis in numbers]

    def _each(
        self, name: str, ends: Sequence[str], default: int | None, count: int = 2
    ) -> list[int]:
        """An argument's number for each axis: `names`, `name` for all, or `name_h` and `name_w`."""
        if f"{name}s" in self.args:
            numbers = [int(n) for n in self.args.ints(f"{name}s")]
            if default is not None and len(numbers) != count:
                raise self.error(f"argument '{name}s' has {len(numbers)} numbers, expected {count}")
            return numbers
        if default is None and name not in self.args and f"{name}_h" not in self.args:
            raise self.error(f"lacks the argument {name!r}")
        start = self.args.int(name, default or 0)
        if not any(f"{name}_{end}" in self.args for end in ends):
            return [start] * count
        return [self.args.int(f"{name}_{end}", start) for end in ends]

    def sizes(self, s: Shapes, dims: Dims) -> list[Dim]:
        """The result's sizes along the axes of space; variables while those of X are open."""
        if len(dims) != len(self.windows) + 2:
            raise self.error(f"data of shape {s.text(dims)}, expected {len(self.windows) + 2} axes")
        known = s.dims(self.ys[0]) or [s.fresh() for _ in dims]
        by_axis = enumerate(zip(self.windows, dims[2:], strict=True))
        return [known[k + 2] if s.is_open(d) else self._size(w, d) for k, (w, d) in by_axis]

    def _size(self, window: Window, size: Dim) -> Dim:
        whole = size + sum(window.pads)
        if whole.is_static and int(whole) < window.reach:
            raise self.error(f"has windows over {window.reach} elements on an axis of {whole}")
        return window.count(size)


class Conv(Spatial):
    """Y = windows of X times W [M, C / group, kernels...] + b [M], in groups of channels.

    Refused: `order` other than NCHW; `legacy_pad`; more than 256 groups, unless each has one
    channel; weights of symbolic sizes; elements other than float32.
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
            s.expect(w, (s.fresh(), s.fresh(), *(window.taps for window in self.windows)))
        weights = self._weights(s)
        for blob in (*self.xs, self.ys[0]):
            s.expect_dtype(blob, "f32")
        for blob in bias:
            s.expect(blob, (self._outputs(weights),))
        dims = s.dims(x)
        if dims is None:
            s.expect(x, [s.fresh() for _ in range(len(self.windows) + 2)])
            return
        sizes = self.sizes(s, dims)
        if not s.equal(dims[1], self._channels(weights)):
            raise self.error(f"data of shape {s.text(dims)} for weights {s.text(weights)}")
        s.expect(self.ys[0], (dims[0], self._outputs(weights), *sizes))

    def _weights(self, s: Shapes) -> Dims:
        dims, taps = s.known(self.xs[1]), [window.taps for window in self.windows]
        if len(dims) != len(taps) + 2 or not all(map(s.equal, dims[2:], map(Dim.of, taps))):
            raise self.error(f"weights of shape {s.text(dims)} for the kernels {taps}")
        first = dims[0]
        if first.is_static and int(first) % self.group:
            raise self.error(f"weights of shape {s.text(dims)} in {self.group} groups")
        if self.group > MAX_GROUPS and not (first == self.group and dims[1] == 1):
            raise self.error(f"has {self.group} groups, at most {MAX_GROUPS} are supported")
        return dims

    def _channels(self, weights: Dims) -> Dim:
        return weights[1] * self.group

    def _outputs(self, weights: Dims) -> Dim:
        return weights[0]

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return s.known(self.xs[1])

    def build(self, e: Emitter) -> None:
        x, w, *bias = (e[blob] for blob in self.xs)
        own = bias[0] if bias else None
        e[self.ys[0]] = convolution(e.b, x, w, own, self.windows, self.group)


class ConvTranspose(Conv):
    """Y = the opposite of Conv: X times windows W [C, M / group, kernels...], laid over each other,
    + b [M]."""

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        rank = len(self.windows)
        self.extra = self._each("adj", ("h", "w"), 0, rank)
        if any(window.dilation != 1 for window in self.windows) or min(self.extra, default=0) < 0:
            raise self.error(f"has dilations, or the argument 'adj' {self.extra}")

    def sizes(self, s: Shapes, dims: Dims) -> list[Dim]:
        if len(dims) != len(self.windows) + 2:
            raise self.error(f"data of shape {s.text(dims)}, expected {len(self.windows) + 2} axes")
        by_axis = zip(self.windows, dims[2:], self.extra, strict=True)
        return [(d - 1) * w.stride + w.reach + adj - sum(w.pads) for w, d, adj in by_axis]

    def _channels(self, weights: Dims) -> Dim:
        return weights[0]

    def _outputs(self, weights: Dims) -> Dim:
        return weights[1] * self.group

    def build(self, e: Emitter) -> None:
        x, w, *bias = (e[blob] for blob in self.xs)
        sizes = [
            (size, window.pads[0])
            for size, window in zip(e.dims(self.ys[0])[2:], self.windows, strict=True)
        ]
        own = bias[0] if bias else None
        e[self.ys[0]] = transposed_convolution(e.b, x, w, own, self.windows, sizes, self.group)


class MaxPool(Spatial):
    """Y = the largest element of each window of X, or with `global_pooling` of each channel.

    Refused: `order` other than NCHW; `legacy_pad`; elements other than float32.
    """

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        if any(window.dilation != 1 for window in self.windows):
            raise self.error("has dilations, which pooling does not")

    def infer(self, s: Shapes) -> None:
        for blob in (self.xs[0], self.ys[0]):
            s.expect_dtype(blob, "f32")
        dims = s.dims(self.xs[0])
        if dims is None:
            return
        if self.args.flag("global_pooling"):
            s.expect(self.ys[0], (*dims[:2], *[1] * (len(dims) - 2)))
        else:
            s.expect(self.ys[0], (*dims[:2], *self.sizes(s, dims)))

    def build(self, e: Emitter) -> None:
        x, axes = e[self.xs[0]], range(2, len(e.dims(self.xs[0])))
        whole = self.args.flag("global_pooling")
        y = largest(e.b, x, axes) if whole else max_pool(e.b, x, self.windows)
        e[self.ys[0]] = e.b.reshape(y, e.dims(self.ys[0]))


class AveragePool(MaxPool):
    """Y = the mean of each window of X without the pads, which `count_include_pad` counts too, or
    with `global_pooling` of each channel."""

    def build(self, e: Emitter) -> None:
        x, axes = e[self.xs[0]], range(2, len(e.dims(self.xs[0])))
        if self.args.flag("global_pooling"):
            y = mean(e.b, x, axes)
        else:
            counts_pads = self.args.flag("count_include_pad")
            y = average_pool(e.b, x, self.windows, counts_pads)
        e[self.ys[0]] = e.b.reshape(y, e.dims(self.ys[0]))


class ArgMax(Operator):
    """Y = where along `axis` the largest element stands, the first of equals; `keepdims` leaves the
    axis.

    Refused: nothing.
    """

    kind: ClassVar[str] = "max"

    def infer(self, s: Shapes) -> None:
        s.expect_dtype(self.ys[0], "i64")
        dims = s.dims(self.xs[0])
        if dims is not None:
            axis = self.axis("axis", -1, len(dims))
            kept = [1] if self.args.flag("keepdims", default=True) else []
            s.expect(self.ys[0], (*dims[:axis], *kept, *dims[axis + 1 :]))

    def build(self, e: Emitter) -> None:
        axis = self.axis("axis", -1, len(e.dims(self.xs[0])))
        place = extremum_place(e.b, e[self.xs[0]], self.kind, axis)
        e[self.ys[0]] = e.b.reshape(place, e.dims(self.ys[0]))


class ArgMin(ArgMax):
    """Y = where along `axis` the smallest element stands, the first of equals; `keepdims` leaves
    the axis."""

    kind = "min"


class TopK(Operator):
    """Y0, Y1 = the `k` largest elements along `axis`, largest first, and their places.

    Refused: a third output; an axis of symbolic size; more than 4096 elements along it.
    """

    outputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        s.expect_dtype(self.ys[1], "i64")
        s.same_shape(*self.ys)
        dims = s.dims(self.xs[0])
        if dims is None:
            return
        axis, count = self.axis("axis", -1, len(dims)), self.args.int("k", 0)
        size = dims[axis]
        if size.is_static and (not 1 <= count <= int(size) or int(size) > MAX_RANKED):
            raise self.error(
                f"takes {count} of {size} elements, at most {MAX_RANKED} are supported"
            )
        s.expect(self.ys[0], (*dims[:axis], count, *dims[axis + 1 :]))

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        dims = s.known(self.xs[0])
        return [dims[self.axis("axis", -1, len(dims))]]

    def build(self, e: Emitter) -> None:
        x, axis = e[self.xs[0]], self.axis("axis", -1, len(e.dims(self.xs[0])))
        e[self.ys[0]], e[self.ys[1]] = top_k(e.b, x, self.args.int("k", 0), axis, largest=True)


OPERATORS: dict[str, type[Operator]] = {
    "Conv": Conv,
    "ConvTranspose": ConvTranspose,
    "MaxPool": MaxPool,
    "AveragePool": AveragePool,
    "ArgMax": ArgMax,
    "ArgMin": ArgMin,
    "TopK": TopK,
}
