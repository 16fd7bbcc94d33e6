"""Operators on parts of a sequence, one behind another, of which a run tells how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.nn.axes import along
from rnncc.nn.reduction import cumulate, smallest, total
from rnncc.records import record

_CHECKED = "lengths below 0, or that are not together as many as the rows, make the call fail"


@record
class RowParts:
    """Of `rows` rows in parts, all int64.

    Attributes:
        starts: [N], where each part begins.
        part: [rows], which part each row lies in; -1, which nothing may be read or stored at, where
            the lengths do not fit.
        fit: whether they do, a scalar.
    """

    starts: SSAValue
    part: SSAValue
    fit: SSAValue

    @staticmethod
    def of(b: Builder, lengths: SSAValue, rows: Dim) -> RowParts:
        """Those that a vector of lengths tells."""
        counts = b.cast(lengths, "i64")
        ends = cumulate(b, counts, 0)
        most, zero, one = b.size(rows), b.fill(0, (), "i64"), b.fill(1, dims_of(lengths), "i64")
        natural = smallest(b, b.compare("ge", counts, b.full_like(counts, 0)), [0])
        fit = b.logical("and", natural, b.compare("eq", total(b, counts, [0]), most))
        # A row lies behind as many parts as end at it or before; of empty ones several end there.
        marks = b.fill(0, (rows + 1,), "i64")
        within = b.minimum(b.maximum(ends, zero), most)
        ended = cumulate(b, b.scatter("sum", marks, one, within, 0), 0)
        part = b.select(fit, b.slice(ended, 0, 0, rows), b.fill(-1, (), "i64"))
        return RowParts(b.sub(ends, counts), part, fit)

    def filled(self, b: Builder, number: float, dims: Sequence[Dim]) -> SSAValue:
        """A tensor of a number, with a row for each part; where lengths do not fit, making it fails
        even of no rows, none of which is then stored at -1."""
        row = b.select(self.fit, b.full_like(self.starts, 0), b.fill(-1, (), "i64"))
        return b.broadcast(b.gather(b.fill(number, (1,)), row, 0), tuple(dims), [0])

    def places(self, b: Builder) -> SSAValue:
        """[rows], how many rows of its part stand before each."""
        row = b.iota(dims_of(self.part), 0, "i64")
        return b.sub(row, b.gather(self.starts, self.part, 0))


class OfParts(Operator):
    """What reads lengths and as many rows.

    Attributes:
        lengths: which input holds the lengths.
    """

    lengths: ClassVar[int]

    def shows(self) -> Blob:
        """The blob that has as many rows as all parts."""
        raise NotImplementedError

    def rows(self, s: Shapes) -> Dim | None:
        """How many rows all parts have, where that is known."""
        dims = s.dims(self.shows())
        self.expect_rows(dims)
        return None if dims is None else dims[0]

    def infer(self, s: Shapes) -> None:
        lengths = self.xs[self.lengths]
        s.expect_dtype(lengths, "i32")
        dims = s.dims(lengths)
        if dims is None:
            s.expect(lengths, (s.fresh(),))
        elif len(dims) != 1:
            raise self.error(f"lengths of shape {s.text(dims)}, expected a vector")
        known, rows = s.value(lengths), self.rows(s)
        if lengths.total is None:
            lengths.total = sum(known, Dim.of(0)) if known is not None else rows
            s.version += lengths.total is not None
        elif rows is not None and not s.equal(lengths.total, rows):
            total_text = s.size_text(lengths.total)
            raise self.error(f"lengths of {total_text} rows together, of {s.size_text(rows)}")

    def total(self, s: Shapes) -> Dim | None:
        """How many rows the lengths have together, where this operator or another tells it."""
        total = self.xs[self.lengths].total
        return None if total is None else s.resolve(total)

    def parts(self, e: Emitter) -> RowParts:
        """The parts while the net runs."""
        total = self.total(e.shapes)
        assert total is not None
        return RowParts.of(e.b, e[self.xs[self.lengths]], total)

    def counts(self, e: Emitter, rank: int) -> SSAValue:
        """The lengths as floats, at least 1, along the first of so many axes."""
        counts = e.b.cast(e[self.xs[self.lengths]], "f32")
        return along(e.b, e.b.maximum(counts, e.b.fill(1.0, ())), 0, rank)


class ReducedParts(OfParts):
    """Y[k] = what a function makes of the rows of part k.

    Attributes:
        names: what the inputs hold: data, weights of rows or of places in a part, indices, lengths.
    """

    names: ClassVar[tuple[str, ...]]
    reduces: ClassVar[str] = "sum"

    def setup(self, maker: Resolver) -> None:
        self.by_name = dict(zip(self.names, self.xs, strict=True))

    def shows(self) -> Blob:
        return self.by_name.get("indices", self.xs[0])

    def infer(self, s: Shapes) -> None:
        data, indices = self.xs[0], self.by_name.get("indices")
        s.expect_dtypes("f32", data, self.ys[0])
        if indices is not None:
            self.expect_indices(indices)
            if s.dims(indices) is None:
                s.expect(indices, (s.fresh(),))
        dims = s.dims(data)
        self.expect_rows(dims)
        super().infer(s)
        rows = self.rows(s)
        for name in ("weights", "by place"):
            if name in self.by_name:
                s.expect_dtype(self.by_name[name], "f32")
        if rows is not None and "weights" in self.by_name:
            s.expect(self.by_name["weights"], (rows,))
        if "by place" in self.by_name and s.dims(self.by_name["by place"]) is None:
            s.expect(self.by_name["by place"], (s.fresh(),))
        count = s.dims(self.xs[self.lengths])
        if dims is not None and count is not None:
            s.expect(self.ys[0], (*count, *dims[1:]))

    def assume(self, s: Shapes, level: int) -> None:
        indices = self.by_name.get("indices")
        if level == 1 and indices is not None and indices.dtype is None:
            s.expect_dtype(indices, "i32")

    def build(self, e: Emitter) -> None:
        b, parts, rows = e.b, self.parts(e), e[self.xs[0]]
        if "indices" in self.by_name:
            rows = b.gather(rows, e[self.by_name["indices"]], 0)
        rank = len(dims_of(rows))
        weights = self._weights(e, parts)
        if weights is not None:
            rows = b.mul(rows, along(b, weights, 0, rank))
        lowest = parts.filled(b, 0.0 if self.reduces != "max" else -inf, e.dims(self.ys[0]))
        y = b.scatter("max" if self.reduces == "max" else "sum", lowest, rows, parts.part, 0)
        if self.reduces == "mean":
            y = b.div(y, self.counts(e, rank))
        if self.reduces == "max":
            lengths = e[self.xs[self.lengths]]
            none = b.compare("eq", lengths, b.full_like(lengths, 0))
            y = b.select(along(b, none, 0, rank), b.fill(0.0, ()), y)
        e[self.ys[0]] = y

    def _weights(self, e: Emitter, parts: RowParts) -> SSAValue | None:
        if "by place" in self.by_name:
            return e.b.gather(e[self.by_name["by place"]], parts.places(e.b), 0)
        return e[self.by_name["weights"]] if "weights" in self.by_name else None


def _reduced(text: str, names: str, reduces: str = "sum") -> type[Operator]:
    """An operator of the data, and maybe weights and indices, before lengths."""
    inputs = tuple(name.strip() for name in names.split(","))
    rows = "X0" if "indices" not in inputs else f"X0[X{inputs.index('indices')}]"
    members = {
        "__doc__": f"Y[k] = {text.format(rows=rows)} of part k, of lengths X{len(inputs) - 1}; "
        f"{_CHECKED}.\n\nRefused: elements other than float32.",
        "names": inputs,
        "reduces": reduces,
        "lengths": len(inputs) - 1,
        "inputs": (len(inputs), len(inputs)),
    }
    return type("ReducedParts", (ReducedParts,), members)


class MakesRows(OfParts):
    """What makes as many rows as lengths have together, which must be known."""

    def shows(self) -> Blob:
        return self.ys[0]

    def made(self, s: Shapes) -> Dim | None:
        """How many rows there are, where that is known."""
        return self.total(s)

    def assume(self, s: Shapes, level: int) -> None:
        if level == 2 and self.made(s) is None:
            raise self.unknown_content(self.xs[self.lengths])


class LengthsTile(MakesRows):
    """Y = each row of X0 as often as X1 says, one behind another. Lengths below 0 make the call
    fail.

    Refused: lengths of which nothing tells how many rows they have together, neither their content
    nor another operator that reads them.
    """

    inputs, lengths = (2, 2), 1

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_dtype(self.xs[0], self.ys[0])
        dims, count, rows = s.dims(self.xs[0]), s.dims(self.xs[1]), self.total(s)
        if dims is not None and count is not None:
            s.expect(self.xs[0], (*count, *dims[1:]))
            if rows is not None:
                s.expect(self.ys[0], (rows, *dims[1:]))

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.gather(e[self.xs[0]], self.parts(e).part, 0)


class LengthsToSegmentIds(MakesRows):
    """Y = which part each row lies in, of lengths X. Lengths below 0 make the call fail.

    Refused: lengths of which nothing tells how many rows they have together, neither their content
    nor another operator that reads them.
    """

    lengths = 0
    dtype: ClassVar[str] = "i32"

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        rows = self.total(s)
        if rows is not None:
            s.expect(self.ys[0], (rows,), self.dtype)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.gather(self.of_parts(e), self.parts(e).part, 0)

    def of_parts(self, e: Emitter) -> SSAValue:
        """What a row has, for each part."""
        return e.b.iota(e.dims(self.xs[0]), 0, "i32")


class LengthsToWeights(LengthsToSegmentIds):
    """Y = for each row 1 / length^`power` of the part that it lies in, of lengths X, 1 in an empty
    one; `power` is 0.5 by default."""

    dtype = "f32"

    def of_parts(self, e: Emitter) -> SSAValue:
        exponent = e.b.fill(-self.args.float("power", 0.5), ())
        return e.b.exp(e.b.mul(e.b.log(self.counts(e, 1)), exponent))


class LengthsToRanges(Operator):
    """Y[k] = where part k begins, and how many rows it has, given the lengths X.

    Refused: lengths other than int32.
    """

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("i32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is None:
            s.expect(self.xs[0], (s.fresh(),))
        elif len(dims) != 1:
            raise self.error(f"lengths of shape {s.text(dims)}, expected a vector")
        else:
            s.expect(self.ys[0], self.shape(dims[0]))

    def shape(self, count: Dim) -> tuple[Dim, ...]:
        """Of the result, for so many parts."""
        return (count, Dim.of(2))

    def build(self, e: Emitter) -> None:
        lengths = e[self.xs[0]]
        begins = e.b.sub(cumulate(e.b, lengths, 0), lengths)
        e[self.ys[0]] = self.result(e.b, begins, lengths)

    def result(self, b: Builder, begins: SSAValue, lengths: SSAValue) -> SSAValue:
        """The result."""
        column = (*dims_of(lengths), 1)
        return b.concat([b.reshape(v, column) for v in (begins, lengths)], 1)


class LengthsToOffsets(LengthsToRanges):
    """Y[k] = where part k begins, given the lengths X; with `include_last_offset` also where the
    last one ends."""

    def shape(self, count: Dim) -> tuple[Dim, ...]:
        return (count + int(self.args.flag("include_last_offset")),)

    def result(self, b: Builder, begins: SSAValue, lengths: SSAValue) -> SSAValue:
        if not self.args.flag("include_last_offset"):
            return begins
        return b.concat([begins, b.reshape(total(b, lengths, [0]), (1,))], 0)


OPERATORS: dict[str, type[Operator]] = {
    "LengthsToRanges": LengthsToRanges,
    "LengthsToOffsets": LengthsToOffsets,
    "LengthsSum": _reduced("the sum of the rows {rows}", "data, lengths"),
    "LengthsMean": _reduced("the mean of the rows {rows}, 0 of none,", "data, lengths", "mean"),
    "LengthsMax": _reduced("the largest of the rows {rows}, 0 of none,", "data, lengths", "max"),
    "LengthsWeightedSum": _reduced("the sum of {rows} X1", "data, weights, lengths"),
    "SparseLengthsSum": _reduced("the sum of the rows {rows}", "data, indices, lengths"),
    "SparseLengthsMean": _reduced(
        "the mean of the rows {rows}, 0 of none,", "data, indices, lengths", "mean"
    ),
    "SparseLengthsWeightedSum": _reduced("the sum of {rows} X1", "data, weights, indices, lengths"),
    "SparseLengthsPositionalWeightedSum": _reduced(
        "the sum of {rows} X1[place in its part]", "data, by place, indices, lengths"
    ),
    "LengthsTile": LengthsTile,
    "LengthsToSegmentIds": LengthsToSegmentIds,
    "LengthsToWeights": LengthsToWeights,
}
