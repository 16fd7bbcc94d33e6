"""Operators that know the lengths of sequences."""

from __future__ import annotations

from math import inf

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, product


class SequenceMask(Operator):
    """Y[i, j] = X[i, j] for j < lengths[i], else fill_val; i runs over the axes before `axis`.

    Refused: any `mode` but sequence; `batch`; `repeat_from_axis`; lengths other than int32;
    elements other than float32.
    """

    inputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        mode = self.args.str("mode")
        if mode != "sequence":
            raise self.error(f"argument 'mode' is {mode!r}, which is not supported", "sequence is")
        for name in ("batch", "repeat_from_axis"):
            if name in self.args:
                raise self.error(f"argument {name!r} is not supported")
        # Where it is its own gradient, nothing comes back from what was filled in.
        self.fill = 0.0 if self.args.flag("grad") else self.args.float("fill_val", -inf)

    def infer(self, s: Shapes) -> None:
        x, lengths = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", x, self.ys[0])
        dims = s.dims(x)
        if dims is not None:
            s.expect(lengths, (product(dims[: self.axis("axis", 1, len(dims))]),), "i32")

    def build(self, e: Emitter) -> None:
        b, dims = e.b, e.dims(self.xs[0])
        axis = self.axis("axis", 1, len(dims))
        left, right = product(dims[:axis]), product(dims[axis:])
        rows = b.reshape(e[self.xs[0]], (left, right))
        position = b.iota((1, right), 1)
        inside = b.compare("lt", position, b.reshape(e[self.xs[1]], (left, 1)))
        e[self.ys[0]] = b.reshape(b.select(inside, rows, b.fill(self.fill, ())), dims)


class ReversePackedSegs(Operator):
    """Y = X with the first lengths[n] rows of each column n reversed, the rest as they are.

    Refused: lengths other than int32; data with one axis.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, lengths = self.xs
        s.same_shape(x, self.ys[0])
        s.same_dtype(x, self.ys[0])
        counts = s.dims(lengths)
        if counts is None:
            s.expect(lengths, (s.fresh(),), "i32")
        elif len(counts) != 1:
            raise self.error(f"lengths of shape {s.text(counts)}, expected one axis")
        dims = s.dims(x)
        if dims is not None:
            if len(dims) < 2:
                raise self.error(f"data of shape {s.text(dims)}, expected T x N x ...")
            s.expect(lengths, (dims[1],), "i32")

    def extent(self, s: Shapes) -> tuple[Dim | None, Dim | None]:
        dims = s.known(self.xs[0])
        return dims[0], dims[1]

    def assume(self, s: Shapes, level: int) -> None:
        if level == 1 and s.dims(self.xs[0]) is None:
            s.expect(self.xs[0], (s.fresh(), s.known(self.xs[1])[0], s.fresh()))

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.reverse_segments(e[self.xs[0]], e[self.xs[1]])


class VariableLengthSequencePadding(ReversePackedSegs):
    """Y[t, n] = X[t, n] for t < lengths[n], else 0."""

    def build(self, e: Emitter) -> None:
        b, dims = e.b, e.dims(self.xs[0])
        wide = [1] * (len(dims) - 2)
        step = b.iota((dims[0], 1, *wide), 0)
        inside = b.compare("lt", step, b.reshape(e[self.xs[1]], (1, dims[1], *wide)))
        zero = b.fill(0.0, (), self.ys[0].dtype or "f32")
        e[self.ys[0]] = b.select(inside, e[self.xs[0]], zero)


OPERATORS: dict[str, type[Operator]] = {
    "SequenceMask": SequenceMask,
    "ReversePackedSegs": ReversePackedSegs,
    "VariableLengthSequencePadding": VariableLengthSequencePadding,
}

REFUSED = {
    "PackRNNSequence": "its result's size depends on the lengths' values, not on shapes alone",
    "UnpackRNNSequence": "its result's size depends on the lengths' values, not on shapes alone",
}
