"""What makes and scales features: missing ones, thresholds, buckets, factors of rows, positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.elementwise import Unary
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import reciprocal, times
from rnncc.nn.axes import along


class ReplaceNaN(Unary):
    """Y = X, with `value` where it is NaN.

    Refused: tensors of integers or bools.
    """

    def build(self, e: Emitter) -> None:
        x = self.operand(e)
        value = e.b.full_like(x, self.args.float("value", 0.0))
        e[self.ys[0]] = e.b.select(e.b.compare("ne", x, x), value, x)


class IsNaN(Unary):
    """Y = whether X is NaN, as bool; Caffe2 has uint8, 0 or 1.

    Refused: tensors of integers or bools.
    """

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtype(self.ys[0], "i1")

    def build(self, e: Emitter) -> None:
        x = self.operand(e)
        e[self.ys[0]] = e.b.compare("ne", x, x)


class HasElements(Operator):
    """Y = whether X has any elements, a scalar.

    Refused: nothing.
    """

    kind: ClassVar[str] = "ne"

    def infer(self, s: Shapes) -> None:
        s.expect(self.ys[0], (), "i1")

    def build(self, e: Emitter) -> None:
        count = e.b.size(product(e.dims(self.xs[0])))
        e[self.ys[0]] = e.b.compare(self.kind, count, e.b.full_like(count, 0))


class IsEmpty(HasElements):
    """Y = whether X has no elements, a scalar."""

    kind = "eq"


class RowMul(Operator):
    """Y[n] = X0[n] X1[n], one number for each row of X0.

    Refused: elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, factors = self.xs
        self.infer_result(s)
        s.expect_dtypes("f32", x, factors, self.ys[0])
        dims = s.dims(x)
        self.expect_rows(dims)
        if dims is not None:
            s.expect(factors, dims[:1])

    def infer_result(self, s: Shapes) -> None:
        """The shape of Y."""
        s.same_shape(self.xs[0], self.ys[0])

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = self.scaled(e)

    def scaled(self, e: Emitter) -> SSAValue:
        """X0[n] X1[n]"""
        x, factors = (e[blob] for blob in self.xs)
        return e.b.mul(x, along(e.b, factors, 0, len(dims_of(x))))


class ReduceFrontWeightedSum(RowMul):
    """Y = the sum of X1[n] X0[n], where X1 has a number for each row of X0.

    Refused: elements other than float32.
    """

    def infer_result(self, s: Shapes) -> None:
        dims = s.dims(self.xs[0])
        if dims:
            s.expect(self.ys[0], dims[1:])

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.reduce("sum", self.scaled(e), [0])


class MakeTwoClass(Operator):
    """Y = 1 - X and X side by side, along a new last axis.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            s.expect(self.ys[0], (*dims, 2))

    def build(self, e: Emitter) -> None:
        x = e[self.xs[0]]
        pair = [e.b.reshape(v, (*dims_of(x), 1)) for v in (e.b.sub(e.b.fill(1.0, ()), x), x)]
        e[self.ys[0]] = e.b.concat(pair, len(dims_of(x)))


class StumpFunc(Unary):
    """Y = `high_value` where X is above `threshold`, else `low_value`.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.expect_dtype(self.xs[0], "f32")

    def build(self, e: Emitter) -> None:
        b, x = e.b, e[self.xs[0]]
        above = b.compare("gt", x, b.full_like(x, self.args.float("threshold", 0.0)))
        low, high = (self.args.float(f"{side}_value", 0.0) for side in ("low", "high"))
        e[self.ys[0]] = b.select(above, b.full_like(x, high), b.full_like(x, low))


class Bucketize(Operator):
    """Y = how many of `boundaries`, which rise, are below X, as int32.

    Refused: no boundaries, or ones that do not rise; elements other than float32.
    """

    def setup(self, maker: Resolver) -> None:
        self.boundaries = [float(v) for v in self.args.floats("boundaries")]
        rises = all(low < high for low, high in pairwise(self.boundaries))
        if not self.boundaries or not rises:
            raise self.error(f"argument 'boundaries' is {self.boundaries}, expected rising numbers")

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtype(self.xs[0], "f32")
        s.expect_dtype(self.ys[0], "i32")

    def build(self, e: Emitter) -> None:
        b, x = e.b, e[self.xs[0]]
        # Caffe2 searches: NaN, which is below none of them, ends behind all.
        reached = (b.logical_not(b.compare("le", x, b.full_like(x, n))) for n in self.boundaries)
        e[self.ys[0]] = reduce(b.add, (b.cast(flag, "i32") for flag in reached))


class PiecewiseLinearTransform(Operator):
    """Y = slope X + intercept, of the piece of the column's function that X lies in; X beyond the
    first or the last bound counts as that bound. Columns have functions of equally many pieces, one
    behind another in `slopes` and `intercepts`, and in `bounds`, which are one more for each; or
    X1, X2 and X3 have bounds, slopes and intercepts. With `binary` there is one function, of X's
    last column; a first column becomes 1 - Y of that.

    Refused: some of the three as arguments and others as inputs; arguments whose bounds fall; as
    many bounds as no number of functions has; tables of symbolic sizes.
    """

    inputs = (1, 4)
    names: ClassVar[tuple[str, ...]] = ("bounds", "slopes", "intercepts")

    def setup(self, maker: Resolver) -> None:
        self.binary = self.args.flag("binary")
        self.tables = [[float(v) for v in self.args.floats(name)] for name in self.names]
        tables = [table for table in self.tables if table]
        if len(tables) not in (0, 3) or len(self.xs) != (1 if tables else 4):
            what = "has not bounds, slopes and intercepts as three arguments, or as three inputs"
            raise self.error(what)
        if tables:
            groups, pieces = self._counts(*map(len, tables))
            bounds = np.reshape(tables[0], (groups, pieces + 1))
            if not (np.diff(bounds) >= 0).all():
                raise self.error("argument 'bounds' falls")

    def _counts(self, bounds: int, slopes: int, intercepts: int) -> tuple[int, int]:
        """How many functions there are, and how many pieces each has."""
        groups = bounds - slopes
        if slopes != intercepts or groups < 1 or slopes < groups or slopes % groups:
            what = f"{bounds} bounds, {slopes} slopes and {intercepts} intercepts fit no functions"
            raise self.error(what)
        return groups, slopes // groups

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, *self.ys)
        s.same_shape(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is None or any(s.dims(x) is None for x in self.xs[1:]):
            return
        if self.binary:
            if len(dims) not in (1, 2) or (len(dims) == 2 and dims[1] not in (1, 2)):
                raise self.error(f"data of shape {s.text(dims)}, expected one column, or two")
        elif len(dims) != 2:
            raise self.error(f"data of shape {s.text(dims)}, expected rows and columns")
        if not any(s.is_open(d) for x in self.xs[1:] for d in s.known(x)):
            groups, _ = self._sizes(s)
            if not self.binary:
                s.expect(self.xs[0], (dims[0], groups))
            elif groups != 1:
                raise self.error(f"has {groups} functions, and 'binary' says one")

    def _sizes(self, s: Shapes) -> tuple[int, int]:
        counts = [len(table) for table in self.tables if table]
        sizes = [product(s.known(x)) for x in self.xs[1:]]
        if not all(size.is_static for size in sizes):
            raise self.error("has tables of symbolic sizes")
        return self._counts(*(counts or map(int, sizes)))

    def build(self, e: Emitter) -> None:
        b, x = e.b, e[self.xs[0]]
        dims, (groups, pieces) = dims_of(x), self._sizes(e.shapes)
        tables = [b.constant(np.array(table, np.float32)) for table in self.tables if table]
        tables = tables or [e[table] for table in self.xs[1:]]
        columns = int(dims[1]) if len(dims) == 2 else 1
        x = b.slice(b.reshape(x, (dims[0], columns)), 1, columns - groups, groups)
        y = _on_pieces(b, x, tables, groups, pieces)
        if columns != groups:
            y = b.concat([b.sub(b.full_like(y, 1.0), y), y], 1)
        e[self.ys[0]] = b.reshape(y, dims)


def _on_pieces(
    b: Builder, x: SSAValue, tables: Sequence[SSAValue], groups: int, pieces: int
) -> SSAValue:
    """Of each column of x its function, given bounds, slopes and intercepts of all columns."""
    bounds = b.reshape(tables[0], (groups, pieces + 1))
    low, high = (b.reshape(b.slice(bounds, 1, at, 1), (groups,)) for at in (0, pieces))
    inner = b.slice(bounds, 1, 1, pieces - 1)
    above = b.compare("gt", b.reshape(x, (*dims_of(x), 1)), inner)
    piece = b.reduce("sum", b.cast(above, "i32"), [2])
    is_last = b.logical("and", b.compare("ge", x, high), b.compare("gt", x, low))
    piece = b.select(is_last, b.full_like(piece, pieces - 1), piece)
    first = b.mul(b.iota((groups,), 0, "i32"), b.fill(pieces, (), "i32"))
    place = b.add(piece, first)
    slope, intercept = (
        b.gather(b.reshape(table, (groups * pieces,)), place, 0) for table in tables[1:]
    )
    return b.add(b.mul(slope, b.minimum(b.maximum(x, low), high)), intercept)


class SquareRootDivide(RowMul):
    """Y[n] = X0[n] / sqrt(X1[n]), X0[n] where X1[n] is 0.

    Refused: elements other than float32.
    """

    def build(self, e: Emitter) -> None:
        b, (x, scale) = e.b, (e[blob] for blob in self.xs)
        one = b.full_like(scale, 1.0)
        scale = b.select(b.compare("eq", scale, b.full_like(scale, 0.0)), one, scale)
        factor = along(b, reciprocal(b, b.sqrt(scale)), 0, len(dims_of(x)))
        e[self.ys[0]] = b.mul(x, factor)


class SinusoidPositionEncoding(Operator):
    """Y[m, n, i] = `amplitude` sin(X[m, 0] / alpha^(i / embedding_size)) where i is even, else the
    cosine of that, for i below `embedding_size` (Vaswani et al., 2017).

    Refused: positions other than int32 and int64.
    """

    def setup(self, maker: Resolver) -> None:
        self.size = self.args.int("embedding_size", 100)
        if self.size < 1:
            raise self.error(f"argument 'embedding_size' is {self.size}, expected 1 or more")

    def infer(self, s: Shapes) -> None:
        self.expect_indices(self.xs[0])
        s.expect_dtype(self.ys[0], "f32")
        dims = s.dims(self.xs[0])
        if dims is not None:
            if len(dims) != 2:
                raise self.error(f"positions of shape {s.text(dims)}, expected two axes")
            s.expect(self.ys[0], (*dims, self.size))

    def build(self, e: Emitter) -> None:
        b, dims = e.b, e.dims(self.ys[0])
        x = b.slice(e[self.xs[0]], 1, 0, 1)  # Caffe2 takes all columns for the first one
        alpha, places = self.args.float("alpha", 10000.0), np.arange(self.size)
        rates = b.constant((alpha ** -(places / self.size)).astype(np.float32))
        positions = b.reshape(b.cast(x, "f32"), (*dims_of(x), 1))
        angle = b.mul(positions, rates)
        is_even = b.constant(places % 2 == 0)
        waves = b.select(is_even, b.sin(angle), b.cos(angle))
        waves = times(b, waves, self.args.float("amplitude", 1.0))
        e[self.ys[0]] = b.broadcast(waves, dims, range(3))


OPERATORS: dict[str, type[Operator]] = {
    kind.__name__: kind
    for kind in (
        *(ReplaceNaN, IsNaN, HasElements, IsEmpty, RowMul, MakeTwoClass, StumpFunc, Bucketize),
        PiecewiseLinearTransform,
        *(ReduceFrontWeightedSum, SquareRootDivide, SinusoidPositionEncoding),
    )
}
