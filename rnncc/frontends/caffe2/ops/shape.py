"""Operators that see the same elements in another shape: Reshape, Squeeze, Transpose and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims, product

MAX_RANK = 16


class Reshaping(Operator):
    """What has X's elements, in their order, in another shape."""

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.reshape(e[self.xs[0]], e.dims(self.ys[0]))


class Reshape(Reshaping):
    """Y = X's elements in another shape: 0 keeps an axis's size, one -1 takes what is left.

    Refused: a shape in a blob whose content is not known at compile time; a shape that does not
    follow for every value of a symbolic size.
    """

    inputs = (1, 2)
    outputs = (1, 2)
    takes_ends = True

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims, new = s.dims(self.xs[0]), self._new_shape(s)
        if new is None:
            return
        if sum(d == -1 for d in new) > 1 or any(d.is_static and int(d) < -1 for d in new):
            raise self.error(f"shape {s.text(new)} has more than one -1, or a size below")
        if dims is None:
            if 0 not in new:
                s.expect(self.ys[0], [s.fresh() if d == -1 else d for d in new])
            return
        result = self._result(s, dims, new)
        s.expect(self.ys[0], result)
        if self.xs[0].end is not None:
            self._keep_end(result, new)
        elif len(self.ys) == 2:
            s.expect_value(self.ys[1], dims, "i64")

    def _keep_end(self, result: Sequence[Dim], new: Dims) -> None:
        """Of what ends where a run decides, one row ends there too."""
        if product(result[:-1]) != 1 or new[-1] != -1:
            raise self.error("does not make one row of what ends where a run decides")
        self.ys[0].end = self.xs[0].end
        if len(self.ys) == 2 and self.ys[1].uses:
            raise self.error(f'a run decides what "{self.ys[1].name}" holds')

    def _new_shape(self, s: Shapes) -> Dims | None:
        if len(self.xs) == 2:
            return s.value(self.xs[1])
        if "shape" not in self.args:
            raise self.error("lacks the argument 'shape'")
        new = self.args.ints("shape")
        if len(new) > MAX_RANK:
            raise self.error(f"shape has {len(new)} axes")
        return tuple(Dim.of(d) for d in new)

    def _result(self, s: Shapes, dims: Dims, new: Dims) -> list[Dim]:
        if any(d == 0 and i >= len(dims) for i, d in enumerate(new)):
            raise self.error(f"shape {s.text(new)} keeps an axis that {s.text(dims)} has not")
        result = [dims[i] if d == 0 else d for i, d in enumerate(new)]
        total, fixed = product(dims), product(d for d in result if d != -1)
        if -1 in result:
            at = result.index(Dim.of(-1))
            known = s.dims(self.ys[0])
            open_size = total.divide(fixed)
            open_size = open_size if open_size is not None else known[at] if known else s.fresh()
            result[at], fixed = open_size, fixed * open_size
        if not s.equal(fixed, total):
            raise self.error(f"{s.text(dims)} does not reshape to {s.text(new)}")
        return result

    def assume(self, s: Shapes, level: int) -> None:
        if len(self.xs) == 2:
            self.require_content(s, level, self.xs[1])
        result = s.dims(self.ys[0])
        if level == 2 and result is not None and any(s.is_open(d) for d in result):
            dims = s.dims(self.xs[0])
            if dims is not None and not any(s.is_open(d) for d in dims):
                new = self._new_shape(s) or ()
                raise self.error(f"{s.text(dims)} does not reshape to {s.text(new)}")


class Squeeze(Reshaping):
    """Y = X without the axes `dims`, each of size 1.

    Refused: `dims` that are empty or negative.
    """

    adds: ClassVar[bool] = False

    def setup(self, maker: Resolver) -> None:
        axes = sorted({int(axis) for axis in self.args.ints("dims")})
        if not axes or axes[0] < 0 or axes[-1] >= MAX_RANK:
            raise self.error(f"argument 'dims' is {axes}, expected axes from 0 to {MAX_RANK - 1}")
        self.axes = axes

    def infer(self, s: Shapes) -> None:
        short, long = (self.xs[0], self.ys[0]) if self.adds else (self.ys[0], self.xs[0])
        s.same_dtype(short, long)
        known, rest = s.dims(long), s.dims(short)
        if known is not None:
            if self.axes[-1] >= len(known):
                raise self.error(f"no axis {self.axes[-1]} in {s.text(known)}")
            s.expect(long, [1 if i in self.axes else d for i, d in enumerate(known)])
            s.expect(short, [d for i, d in enumerate(known) if i not in self.axes])
        elif rest is not None:
            if self.axes[-1] >= len(rest) + len(self.axes):
                raise self.error(f"no axis {self.axes[-1]} beside {s.text(rest)}")
            wide = list(rest)
            for axis in self.axes:
                wide.insert(axis, Dim.of(1))
            s.expect(long, wide)


class ExpandDims(Squeeze):
    """Y = X with new axes `dims` of size 1."""

    adds = True


class Transpose(Operator):
    """Y's axis i is X's axis axes[i]; all reversed by default.

    Refused: negative `axes`.
    """

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        axes = [int(axis) for axis in self.args.ints("axes")]
        known = s.dims(self.xs[0])
        known = s.dims(self.ys[0]) if known is None else known
        if known is None and not axes:
            return
        rank = len(axes) if known is None else len(known)
        axes = axes or list(range(rank))[::-1]
        if sorted(axes) != list(range(rank)):
            raise self.error(f"axes {axes} do not permute the axes of a tensor of rank {rank}")
        if s.dims(self.xs[0]) is None:
            s.expect(self.xs[0], [s.fresh() for _ in axes])
        dims = s.known(self.xs[0])
        s.expect(self.ys[0], [dims[axis] for axis in axes])

    def build(self, e: Emitter) -> None:
        rank = len(e.dims(self.xs[0]))
        axes = [int(axis) for axis in self.args.ints("axes")] or list(range(rank))[::-1]
        e[self.ys[0]] = e.b.transpose(e[self.xs[0]], axes)


class MergeDim(Reshaping):
    """Y = X with its first two axes as one.

    Refused: nothing.
    """

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            if len(dims) < 2:
                raise self.error(f"data of shape {s.text(dims)}, expected two axes or more")
            s.expect(self.ys[0], (dims[0] * dims[1], *dims[2:]))


class PrependDim(MergeDim):
    """Y = X with its first axis as two, of which the first has `dim_size` elements.

    Refused: an axis of symbolic size that is no multiple of it.
    """

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims, size = s.dims(self.xs[0]), self.args.int("dim_size", 0)
        if size < 1:
            raise self.error(f"argument 'dim_size' is {size}, expected 1 or more")
        if dims is not None:
            rest = s.resolve(dims[0]).divide(size) if dims else None
            if rest is None:
                raise self.error(f"data of shape {s.text(dims)} in {size} parts")
            s.expect(self.ys[0], (size, rest, *dims[1:]))


class Size(Operator):
    """Y = how many elements X has, an int64 scalar.

    Refused: nothing.
    """

    def infer(self, s: Shapes) -> None:
        s.expect(self.ys[0], (), "i64")

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.size(product(e.dims(self.xs[0])), "i64")


class Shape(Operator):
    """Y = the sizes of X's axes, or of the axes given, as int64.

    Refused: negative `axes`.
    """

    def infer(self, s: Shapes) -> None:
        dims = s.dims(self.xs[0])
        if dims is None:
            return
        axes = [int(axis) for axis in self.args.ints("axes")] or list(range(len(dims)))
        if not all(0 <= axis < len(dims) for axis in axes):
            raise self.error(f"axes {axes} of a tensor of rank {len(dims)}")
        s.expect_value(self.ys[0], [dims[axis] for axis in axes], "i64")

    def build(self, e: Emitter) -> None:
        """The content is built where it is read."""


OPERATORS: dict[str, type[Operator]] = {
    "Reshape": Reshape,
    "Squeeze": Squeeze,
    "ExpandDims": ExpandDims,
    "Transpose": Transpose,
    "Shape": Shape,
    "MergeDim": MergeDim,
    "PrependDim": PrependDim,
    "Size": Size,
}
