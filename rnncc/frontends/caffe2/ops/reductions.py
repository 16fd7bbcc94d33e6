"""Sums, means and extremes along axes; products and distances of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import times
from rnncc.nn.axes import kept_dims
from rnncc.nn.normalisation import lp_normalise
from rnncc.nn.reduction import centre, largest, mean, root_of_powers, smallest, total
from rnncc.nn.slopes import with_backward_by_result

Reduction = Callable[[Builder, SSAValue, Sequence[int]], SSAValue]
OfRows = Callable[[Builder, SSAValue, SSAValue, Sequence[int]], SSAValue]

TINY = 1e-12
"""The least norm, and the least square of one, that Caffe2 divides by."""


class Reduced(Operator):
    """Y = what a function makes of X along some axes, which `axes` tells of X's rank."""

    function: ClassVar[Reduction]

    def axes(self, rank: int) -> Sequence[int]:
        """Those that are reduced."""
        raise NotImplementedError

    def keeps(self) -> bool:
        """Whether they stay, with size 1."""
        return False

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            s.expect(self.ys[0], self._shape(dims))

    def _shape(self, dims: Dims) -> list[Dim]:
        axes, one = self.axes(len(dims)), Dim.of(1)
        kept = [one if i in axes else d for i, d in enumerate(dims)]
        return kept if self.keeps() else [d for i, d in enumerate(dims) if i not in axes]

    def build(self, e: Emitter) -> None:
        x, dims = e[self.xs[0]], e.dims(self.xs[0])
        y = type(self).function(e.b, x, self.axes(len(dims)))
        e[self.ys[0]] = e.b.reshape(y, self._shape(dims))


class OfAxes(Reduced):
    """Y = a reduction of X along `axes`, all without it; they stay unless `keepdims` is 0."""

    def axes(self, rank: int) -> Sequence[int]:
        axes = [int(axis) for axis in self.args.ints("axes")] or range(rank)
        if any(not -rank <= axis < rank for axis in axes):
            raise self.error(f"argument 'axes' is {list(axes)}, but the tensor has rank {rank}")
        return sorted({axis % rank for axis in axes})

    def keeps(self) -> bool:
        return self.args.flag("keepdims", default=True)


class OfFront(Reduced):
    """Y = a reduction of X along its first axes, so many as `num_reduce_dim` says."""

    def setup(self, maker: Resolver) -> None:
        self.count = self.args.int("num_reduce_dim", 1)

    def axes(self, rank: int) -> Sequence[int]:
        return range(self._checked(rank))

    def _checked(self, rank: int) -> int:
        if not 0 <= self.count <= rank:
            raise self.error(f"argument 'num_reduce_dim' is {self.count}, for a rank of {rank}")
        return self.count


class OfBack(OfFront):
    """Y = a reduction of X along its last axes, so many as `num_reduce_dim` says."""

    def axes(self, rank: int) -> Sequence[int]:
        return range(rank - self._checked(rank), rank)


class OfTail(Reduced):
    """Y = a reduction of X along all axes but the first."""

    def axes(self, rank: int) -> Sequence[int]:
        return range(1, rank)


class OfMatrices(Reduced):
    """Y = a reduction of the matrices [rows, columns] of X [N, rows, columns] along an axis."""

    reduced: ClassVar[int]

    def axes(self, rank: int) -> Sequence[int]:
        if rank != 3:
            raise self.error(f"data of rank {rank}, expected matrices in a batch")
        return [self.reduced]


class PairedRows(Operator):
    """Y[n] = what a function makes of the rows X0[n] and X1[n], which run over all axes behind the
    first."""

    inputs = (2, 2)
    function: ClassVar[OfRows]

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        s.same_shape(*self.xs)
        dims = s.dims(self.xs[0])
        self.expect_rows(dims)
        if dims is not None:
            s.expect(self.ys[0], dims[:1])

    def build(self, e: Emitter) -> None:
        x, y = (e[blob] for blob in self.xs)
        e[self.ys[0]] = type(self).function(e.b, x, y, range(1, len(dims_of(x))))


class DotProductWithPadding(Operator):
    """Y[n] = the sum of X0[n] X1[n], where the shorter of the two has `pad_value` behind it, or is
    repeated, with `replicate`.

    Refused: rows of symbolic sizes that are not the same; elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        pair = [s.dims(x) for x in self.xs]
        for dims, other in zip(pair, reversed(self.xs), strict=True):
            if dims is None:
                continue
            if not 1 <= len(dims) <= 2:
                raise self.error(f"data of shape {s.text(dims)}, expected a vector or a matrix")
            s.expect(self.ys[0], dims[:1])
            if s.dims(other) is None:
                s.expect(other, (dims[0], *(s.fresh() for _ in dims[1:])))
            elif len(s.known(other)) != len(dims):
                raise self.error(f"ranks {len(dims)} and {len(s.known(other))}, expected one")
            else:
                s.expect(other, (dims[0], *s.known(other)[1:]))

    def assume(self, s: Shapes, level: int) -> None:
        a, b = (s.dims(x) for x in self.xs)
        if level != 2 or a is None or b is None or a[1:] == b[1:]:
            return
        if not (a[1].is_static and b[1].is_static):
            raise self.error(f"rows of {s.size_text(a[1])} and {s.size_text(b[1])} elements")
        widths = sorted((int(a[1]), int(b[1])))
        if self.args.flag("replicate") and (not widths[0] or widths[1] % widths[0]):
            raise self.error(f"repeats rows of {widths[0]} elements to have {widths[1]}")

    def build(self, e: Emitter) -> None:
        x, y = (e[blob] for blob in self.xs)
        if dims_of(x)[1:] != dims_of(y)[1:]:
            widths = [int(dims_of(v)[1]) for v in (x, y)]
            x, y = (self._filled(e.b, v, max(widths)) for v in (x, y))
        e[self.ys[0]] = _dot(e.b, x, y, range(1, len(dims_of(x))))

    def _filled(self, b: Builder, x: SSAValue, width: int) -> SSAValue:
        rows, own = dims_of(x)[0], int(dims_of(x)[1])
        if own == width:
            return x
        if self.args.flag("replicate"):
            return b.concat([x] * (width // own), 1)
        return b.concat([x, b.fill(self.args.float("pad_value", 0.0), (rows, width - own))], 1)


class Normalize(Operator):
    """Y = X / sqrt(sum X²) along `axis`, of norms of 1e-12 at least.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtypes("f32", self.xs[0], self.ys[0])

    def build(self, e: Emitter) -> None:
        axis = self.axis("axis", -1, len(e.dims(self.xs[0])))
        e[self.ys[0]] = self.normalised(e.b, e[self.xs[0]], axis)

    def normalised(self, b: Builder, x: SSAValue, axis: int) -> SSAValue:
        """Y, of X."""
        norm = b.reshape(root_of_powers(b, x, [axis]), kept_dims(x, [axis]))
        return b.div(x, b.maximum(norm, b.fill(TINY, ())))


class NormalizeL1(Normalize):
    """Y = X / sum |X| along `axis`; zeros stay."""

    def normalised(self, b: Builder, x: SSAValue, axis: int) -> SSAValue:
        return lp_normalise(b, x, 1, axis)


class Moments(OfAxes):
    """Y0, Y1 = the mean and the variance, of all elements, of X along `axes`, all by default, which
    stay unless `keepdims` is 0.

    Refused: elements other than float32.
    """

    outputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_shape(*self.ys)
        s.expect_dtype(self.ys[1], "f32")

    def build(self, e: Emitter) -> None:
        x, axes = e[self.xs[0]], self.axes(len(e.dims(self.xs[0])))
        average, centred = centre(e.b, x, axes)
        moments = average, mean(e.b, e.b.mul(centred, centred), axes)
        for y, value in zip(self.ys, moments, strict=True):
            e[y] = e.b.reshape(value, e.dims(y))


class LpNorm(Operator):
    """Y = the sum of |X|, or of X² with `p` 2, the default; with `average` the mean; in a vector of
    one element.

    Refused: elements other than float32.
    """

    def setup(self, maker: Resolver) -> None:
        self.p = self.args.int("p", 2)
        if self.p not in (1, 2):
            raise self.error(f"argument 'p' is {self.p}, expected 1 or 2")

    def infer(self, s: Shapes) -> None:
        s.expect(self.ys[0], (1,), "f32")
        s.expect_dtype(self.xs[0], "f32")

    def build(self, e: Emitter) -> None:
        b, x = e.b, e[self.xs[0]]
        powers = b.abs(x) if self.p == 1 else b.mul(x, x)
        function = mean if self.args.flag("average") else total
        e[self.ys[0]] = b.reshape(function(b, powers, range(len(dims_of(x)))), (1,))


class SumReduceLike(Operator):
    """Y = X0 summed over the axes that X1 lacks: X1's are its last ones, or stand from `axis` on.

    Refused: `axis_str`; elements other than float32.
    """

    inputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        if "axis_str" in self.args:
            raise self.error("argument 'axis_str' is not supported")

    def infer(self, s: Shapes) -> None:
        x, like = self.xs
        s.same_shape(like, self.ys[0])
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        dims, kept = s.dims(x), s.dims(like)
        if dims is not None and kept is not None and not self._is_one(kept):
            first = self._first(len(dims), len(kept))
            if not all(map(s.equal, kept, dims[first : first + len(kept)])):
                raise self.error(f"{s.text(kept)} are no axes of {s.text(dims)} from {first} on")

    @staticmethod
    def _is_one(kept: Dims) -> bool:
        """Whether all is summed."""
        return all(d == 1 for d in kept)

    def _first(self, rank: int, kept: int) -> int:
        first = self.args.int("axis", -1)
        first = rank - kept if first == -1 else first
        if not 0 <= first <= rank - kept:
            raise self.error(f"{kept} axes from {first} on, of {rank}")
        return first

    def build(self, e: Emitter) -> None:
        dims, kept = e.dims(self.xs[0]), e.dims(self.xs[1])
        axes = list(range(len(dims)))
        if not self._is_one(kept):
            first = self._first(len(dims), len(kept))
            axes = [axis for axis in axes if not first <= axis < first + len(kept)]
        e[self.ys[0]] = e.b.reshape(total(e.b, e[self.xs[0]], axes), kept)


def _l1(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return total(b, b.abs(x), axes)


def _l2(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Caffe2's slope at 0 is 1."""

    def backward(b: Builder, dy: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        norm, dy = (b.reshape(v, kept_dims(x, axes)) for v in (y, dy))
        slope = b.select(b.compare("gt", norm, b.fill(0.0, ())), b.div(x, norm), b.fill(1.0, ()))
        return b.mul(dy, slope)

    y = root_of_powers(b, x, axes)
    return with_backward_by_result(b, y, x, backward)


def _dot(b: Builder, x: SSAValue, y: SSAValue, axes: Sequence[int]) -> SSAValue:
    return total(b, b.mul(x, y), axes)


def _half_square(b: Builder, x: SSAValue, y: SSAValue, axes: Sequence[int]) -> SSAValue:
    difference = b.sub(x, y)
    return times(b, total(b, b.mul(difference, difference), axes), 0.5)


def _distance(b: Builder, x: SSAValue, y: SSAValue, axes: Sequence[int]) -> SSAValue:
    return total(b, b.abs(b.sub(x, y)), axes)


def _cosine(b: Builder, x: SSAValue, y: SSAValue, axes: Sequence[int]) -> SSAValue:
    squares = [b.maximum(_dot(b, v, v, axes), b.fill(TINY, ())) for v in (x, y)]
    return b.div(_dot(b, x, y, axes), b.sqrt(b.mul(*squares)))


def _reduced(base: type[Reduced], formula: str, function: Reduction, **members: int) -> type:
    text = f"Y = {formula}.\n\nRefused: elements other than float32."
    own = {"__doc__": text, "function": staticmethod(function)}
    return type(base.__name__, (base,), {**own, **members})


def _paired(formula: str, function: OfRows) -> type[Operator]:
    text = f"Y[n] = {formula} over all axes but the first.\n\nRefused: elements other than float32."
    members = {"__doc__": text, "function": staticmethod(function)}
    return type("PairedRows", (PairedRows,), members)


_AXES = {
    "Sum": ("sum of X", total),
    "Mean": ("mean of X", mean),
    "Max": ("largest element of X", largest),
    "Min": ("smallest element of X", smallest),
    "L1": ("sum of |X|", _l1),
    "L2": ("sqrt of the sum of X²", _l2),
}
_BY_AXES = "along `axes`, all by default, which stay unless `keepdims` is 0"
_FIRST = "along the first axes, `num_reduce_dim` of them"
_LAST = "along the last axes, `num_reduce_dim` of them"

OPERATORS: dict[str, type[Operator]] = {
    **{
        f"Reduce{name}": _reduced(OfAxes, f"the {text} {_BY_AXES}", function)
        for name, (text, function) in _AXES.items()
    },
    **{
        f"Reduce{side}{name}": _reduced(base, f"the {_AXES[name][0]} {where}", _AXES[name][1])
        for side, base, where in (("Front", OfFront, _FIRST), ("Back", OfBack, _LAST))
        for name in ("Sum", "Mean", "Max")
    },
    "ReduceTailSum": _reduced(OfTail, "the sum of X along all axes but the first", total),
    "RowwiseMax": _reduced(
        OfMatrices, "the largest element of each row of the matrices X[n]", largest, reduced=2
    ),
    "ColwiseMax": _reduced(
        OfMatrices, "the largest element of each column of the matrices X[n]", largest, reduced=1
    ),
    "DotProductWithPadding": DotProductWithPadding,
    "DotProduct": _paired("the sum of X0[n] X1[n]", _dot),
    "SquaredL2Distance": _paired("half the sum of (X0[n] - X1[n])²", _half_square),
    "L1Distance": _paired("the sum of |X0[n] - X1[n]|", _distance),
    "CosineSimilarity": _paired(
        "the sum of X0[n] X1[n], divided by the root of the product of their sums of squares",
        _cosine,
    ),
    "Moments": Moments,
    "LpNorm": LpNorm,
    "SumReduceLike": SumReduceLike,
    "Normalize": Normalize,
    "NormalizeL1": NormalizeL1,
}
