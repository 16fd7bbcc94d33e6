"""Operators that know the lengths of sequences."""

from __future__ import annotations

from math import inf

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims, product
from rnncc.nn.arithmetic import absolute

_DIAGONALS = {"upper": "le", "lower": "ge", "upperdiag": "lt", "lowerdiag": "gt"}
"""How j compares to i where elements stay, by the mode."""


class SequenceMask(Operator):
    """Y[i, j] = X[i, j] where the `mode` says so, else fill_val; j runs along the axes from `axis`
    on, and i along those before, or with `batch` along those between. sequence: j < X1[i]; window:
    j at most `radius` from X1[i]; upper: j <= i; lower: j >= i; upperdiag: j < i; lowerdiag: j > i.
    With `repeat_from_axis` a sequence's j runs along the axes before that one.

    Refused: lengths other than int32; elements other than float32.
    """

    inputs = (1, 2)

    def setup(self, maker: Resolver) -> None:
        self.mode = self.args.str("mode")
        reads = self.mode in ("sequence", "window")
        if not reads and self.mode not in _DIAGONALS:
            modes = ", ".join(("sequence", "window", *_DIAGONALS))
            raise self.error(f"argument 'mode' is {self.mode!r}, expected one of {modes}")
        if len(self.xs) != 1 + reads:
            raise self.error(f"has {len(self.xs)} inputs, expected {1 + reads} in this mode")
        self.repeats = "repeat_from_axis" in self.args
        if self.repeats and (self.mode != "sequence" or "batch" in self.args):
            raise self.error("argument 'repeat_from_axis' is for sequences without 'batch'")
        # Where it is its own gradient, nothing comes back from what was filled in.
        self.fill = 0.0 if self.args.flag("grad") else self.args.float("fill_val", -inf)

    def infer(self, s: Shapes) -> None:
        x, lengths = self.xs[0], self.xs[1:]
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", x, self.ys[0])
        dims = s.dims(x)
        if dims is not None:
            for blob in lengths:
                s.expect(blob, self._matrices(dims)[1:2], "i32")

    def _matrices(self, dims: Dims) -> Dims:
        """The sizes of the batch, of i, of j, and of what lies behind j."""
        axis = self.axis("axis", 1, len(dims))
        first = self.axis("batch", 0, len(dims)) + 1 if "batch" in self.args else 0
        last = self.axis("repeat_from_axis", 0, len(dims)) if self.repeats else len(dims)
        if not first <= axis <= last:
            raise self.error(f"its axes {first}, {axis} and {last} are not in order")
        return (
            product(dims[:first]),
            product(dims[first:axis]),
            product(dims[axis:last]),
            product(dims[last:]),
        )

    def build(self, e: Emitter) -> None:
        b, dims = e.b, e.dims(self.xs[0])
        whole = self._matrices(dims)
        j, i = b.iota((1, 1, whole[2], 1), 2), b.iota((1, whole[1], 1, 1), 1)
        if len(self.xs) > 1:
            i = b.reshape(e[self.xs[1]], (1, whole[1], 1, 1))
        if self.mode == "window":  # j and i may lie as far apart as int32 reaches twice
            distance = absolute(b, b.sub(b.cast(j, "i64"), b.cast(i, "i64")))
            inside = b.compare("le", distance, b.fill(self.args.int("radius", 10), (), "i64"))
        else:
            inside = b.compare(_DIAGONALS.get(self.mode, "lt"), j, i)
        rows = b.reshape(e[self.xs[0]], whole)
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
