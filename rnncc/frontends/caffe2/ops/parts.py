"""Operators that cut and join: Split, Concat, Slice."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims


class Split(Operator):
    """Y0, Y1, ... = X cut along an axis: in equal parts, or of sizes given; with `add_axis` in
    parts of one row each, without that axis.

    Refused: sizes in a blob whose content is not known at compile time; a negative size.
    """

    inputs = (1, 2)
    outputs = (1, ANY)

    def setup(self, maker: Resolver) -> None:
        self.parts = [int(size) for size in self.args.ints("split")]
        if self.parts and len(self.parts) != len(self.ys):
            raise self.error(
                f"argument 'split' has {len(self.parts)} sizes, {len(self.ys)} outputs"
            )
        if min(self.parts, default=0) < 0:
            raise self.error(f"argument 'split' has a negative size: {self.parts}")
        self.drops = self.args.flag("add_axis") and "axis" in self.args  # as of Concat

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], *self.ys)
        if self.drops:
            self._infer_rows(s)
            return
        known = next((d for b in (self.xs[0], *self.ys) if (d := s.dims(b)) is not None), None)
        if known is None:
            return
        axis = _ordered_axis(self, len(known))
        sizes = self._sizes(s, axis)
        for y, size in zip(self.ys, sizes, strict=True):
            s.expect(y, (*known[:axis], size, *known[axis + 1 :]))
        s.expect(self.xs[0], (*known[:axis], sum(sizes, Dim.of(0)), *known[axis + 1 :]))

    def assume(self, s: Shapes, level: int) -> None:
        if not self.parts and len(self.xs) == 2:
            self.require_content(s, level, self.xs[1])

    def _infer_rows(self, s: Shapes) -> None:
        known, count = s.dims(self.xs[0]), Dim.of(len(self.ys))
        if (self.parts or len(self.xs) == 2) and not all(
            s.equal(size, Dim.of(1)) for size in self._sizes(s, 0)
        ):
            raise self.error("has 'add_axis', but other parts than one row each")
        if known is None:
            row = next((d for y in self.ys if (d := s.dims(y)) is not None), None)
            if row is None:
                return
            axis = _ordered_axis(self, len(row) + 1)
            known = (*row[:axis], count, *row[axis:])
        axis = _ordered_axis(self, len(known))
        s.expect(self.xs[0], (*known[:axis], count, *known[axis + 1 :]))
        for y in self.ys:
            s.expect(y, (*known[:axis], *known[axis + 1 :]))

    def _sizes(self, s: Shapes, axis: int) -> Sequence[Dim]:
        if self.parts:
            return [Dim.of(size) for size in self.parts]
        if len(self.xs) == 2:
            lengths = s.value(self.xs[1])
            if lengths is not None and len(lengths) != len(self.ys):
                raise self.error(f"takes {len(lengths)} sizes, for {len(self.ys)} outputs")
            return lengths or [s.fresh() for _ in self.ys]
        known = s.dims(self.ys[0])
        whole = s.dims(self.xs[0])
        part = known[axis] if known is not None else None
        if part is None and whole is not None:
            part = whole[axis].divide(len(self.ys))
            if part is None and whole[axis].is_static:
                raise self.error(f"{whole[axis]} does not split into {len(self.ys)} equal parts")
        return [s.fresh() if part is None else part] * len(self.ys)

    def build(self, e: Emitter) -> None:
        axis = _ordered_axis(self, len(e.dims(self.xs[0])))
        start = Dim.of(0)
        for y in self.ys:
            size = Dim.of(1) if self.drops else e.dims(y)[axis]
            e[y] = e.b.reshape(e.b.slice(e[self.xs[0]], axis, start, size), e.dims(y))
            start = start + size


class Concat(Operator):
    """Y = X0, X1, ... one after another along an axis, a new one with `add_axis`; their sizes.

    Refused: operands of several element types.
    """

    inputs = (1, ANY)
    outputs = (1, 2)

    def setup(self, maker: Resolver) -> None:
        # Without `axis` Caffe2 takes that of the channels, and reads no `add_axis`.
        self.adds = self.args.flag("add_axis") and "axis" in self.args

    def infer(self, s: Shapes) -> None:
        s.same_dtype(*self.xs, self.ys[0])
        known = next((dims for x in self.xs if (dims := s.dims(x)) is not None), None)
        whole = s.dims(self.ys[0])
        if known is None and whole is not None:
            axis = _ordered_axis(self, len(whole))
            known = (*whole[:axis], *([] if self.adds else [s.fresh()]), *whole[axis + 1 :])
        if known is None:
            return
        self._sized(s, known)

    def _sized(self, s: Shapes, known: Dims) -> None:
        axis = _ordered_axis(self, len(known), extra=int(self.adds))
        sizes = list[Dim]()
        for x in self.xs:
            dims = s.dims(x)
            size = dims[axis] if dims is not None and axis < len(dims) else s.fresh()
            s.expect(x, known if self.adds else (*known[:axis], size, *known[axis + 1 :]))
            sizes.append(Dim.of(1) if self.adds else size)
        total = sum(sizes, Dim.of(0))
        s.expect(self.ys[0], (*known[:axis], total, *known[axis + (not self.adds) :]))
        for y in self.ys[1:]:
            s.expect_value(y, sizes, "i32")

    def build(self, e: Emitter) -> None:
        rank = len(e.dims(self.xs[0]))
        axis = _ordered_axis(self, rank, extra=int(self.adds))
        values = [e[x] for x in self.xs]
        if self.adds:
            dims = e.dims(self.xs[0])
            values = [e.b.reshape(v, (*dims[:axis], 1, *dims[axis:])) for v in values]
        e[self.ys[0]] = e.b.concat(values, axis)


class Slice(Operator):
    """Y = X[starts : ends] axis by axis; a negative bound -k stands for size + 1 - k.

    Refused: bounds in blobs whose content is not known at compile time, but for the end of a vector
    of which TopK takes the first elements; a part of an axis of symbolic size that ends at a number
    counted from the front; a slice without elements.
    """

    inputs = (1, 3)

    def setup(self, maker: Resolver) -> None:
        if len(self.xs) == 2:
            raise self.error("has 2 inputs, expected 1 or 3")

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        bounds = self._bounds(s)
        if dims is None or bounds is None or any(s.is_open(d) for d in dims):
            if dims is not None and self.ys[0].shape is None:
                s.expect(self.ys[0], [s.fresh() for _ in dims])
            return
        ranges = self._ranges(s, dims, bounds)
        s.expect(self.ys[0], [size for _, size in ranges])
        value = s.value(self.xs[0])
        if value is not None:
            start, size = (int(d) for d in ranges[0])  # of a vector of sizes: they are static
            s.expect_value(self.ys[0], value[start : start + size], self.xs[0].dtype or "i64")

    def _bounds(self, s: Shapes) -> tuple[list[int], list[int]] | None:
        if len(self.xs) == 1:
            return [int(v) for v in self.args.ints("starts")], [
                int(v) for v in self.args.ints("ends")
            ]
        starts, ends = (s.value(x) for x in self.xs[1:])
        if starts is None or ends is None or not all(d.is_static for d in (*starts, *ends)):
            return None
        return [int(d) for d in starts], [int(d) for d in ends]

    def assume(self, s: Shapes, level: int) -> None:
        if level < 2 or self._bounds(s) is not None:
            return
        start, dims = s.value(self.xs[1]), s.dims(self.xs[0])
        if start is None or dims is None or len(dims) != 1 or list(start) != [0]:
            raise self.unknown_content(self.xs[1] if start is None else self.xs[2])
        s.expect(self.xs[2], (1,))
        s.expect(self.ys[0], dims)
        self.ys[0].end = self.xs[2]

    def _ranges(
        self, s: Shapes, dims: Dims, bounds: tuple[list[int], list[int]]
    ) -> list[tuple[Dim, Dim]]:
        """Start and size for each axis."""
        starts, ends = bounds
        if len(starts) != len(ends) or len(starts) > len(dims):
            raise self.error(f"slices {s.text(dims)} from {starts} to {ends}")
        ranges = [(Dim.of(0), d) for d in dims]
        for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
            size = dims[axis]
            if start == 0 and end == -1:
                continue
            low, high = (size + (bound + 1) if bound < 0 else bound for bound in (start, end))
            if size.is_static:
                low, high = (min(int(Dim.of(bound)), int(size)) for bound in (low, high))
            elif end >= 0:  # where the axis is shorter, Caffe2 stops at its end
                what = f"slices axis {axis} of size {size} from {start} to {end}"
                raise self.error(what, "count the end of a symbolic axis from behind, as -1 does")
            low, count = Dim.of(low), Dim.of(high) - Dim.of(low)
            if (low.is_static and int(low) < 0) or (count.is_static and int(count) < 1):
                raise self.error(f"slices axis {axis} of size {size} from {start} to {end}")
            ranges[axis] = (low, count)
        return ranges

    def build(self, e: Emitter) -> None:
        bounds, y = self._bounds(e.shapes), e[self.xs[0]]
        if bounds is None:
            e[self.ys[0]] = y  # its end is known to whoever reads it
            return
        ranges = self._ranges(e.shapes, e.dims(self.xs[0]), bounds)
        for axis, (start, size) in enumerate(ranges):
            y = e.b.slice(y, axis, start, size)
        e[self.ys[0]] = y


def _ordered_axis(op: Operator, rank: int, extra: int = 0) -> int:
    """The axis of Split and Concat: 1 by default, 3 in the order NHWC."""
    default = 3 if op.args.str("order", "NCHW") == "NHWC" else 1
    axis = op.args.int("axis", default)
    if not -rank - extra <= axis < rank + extra:
        raise op.error(f"argument 'axis' is {axis}, but the tensor has rank {rank}")
    return axis + rank + extra if axis < 0 else axis


OPERATORS: dict[str, type[Operator]] = {
    "Split": Split,
    "DepthSplit": Split,
    "Concat": Concat,
    "DepthConcat": Concat,
    "Slice": Slice,
}
