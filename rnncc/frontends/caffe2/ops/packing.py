"""Rows in parts one behind another, as parts beside each other that are filled up, and back."""

from __future__ import annotations

from itertools import accumulate
from math import inf

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.lengths import MakesRows, OfParts, RowParts
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import along, move_axis
from rnncc.nn.ranking import top_of_parts
from rnncc.nn.reduction import largest, smallest


class PackSegments(OfParts):
    """Y0[k] = the rows X1 of part k, of lengths X0, the first `max_length` of them, and zeros
    behind; -infinity with `pad_minf`. Y1, with `return_presence_mask`, tells where rows are.
    Lengths below 0, or that are not together as many as the rows, make the call fail.

    Refused: no `max_length`, where lengths are not known at compile time.
    """

    inputs, outputs, lengths = (2, 2), (1, 2), 0

    def setup(self, maker: Resolver) -> None:
        self.most = _most_of(self)
        if len(self.ys) == 2 and not self.args.flag("return_presence_mask"):
            raise self.error("has 2 outputs without argument 'return_presence_mask'")

    def shows(self) -> Blob:
        return self.xs[1]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_dtype(self.xs[1], self.ys[0])
        dims, count, most = s.dims(self.xs[1]), s.dims(self.xs[0]), self._most(s)
        if count is None or most is None:
            return
        for mask in self.ys[1:]:
            s.expect(mask, (*count, most), "i1")
        if dims is not None:
            s.expect(self.ys[0], (*count, most, *dims[1:]))

    def _most(self, s: Shapes) -> int | None:
        """Rows of a part of the result."""
        return self.most if self.most > 0 else _longest(s, self.xs[0])

    def assume(self, s: Shapes, level: int) -> None:
        if level == 2 and self._most(s) is None:
            what = f'the content of "{self.xs[0].name}" is not known at compile time'
            raise self.error(f"lacks the argument 'max_length', and {what}")

    def build(self, e: Emitter) -> None:
        parts, x, most = self.parts(e), e[self.xs[1]], self._most(e.shapes)
        assert most is not None
        pad = -inf if self.args.flag("pad_minf") and dtype_of(x) in FLOATS else 0
        e[self.ys[0]], inside = _beside(e.b, x, e[self.xs[0]], parts.starts, most, pad, parts.fit)
        for mask in self.ys[1:]:
            e[mask] = inside


class PackRNNSequence(OfParts):
    """Y[t, k] = row t of part k, of the rows X0 in parts of lengths X1, and zeros behind its last
    row, as many steps as the longest part has rows. Lengths below 0, or that are not together as
    many as the rows, or of which the longest is not what another input says, make the call fail.

    Refused: lengths that are not known at compile time, where no input has as many steps.
    """

    inputs, lengths = (2, 2), 1
    size_hint = "an input with as many steps tells it; PackSegments takes `max_length`"

    def shows(self) -> Blob:
        return self.xs[0]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_dtype(self.xs[0], self.ys[0])
        dims, count, most = s.dims(self.xs[0]), s.dims(self.xs[1]), _longest(s, self.xs[1])
        if dims is not None and len(dims) < 2:
            raise self.error(f"data of shape {s.text(dims)}, expected rows of features")
        if dims is not None and count is not None:
            steps = s.fresh() if most is None else Dim.of(most)
            s.expect(self.ys[0], (steps, *count, *dims[1:]))

    def build(self, e: Emitter) -> None:
        b, parts, x, lengths = e.b, self.parts(e), e[self.xs[0]], e[self.xs[1]]
        steps, fit = e.dims(self.ys[0])[0], parts.fit
        if _longest(e.shapes, self.xs[1]) is None:
            counts = b.concat([b.cast(lengths, "i64"), b.fill(0, (1,), "i64")], 0)
            fits = b.compare("eq", largest(b, counts, [0]), b.size(steps))
            fit = b.logical("and", fit, fits)
        rows, _ = _beside(b, x, lengths, parts.starts, steps, 0, fit)
        e[self.ys[0]] = move_axis(b, rows, 1, 0)


class LengthsPad(OfParts):
    """Y = the rows X0 in parts of `target_length` rows, one behind another: of each part, of
    lengths X1, its rows, and `padding_value`, by default -1, behind them. Lengths below 0 or above
    `target_length`, or that are not together as many as the rows, make the call fail.

    Refused: no `target_length`.
    """

    inputs, lengths = (2, 2), 1

    def setup(self, maker: Resolver) -> None:
        self.each = self.args.int("target_length", 0)
        if self.each < 1:
            raise self.error(f"argument 'target_length' is {self.each}, expected 1 or more")

    def shows(self) -> Blob:
        return self.xs[0]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_dtype(self.xs[0], self.ys[0])
        dims, count = s.dims(self.xs[0]), s.dims(self.xs[1])
        if dims is not None and count is not None:
            s.expect(self.ys[0], (count[0] * self.each, *dims[1:]))

    def build(self, e: Emitter) -> None:
        b, parts, x, lengths = e.b, self.parts(e), e[self.xs[0]], e[self.xs[1]]
        pad = self.args.float("padding_value", -1.0)
        pad = pad if dtype_of(x) in FLOATS else int(pad)
        short = b.compare("le", lengths, b.full_like(lengths, self.each))
        fit = b.logical("and", parts.fit, smallest(b, short, [0]))
        rows, _ = _beside(b, x, lengths, parts.starts, self.each, pad, fit)
        e[self.ys[0]] = b.reshape(rows, e.dims(self.ys[0]))


class LengthsTopK(OfParts):
    """Y0[n], Y1[n] = the `k` largest elements of part n of the vector X0, of lengths X1, largest
    first, of equal ones the first one first, and their places in the part as int32; 0 and -1 behind
    the last of a part that has fewer. Lengths below 0, or that are not together as many as the
    elements, make the call fail.

    Refused: elements other than float32; `k` below 1.
    """

    inputs, outputs, lengths = (2, 2), (2, 2), 1

    def setup(self, maker: Resolver) -> None:
        self.count = self.args.int("k", -1)
        if self.count < 1:
            raise self.error(f"argument 'k' is {self.count}, expected 1 or more")

    def shows(self) -> Blob:
        return self.xs[0]

    def infer(self, s: Shapes) -> None:
        x, lengths = self.xs
        s.expect_dtypes("f32", x, self.ys[0])
        s.expect_dtype(self.ys[1], "i32")
        dims = s.dims(x)
        if dims is None:
            s.expect(x, (s.fresh(),))
        elif len(dims) != 1:
            raise self.error(f"data of shape {s.text(dims)}, expected a vector")
        super().infer(s)
        parts = s.dims(lengths)
        if parts is not None:
            for y in self.ys:
                s.expect(y, (*parts, self.count))

    def build(self, e: Emitter) -> None:
        b, parts, x = e.b, self.parts(e), e[self.xs[0]]
        (count,), (size,) = e.dims(self.xs[1]), e.dims(self.xs[0])
        places = top_of_parts(b, b.stop_gradient(x), parts.part, count, self.count)
        is_none = b.compare("lt", places, b.full_like(places, 0))
        row = b.select(parts.fit, b.select(is_none, b.size(size), places), b.fill(-1, (), "i64"))
        e[self.ys[0]] = b.gather(b.concat([x, b.fill(0.0, (1,))], 0), row, 0)
        within = b.select(is_none, places, b.sub(places, along(b, parts.starts, 0, 2)))
        e[self.ys[1]] = b.cast(within, "i32")


class LengthsGather(OfParts):
    """Y = the rows X0 of the parts that X2 numbers, one behind another; X1 has the parts' lengths.

    Refused: lengths or numbers that are not known at compile time.
    """

    inputs, lengths = (3, 3), 1

    def shows(self) -> Blob:
        return self.xs[0]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_dtype(self.xs[0], self.ys[0])
        self.expect_indices(self.xs[2])
        dims, parts = s.dims(self.xs[0]), self._parts(s)
        if dims is not None and parts is not None:
            total = sum((size for _, size in parts), Dim.of(0))
            s.expect(self.ys[0], (total, *dims[1:]))

    def _parts(self, s: Shapes) -> list[tuple[Dim, Dim]] | None:
        """Where each part that is asked for begins, and how many rows it has."""
        sizes, numbers = (s.value(x) for x in self.xs[1:])
        if sizes is None or numbers is None:
            return None
        for number in numbers:
            if not number.is_static or not 0 <= int(number) < len(sizes):
                raise self.error(f"takes part {number} of {len(sizes)}")
        starts = list(accumulate(sizes, initial=Dim.of(0)))
        return [(starts[n], sizes[n]) for n in map(int, numbers)]

    def assume(self, s: Shapes, level: int) -> None:
        for x in self.xs[1:]:
            self.require_content(s, level, x)

    def build(self, e: Emitter) -> None:
        x, parts = e[self.xs[0]], self._parts(e.shapes) or ()
        rows = [e.b.slice(x, 0, start, size) for start, size in parts]
        e[self.ys[0]] = e.b.concat(rows, 0) if rows else e.b.slice(x, 0, 0, 0)


def _longest(s: Shapes, lengths: Blob) -> int | None:
    """The rows of the longest part, where lengths are known."""
    known = s.value(lengths)
    if known is None or not all(size.is_static for size in known):
        return None
    return max(map(int, known), default=0)


def _beside(
    b: Builder,
    x: SSAValue,
    lengths: SSAValue,
    starts: SSAValue,
    most: Dim | int,
    pad: float,
    fit: SSAValue,
) -> tuple[SSAValue, SSAValue]:
    """The first `most` rows of each part, `pad` where it has fewer, and where it has them.

    Args:
        fit: whether the lengths may be used; a call fails where they may not.
    """
    dims = dims_of(x)
    rows = b.concat([x, b.fill(pad, (1, *dims[1:]), dtype_of(x))], 0)
    place = b.iota((1, most), 1, "i64")
    inside = b.compare("lt", place, along(b, b.cast(lengths, "i64"), 0, 2))
    row = b.select(inside, b.add(along(b, starts, 0, 2), place), b.size(dims[0]))
    return b.gather(rows, b.select(fit, row, b.fill(-1, (), "i64")), 0), inside


class UnpackSegments(MakesRows):
    """Y = the first X0[k] rows of each X1[k], one behind another. Lengths below 0 or beyond those
    rows make the call fail.

    Refused: lengths of which nothing tells how many rows they have together, neither their content
    nor another operator that reads them; `max_length` of lengths that are not known at compile
    time.
    """

    inputs, lengths = (2, 2), 0

    def setup(self, maker: Resolver) -> None:
        self.most = _most_of(self)

    def rows(self, s: Shapes) -> Dim | None:
        return None if self.most > 0 else super().rows(s)

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        _infer_unpacked(self, s, self.xs[1], 0, 2, "parts of rows")

    def made(self, s: Shapes) -> Dim | None:
        known = s.value(self.xs[0])
        if self.most <= 0:
            return self.total(s)
        if known is None or not all(size.is_static for size in known):
            return None
        return Dim.of(sum(min(int(size), self.most) for size in known))

    def build(self, e: Emitter) -> None:
        b, x, rows = e.b, e[self.xs[1]], self.made(e.shapes)
        assert rows is not None
        lengths = e[self.xs[0]]
        if self.most > 0:
            lengths = b.minimum(lengths, b.fill(self.most, (), "i32"))
        e[self.ys[0]] = _behind_each_other(b, x, lengths, rows)


class UnpackRNNSequence(MakesRows):
    """Y = the first X1[k] rows of each X0[:, k], one behind another. Lengths below 0 or beyond
    those rows make the call fail.

    Refused: lengths of which nothing tells how many rows they have together, neither their content
    nor another operator that reads them.
    """

    inputs, lengths = (2, 2), 1

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        _infer_unpacked(self, s, self.xs[0], 1, 3, "steps of rows of features")

    def build(self, e: Emitter) -> None:
        b, rows = e.b, self.made(e.shapes)
        assert rows is not None
        x = move_axis(b, e[self.xs[0]], 1, 0)
        e[self.ys[0]] = _behind_each_other(b, x, e[self.xs[1]], rows)


def _most_of(operator: Operator) -> int:
    """The argument `max_length`; -1 where it is not there, or says so itself."""
    most = operator.args.int("max_length", -1)
    if most < -1 or most == 0:
        raise operator.error(f"argument 'max_length' is {most}, expected a length, or -1 for none")
    return most


def _infer_unpacked(
    operator: MakesRows, s: Shapes, data: Blob, axis: int, least: int, expected: str
) -> None:
    """Of data with two axes in front: that of the parts, as `axis` says, and that of their rows.

    Args:
        least: how many axes it must have.
        expected: what messages call such data.
    """
    y = operator.ys[0]
    s.same_dtype(data, y)
    dims, count = s.dims(data), s.dims(operator.xs[operator.lengths])
    rows = operator.made(s)
    if dims is None or count is None:
        return
    if len(dims) < least:
        raise operator.error(f"data of shape {s.text(dims)}, expected {expected}")
    s.expect(data, (*dims[:axis], *count, *dims[axis + 1 :]))
    if rows is not None:
        s.expect(y, (rows, *dims[2:]))


def _behind_each_other(b: Builder, x: SSAValue, lengths: SSAValue, rows: Dim) -> SSAValue:
    """The first lengths[k] rows of each x[k], `rows` in all; a call fails where they are others."""
    count, each, *rest = dims_of(x)
    parts = RowParts.of(b, lengths, rows)
    place, most = parts.places(b), b.size(each)
    row = b.add(b.mul(parts.part, most), place)
    row = b.select(b.compare("lt", place, most), row, b.fill(-1, (), "i64"))
    return b.gather(b.reshape(x, (count * each, *rest)), row, 0)


OPERATORS: dict[str, type[Operator]] = {
    "LengthsGather": LengthsGather,
    "LengthsPad": LengthsPad,
    "LengthsTopK": LengthsTopK,
    "PackRNNSequence": PackRNNSequence,
    "PackSegments": PackSegments,
    "UnpackRNNSequence": UnpackRNNSequence,
    "UnpackSegments": UnpackSegments,
}
