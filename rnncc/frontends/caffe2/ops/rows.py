"""Operators that pick rows, repeat them, or lay elements out anew: Gather, Tile, Flatten, Where."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.shape import Reshaping
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims, product
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import channels_first, channels_last
from rnncc.nn.indexing import one_hot


class Gather(Operator):
    """Y = the slices of X0 along `axis` that X1 numbers, from 0 on; a call with another number
    fails.

    Refused: indices other than int32 and int64.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, index = self.xs
        s.same_dtype(x, self.ys[0])
        self.expect_indices(index)
        dims, places, whole = s.dims(x), s.dims(index), s.dims(self.ys[0])
        if dims is None:
            return
        axis = self._axis(dims)
        if places is None and whole is not None:
            count = len(whole) - len(dims) + 1
            if count >= 0:
                places = tuple(s.fresh() for _ in range(count))
                s.expect(index, places)
        if places is not None:
            s.expect(self.ys[0], (*dims[:axis], *places, *dims[axis + 1 :]))
        self._infer_sizes(s)

    def _infer_sizes(self, s: Shapes) -> None:
        """Of a vector of sizes, those with these numbers."""
        sizes, index = (s.value(x) for x in self.xs)
        if sizes is None or index is None or not all(i.is_static for i in index):
            return
        if all(0 <= int(i) < len(sizes) for i in index):
            s.expect_value(self.ys[0], [sizes[int(i)] for i in index], self.ys[0].dtype or "i64")

    def assume(self, s: Shapes, level: int) -> None:
        if level == 1 and self.xs[1].dtype is None:
            s.expect_dtype(self.xs[1], "i32")

    def _axis(self, dims: Dims) -> int:
        return self.axis("axis", 0, len(dims))

    def build(self, e: Emitter) -> None:
        axis = self._axis(e.dims(self.xs[0]))
        e[self.ys[0]] = e.b.gather(e[self.xs[0]], e[self.xs[1]], axis)


class BatchGather(Gather):
    """Y = of each row of X0 the elements that X1 numbers, from 0 on, whatever `axis` says; a call
    with another number fails."""

    def _axis(self, dims: Dims) -> int:
        if len(dims) < 2:
            raise self.error(f"has data of {len(dims)} axes, expected 2 or more")
        return 1


class BatchPermutation(Gather):
    """Y = the rows of X0 in the order of X1, from 0 on; a call with another number fails."""

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_shape(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            s.expect(self.xs[1], dims[:1])

    def _axis(self, dims: Dims) -> int:
        return 0


class SparseToDense(Operator):
    """Y = zeros, as many rows as X2 has, with the rows of X1 added where X0 numbers, from 0 on; a
    call with another number fails.

    Refused: no X2; indices other than int32 and int64; elements other than float32.
    """

    inputs = (3, 3)

    def infer(self, s: Shapes) -> None:
        index, rows, like = self.xs
        s.expect_dtypes("f32", rows, self.ys[0])
        self.expect_indices(index)
        dims, all_rows = s.dims(rows), s.dims(like)
        if dims is None:
            return
        s.expect(index, dims[:1])
        if all_rows is not None:
            s.expect(self.ys[0], (*all_rows[:1], *dims[1:]))

    def build(self, e: Emitter) -> None:
        index, rows, _ = self.xs
        zeros = e.b.fill(0.0, e.dims(self.ys[0]))
        e[self.ys[0]] = e.b.scatter("sum", zeros, e[rows], e[index], 0)


class OneHot(Operator):
    """Y[n] = X1 zeros, with a 1 where X0[n] says; without one where that is none of them.

    Refused: a number of zeros that is not known at compile time; indices other than int64.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        index, size = self.xs
        s.expect_dtypes("i64", index, size)
        s.expect_dtype(self.ys[0], "f32")
        dims, count = s.dims(index), s.value(size)
        if dims is None:
            s.expect(index, (s.fresh(),))
        elif len(dims) != 1:
            raise self.error(f"indices of shape {s.text(dims)}, expected a vector")
        elif count is not None:
            if len(count) != 1:
                raise self.error(f"{len(count)} numbers of zeros, expected one")
            s.expect(self.ys[0], (*dims, *count))

    def assume(self, s: Shapes, level: int) -> None:
        self.require_content(s, level, self.xs[1])

    def build(self, e: Emitter) -> None:
        _, size = e.dims(self.ys[0])
        e[self.ys[0]] = e.b.cast(one_hot(e.b, e[self.xs[0]], size, 1), "f32")


class Expand(Operator):
    """Y = X broadcast against the shape X1, as in NumPy; -1 keeps an axis of X.

    Refused: a shape whose content is not known at compile time.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, shape = self.xs
        s.same_dtype(x, self.ys[0])
        s.expect_dtype(shape, "i64")
        dims, new = s.dims(x), s.value(shape)
        if dims is None or new is None or any(s.is_open(d) for d in dims):
            return
        rank, one = max(len(dims), len(new)), Dim.of(1)
        old = [one] * (rank - len(dims)) + list(dims)
        wide = [one] * (rank - len(new)) + [one if d == -1 else d for d in new]
        for a, b in zip(old, wide, strict=True):
            if not (a == 1 or b == 1 or s.equal(a, b)):
                raise self.error(f"{s.text(dims)} does not broadcast against {s.text(new)}")
        s.expect(self.ys[0], [b if a == 1 else a for a, b in zip(old, wide, strict=True)])

    def assume(self, s: Shapes, level: int) -> None:
        self.require_content(s, level, self.xs[1])

    def build(self, e: Emitter) -> None:
        x, dims = e[self.xs[0]], e.dims(self.ys[0])
        first = len(dims) - len(dims_of(x))
        e[self.ys[0]] = e.b.broadcast(x, dims, range(first, len(dims)))


class Tile(Operator):
    """Y = X `tiles` times, one copy behind another along `axis`.

    Refused: numbers in blobs; a number of copies below 1.
    """

    def setup(self, maker: Resolver) -> None:
        if "tiles" not in self.args or "axis" not in self.args:
            raise self.error("lacks the argument 'tiles' or 'axis'")
        self.tiles = self.args.int("tiles", 1)
        if self.tiles < 1:
            raise self.error(f"argument 'tiles' is {self.tiles}, expected 1 or more")

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            axis = self.axis("axis", 0, len(dims))
            s.expect(self.ys[0], (*dims[:axis], dims[axis] * self.tiles, *dims[axis + 1 :]))

    def build(self, e: Emitter) -> None:
        dims = e.dims(self.xs[0])
        axis = self.axis("axis", 0, len(dims))
        wide = (*dims[:axis], self.tiles, *dims[axis:])
        copies = e.b.broadcast(e[self.xs[0]], wide, [a for a in range(len(wide)) if a != axis])
        e[self.ys[0]] = e.b.reshape(copies, e.dims(self.ys[0]))


class NumpyTile(Operator):
    """Y = X0 as often along each axis as X1 says, one copy behind another.

    Refused: numbers that are not known at compile time, or below 1.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        s.expect_dtype(self.xs[1], "i64")
        dims, tiles = s.dims(self.xs[0]), s.value(self.xs[1])
        if dims is None or tiles is None:
            return
        if len(tiles) != len(dims) or any(not n.is_static or int(n) < 1 for n in tiles):
            raise self.error(f"data of shape {s.text(dims)} {s.text(tiles)} times")
        s.expect(self.ys[0], [d * n for d, n in zip(dims, tiles, strict=True)])

    def assume(self, s: Shapes, level: int) -> None:
        self.require_content(s, level, self.xs[1])

    def build(self, e: Emitter) -> None:
        dims, tiles = e.dims(self.xs[0]), e.shapes.value(self.xs[1]) or ()
        wide = [d for pair in zip(tiles, dims, strict=True) for d in pair]
        copies = e.b.broadcast(e[self.xs[0]], wide, range(1, len(wide), 2))
        e[self.ys[0]] = e.b.reshape(copies, e.dims(self.ys[0]))


class Flatten(Reshaping):
    """Y = X as a matrix: the axes before `axis` are its rows.

    Refused: nothing.
    """

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        # of one unknown size the product is an equation that can be solved
        if dims is not None and sum(s.is_open(d) for d in dims) < 2:
            s.expect(self.ys[0], self._shape(dims))

    def _shape(self, dims: Dims) -> Dims:
        axis = self.axis("axis", 1, len(dims), extra=1)
        return product(dims[:axis]), product(dims[axis:])


class FlattenToVec(Flatten):
    """Y = X's elements as a vector."""

    def _shape(self, dims: Dims) -> Dims:
        return (product(dims),)


class ResizeLike(Reshaping):
    """Y = X0's elements in the shape of X1, which has as many.

    Refused: nothing.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, like = self.xs
        s.same_dtype(x, self.ys[0])
        s.same_shape(like, self.ys[0])
        dims, new = s.dims(x), s.dims(like)
        if dims is not None and new is not None and not s.equal(product(dims), product(new)):
            raise self.error(f"{s.text(dims)} does not reshape to {s.text(new)}")


class Where(Operator):
    """Y = X1 where X0 is true, else X2; with `broadcast_on_rows` X0 is a vector that tells it of
    rows.

    Refused: nothing.
    """

    inputs = (3, 3)

    def infer(self, s: Shapes) -> None:
        condition, *values = self.xs
        s.expect_dtype(condition, "i1")
        s.same_dtype(*values, self.ys[0])
        s.same_shape(*values, self.ys[0])
        dims = s.dims(self.ys[0])
        if not self._of_rows():
            s.same_shape(condition, self.ys[0])
        elif dims is not None:
            s.expect(condition, dims[:1])

    def _of_rows(self) -> bool:
        return self.args.flag("broadcast_on_rows")

    def build(self, e: Emitter) -> None:
        condition, left, right = (e[x] for x in self.xs)
        dims = e.dims(self.ys[0])
        if self._of_rows():
            condition = e.b.reshape(condition, (*dims[:1], *[1] * (len(dims) - 1)))
        e[self.ys[0]] = e.b.select(condition, left, right)


class Conditional(Where):
    """Y = the rows of X1 where the vector X0 is true, else those of X2."""

    def _of_rows(self) -> bool:
        return True


class ToChannelsLast(Operator):
    """Y = X [N, C, ...] as [N, ..., C].

    Refused: nothing.
    """

    function: ClassVar[Callable[[Builder, SSAValue], SSAValue]] = staticmethod(channels_last)

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            if len(dims) < 2:
                raise self.error(f"data of shape {s.text(dims)}, expected channels")
            s.expect(self.ys[0], self._moved(dims))

    def _moved(self, dims: Dims) -> Dims:
        return (dims[0], *dims[2:], dims[1])

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = type(self).function(e.b, e[self.xs[0]])


class ToChannelsFirst(ToChannelsLast):
    """Y = X [N, ..., C] as [N, C, ...]."""

    function = staticmethod(channels_first)

    def _moved(self, dims: Dims) -> Dims:
        return (dims[0], dims[-1], *dims[1:-1])


OPERATORS: dict[str, type[Operator]] = {
    "Gather": Gather,
    "BatchGather": BatchGather,
    "BatchPermutation": BatchPermutation,
    "SparseToDense": SparseToDense,
    "OneHot": OneHot,
    "Tile": Tile,
    "NumpyTile": NumpyTile,
    "Expand": Expand,
    "Flatten": Flatten,
    "FlattenToVec": FlattenToVec,
    "ResizeLike": ResizeLike,
    "Where": Where,
    "Conditional": Conditional,
    "NCHW2NHWC": ToChannelsLast,
    "NHWC2NCHW": ToChannelsFirst,
}
