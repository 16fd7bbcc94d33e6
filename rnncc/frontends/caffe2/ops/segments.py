"""Operators on the parts of a sequence that stand one behind another: paddings and segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.axes import along
from rnncc.nn.reduction import count, largest, log_sum_exp, mean, total

Reduction = Callable[[Builder, SSAValue, Sequence[int]], SSAValue]


class Padding(Operator):
    """What adds rows around each part of a sequence, or takes them away.

    Attributes:
        widths: the rows in front of each part, and behind it.
        sign: 1 where they are added.
    """

    outputs = (1, 2)
    sign: ClassVar[int]

    def setup(self, maker: Resolver) -> None:
        front = self.args.int("padding_width", 1)
        back = self.args.int("end_padding_width", -1)
        self.widths = front, front if back < 0 else back
        if front < 0:
            raise self.error(f"argument 'padding_width' is {front}, expected 0 or more")

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0], *self.xs[2:])
        if len(self.xs) > 1:
            s.expect_dtype(self.xs[1], "i32")
        dims, parts = s.dims(self.xs[0]), self._parts(s)
        self.expect_rows(dims)
        if dims is None or parts is None:
            return
        for pad in self.xs[2:]:
            s.expect(pad, dims[1:])
        self._check_parts(s, parts, dims[0])
        new = [part + self.sign * sum(self.widths) for part in parts]
        if any(size.is_static and int(size) < 0 for size in new):
            raise self.error(f"takes {sum(self.widths)} rows from parts of {s.text(parts)}")
        s.expect(self.ys[0], (sum(new, Dim.of(0)), *dims[1:]))
        for lengths in self.ys[1:]:
            s.expect_value(lengths, new, "i32")

    def assume(self, s: Shapes, level: int) -> None:
        if level == 2 and s.dims(self.xs[0]) is not None and self._parts(s) is None:
            raise self.unknown_content(self.xs[1])

    def _parts(self, s: Shapes) -> Dims | None:
        """How many rows each part has."""
        known = s.value(self.xs[1]) if len(self.xs) > 1 else None
        if known is None and (len(self.xs) == 1 or s.dims(self.xs[1]) == (Dim.of(1),)):
            dims = s.dims(self.xs[0])
            return None if dims is None else dims[:1]
        return known

    def _check_parts(self, s: Shapes, parts: Dims, rows: Dim) -> None:
        if not s.equal(sum(parts, Dim.of(0)), rows):
            raise self.error(f"has parts of {s.text(parts)} rows, of {s.size_text(rows)}")

    def build(self, e: Emitter) -> None:
        parts, start, padded = self._parts(e.shapes), Dim.of(0), list[SSAValue]()
        for part in parts or ():
            padded += self.part(e, start, part)
            start = start + part
        e[self.ys[0]] = e.b.concat(padded, 0)

    def part(self, e: Emitter, start: Dim, size: Dim) -> list[SSAValue]:
        """What becomes of so many rows."""
        raise NotImplementedError


class AddPadding(Padding):
    """Y0 = X0 with `padding_width` rows in front of each part and `end_padding_width` behind it, as
    many by default: zeros, or X2, and X3 behind. X1 has the parts' lengths; without it X0 is one
    part. Y1 has the new lengths.

    Refused: several lengths that are not known at compile time.
    """

    inputs = (1, 4)
    sign = 1

    def part(self, e: Emitter, start: Dim, size: Dim) -> list[SSAValue]:
        x, pads = e[self.xs[0]], self.xs[2:]
        front, back = self.widths
        return [
            self._rows(e, pads[0] if pads else None, front),
            e.b.slice(x, 0, start, size),
            self._rows(e, pads[-1] if pads else None, back),
        ]

    def _rows(self, e: Emitter, pad: Blob | None, rows: int) -> SSAValue:
        x = e[self.xs[0]]
        dims = (Dim.of(rows), *dims_of(x)[1:])
        if pad is None:
            return e.b.fill(0.0, dims, dtype_of(x))
        return e.b.broadcast(e[pad], dims, range(1, len(dims)))


class RemovePadding(Padding):
    """Y0 = X0 without the first `padding_width` rows of each part and the last `end_padding_width`,
    as many by default. X1 has the parts' lengths; without it X0 is one part. Y1 has the new ones.

    Refused: several lengths that are not known at compile time.
    """

    inputs = (1, 2)
    sign = -1

    def part(self, e: Emitter, start: Dim, size: Dim) -> list[SSAValue]:
        front, back = self.widths
        return [e.b.slice(e[self.xs[0]], 0, start + front, size - (front + back))]


class GatherPadding(RemovePadding):
    """Y0 = the sum of the first `padding_width` rows of each part of X0, Y1 that of the last
    `end_padding_width`; without Y1 Y0 is the sum of both. X1 has the parts' lengths.

    Refused: several lengths that are not known at compile time; elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], *self.ys)
        s.expect_dtype(self.xs[1], "i32")
        dims = s.dims(self.xs[0])
        self.expect_rows(dims)
        if dims is None:
            return
        for y in self.ys:
            s.expect(y, dims[1:])
        parts = self._parts(s)
        if parts is not None:
            self._check_parts(s, parts, dims[0])

    def build(self, e: Emitter) -> None:
        b, start, sums = e.b, Dim.of(0), (list[SSAValue](), list[SSAValue]())
        for part in self._parts(e.shapes) or ():
            start = start + part
            for own, first, rows in zip(
                sums, (start - part, start - self.widths[1]), self.widths, strict=True
            ):
                own.append(total(b, b.slice(e[self.xs[0]], 0, first, Dim.of(rows)), [0]))
        ends = [reduce(b.add, own) for own in sums]
        for y, value in zip(self.ys, ends if len(self.ys) == 2 else [b.add(*ends)], strict=True):
            e[y] = value


class LengthsRangeFill(Operator):
    """Y = 0, 1, ... X[0] - 1, 0, 1, ... X[1] - 1 and so on.

    Refused: lengths that are not known at compile time, or below 0.
    """

    def infer(self, s: Shapes) -> None:
        s.expect_dtype(self.xs[0], "i32")
        s.expect_dtype(self.ys[0], "i32")
        lengths = s.value(self.xs[0])
        if lengths is not None:
            if any(length.is_static and int(length) < 0 for length in lengths):
                raise self.error(f"has lengths {s.text(lengths)}, expected 0 or more")
            s.expect(self.ys[0], (sum(lengths, Dim.of(0)),))

    def assume(self, s: Shapes, level: int) -> None:
        self.require_content(s, level, self.xs[0])

    def build(self, e: Emitter) -> None:
        lengths = e.shapes.value(self.xs[0]) or ()
        e[self.ys[0]] = e.b.concat([e.b.iota((length,), 0) for length in lengths], 0)


class Numbered(Operator):
    """What makes a row of all rows that have one number, the last input's.

    Attributes:
        weighs: whether X1 has a factor for each row.
        picks: whether the rows are those of X0 that the input before the numbers tells.
    """

    inputs = (2, 2)
    weighs: ClassVar[bool] = False
    picks: ClassVar[bool] = False

    def rows(self, e: Emitter) -> SSAValue:
        """The rows, one for each number."""
        x = e[self.xs[0]]
        if self.picks:
            x = e.b.gather(x, e[self.xs[-2]], 0)
        if self.weighs:
            x = e.b.mul(x, along(e.b, e[self.xs[1]], 0, len(dims_of(x))))
        return x

    def count(self, s: Shapes) -> int | None:
        """How many rows it makes, where that is known."""
        raise NotImplementedError

    def infer(self, s: Shapes) -> None:
        x, ids = self.xs[0], self.xs[-1]
        s.expect_dtypes("f32", x, *self.xs[1 : 1 + self.weighs], self.ys[0])
        s.expect_dtype(ids, "i32")
        dims, count = s.dims(x), self.count(s)
        if self.picks:
            self.expect_indices(self.xs[-2])
        s.same_shape(*self.xs[1:])
        if dims is not None:
            if not self.picks:
                s.expect(ids, dims[:1])
            if count is not None:
                s.expect(self.ys[0], (count, *dims[1:]))

    def assume(self, s: Shapes, level: int) -> None:
        if level == 2 and self.count(s) is None:
            raise self.unknown_content(self.xs[-1])


class Segments(Numbered):
    """Y[k] = what a function makes of the rows with the number k."""

    function: ClassVar[Reduction]

    def count(self, s: Shapes) -> int | None:
        ids = s.value(self.xs[-1])
        return None if ids is None else len(self._sizes(ids))

    def _sizes(self, ids: Dims) -> list[int]:
        """How many rows each segment has."""
        sizes = list[int]()
        for number in map(int, ids):
            if number == len(sizes):
                sizes.append(0)
            if number < 0 or number != len(sizes) - 1:
                raise self.error("the numbers of segments do not increase from 0 in steps of 1")
            sizes[-1] += 1
        return sizes

    def build(self, e: Emitter) -> None:
        start, x, reduced = 0, self.rows(e), list[SSAValue]()
        for size in self._sizes(e.shapes.value(self.xs[-1]) or ()):
            row = type(self).function(e.b, e.b.slice(x, 0, Dim.of(start), Dim.of(size)), [0])
            reduced.append(e.b.reshape(row, (1, *dims_of(row))))
            start += size
        e[self.ys[0]] = e.b.concat(reduced, 0)


def means_of(b: Builder, sums: SSAValue, ids: SSAValue) -> SSAValue:
    """Sums of the rows that have a number each, divided by how many there are; 0 of none."""
    ones = b.fill(1.0, dims_of(ids))
    counts = b.scatter("sum", b.fill(0.0, dims_of(sums)[:1]), ones, ids, 0)
    counts = b.maximum(counts, b.fill(1.0, ()))
    return b.div(sums, along(b, counts, 0, len(dims_of(sums))))


class UnsortedSegments(Numbered):
    """Y[k] = the sum, or the mean, of the rows with the number k."""

    averages: ClassVar[bool] = False

    def setup(self, maker: Resolver) -> None:
        self.most = self.args.int("num_segments", -1)
        if self.most < -1 or self.most == 0:
            raise self.error(f"argument 'num_segments' is {self.most}, expected a number, or -1")

    def count(self, s: Shapes) -> int | None:
        ids = s.value(self.xs[-1])
        if self.most > 0 or ids is None:
            return self.most if self.most > 0 else None
        return max(map(int, ids), default=-1) + 1

    def build(self, e: Emitter) -> None:
        b, x, ids = e.b, self.rows(e), e[self.xs[-1]]
        y = b.scatter("sum", b.fill(0.0, e.dims(self.ys[0])), x, ids, 0)
        y = means_of(b, y, ids) if self.averages else y
        e[self.ys[0]] = y


def _log_mean_exp(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return b.sub(log_sum_exp(b, x, axes), b.log(count(b, x, axes)))


def _rows_text(weighs: bool, picks: bool) -> str:
    """What an operator reduces, in words; then what number is asked for."""
    picked = f"X0[X{1 + weighs}[i]]" if picks else "X0[i]"
    factor = " times X1[i]" if weighs else ""
    return f"the rows {picked}{factor} with X{1 + weighs + picks}[i] = k"


def _of_kind(base: type[Numbered], weighs: bool, picks: bool, **members: object) -> type[Operator]:
    number = 2 + weighs + picks
    members |= {"weighs": weighs, "picks": picks, "inputs": (number, number)}
    return type(base.__name__, (base,), members)


def _sorted(
    formula: str, function: Reduction, weighs: bool = False, picks: bool = False
) -> type[Operator]:
    text = (
        f"Y[k] = {formula} {_rows_text(weighs, picks)}.\n\n"
        "Refused: numbers of segments that are not known at compile time."
    )
    return _of_kind(Segments, weighs, picks, __doc__=text, function=staticmethod(function))


def _unsorted(averages: bool, weighs: bool = False, picks: bool = False) -> type[Operator]:
    what = "mean" if averages else "sum"
    of_none = ", 0 of none" if averages else ""
    text = (
        f"Y[k] = the {what} of {_rows_text(weighs, picks)}{of_none}, `num_segments` of them; a call"
        " with another number fails.\n\n"
        "Refused: no `num_segments`, where the numbers are not known at compile time; elements"
        " other than float32."
    )
    return _of_kind(UnsortedSegments, weighs, picks, __doc__=text, averages=averages)


OPERATORS: dict[str, type[Operator]] = {
    "AddPadding": AddPadding,
    "RemovePadding": RemovePadding,
    "GatherPadding": GatherPadding,
    "LengthsRangeFill": LengthsRangeFill,
    **{
        f"{start}UnsortedSegment{kind}": _unsorted(kind == "Mean", "Weighted" in kind, bool(start))
        for start in ("", "Sparse")
        for kind in ("Sum", "Mean", "WeightedSum")
    },
    **{
        f"{start}SortedSegment{kind}": _sorted(
            f"the {'mean' if kind == 'Mean' else 'sum'} of",
            mean if kind == "Mean" else total,
            "Weighted" in kind,
            bool(start),
        )
        for start in ("", "Sparse")
        for kind in ("Sum", "Mean", "WeightedSum")
    },
    "SortedSegmentRangeSum": _sorted("the sum of", total),
    "SortedSegmentRangeMean": _sorted("the mean of", mean),
    "SortedSegmentRangeMax": _sorted("the largest elements of", largest),
    "SortedSegmentRangeLogSumExp": _sorted("the logarithm of the sum of e to", log_sum_exp),
    "SortedSegmentRangeLogMeanExp": _sorted("the logarithm of the mean of e to", _log_mean_exp),
}
