"""What training minimises besides entropies: means over a batch, margins; and how it went."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import plus
from rnncc.nn.indexing import extremum_place
from rnncc.nn.reduction import mean, total


class SumElements(Operator):
    """Y = the sum of X's elements, a scalar; with `average` their mean.

    Refused: elements other than float32.
    """

    dtypes: ClassVar[tuple[str, str]] = ("f32", "f32")
    """Of X and of Y."""

    def infer(self, s: Shapes) -> None:
        s.expect_dtype(self.xs[0], self.dtypes[0])
        s.expect(self.ys[0], (), self.dtypes[1])

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = self.total(e, e[self.xs[0]])

    def averages(self) -> bool:
        """Whether it is a mean."""
        return self.args.flag("average")

    def total(self, e: Emitter, x: SSAValue) -> SSAValue:
        """The sum or the mean."""
        return (mean if self.averages() else total)(e.b, x, range(len(dims_of(x))))


class SumElementsInt(SumElements):
    """Y = the sum of X's elements, a scalar, as int64.

    Refused: elements other than int32.
    """

    dtypes = ("i32", "i64")

    def build(self, e: Emitter) -> None:
        x = e.b.cast(e[self.xs[0]], "i64")
        e[self.ys[0]] = total(e.b, x, range(len(dims_of(x))))


class SumSqrElements(SumElements):
    """Y = the sum of the squares of X's elements, a scalar; with `average` their mean."""

    def build(self, e: Emitter) -> None:
        x = e[self.xs[0]]
        e[self.ys[0]] = self.total(e, e.b.mul(x, x))


class AveragedLoss(SumElements):
    """Y = the mean of X's elements, a scalar."""

    def averages(self) -> bool:
        return True


class MarginRankingCriterion(Operator):
    """Y = max(0, margin - X2 (X0 - X1)), of labels X2 that are 1 or -1.

    Refused: labels other than int32; elements other than float32.
    """

    inputs = (3, 3)

    def infer(self, s: Shapes) -> None:
        *scores, labels = self.xs
        s.same_shape(*self.xs, self.ys[0])
        s.expect_dtypes("f32", *scores, self.ys[0])
        s.expect_dtype(labels, "i32")

    def build(self, e: Emitter) -> None:
        left, right, labels = (e[blob] for blob in self.xs)
        distance = e.b.mul(e.b.cast(labels, "f32"), e.b.sub(left, right))
        loss = plus(e.b, e.b.neg(distance), self.args.float("margin", 1.0))
        e[self.ys[0]] = _from_zero(e.b, loss)


class CosineEmbeddingCriterion(Operator):
    """Y = 1 - X0 where the label X1 is 1, else max(0, X0 - margin).

    Refused: labels other than int32; elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        similar, labels = self.xs
        s.same_shape(*self.xs, self.ys[0])
        s.expect_dtypes("f32", similar, self.ys[0])
        s.expect_dtype(labels, "i32")

    def build(self, e: Emitter) -> None:
        b, (similar, labels) = e.b, (e[blob] for blob in self.xs)
        unlike = _from_zero(b, plus(b, similar, -self.args.float("margin", 0.0)))
        alike = b.compare("eq", labels, b.full_like(labels, 1))
        e[self.ys[0]] = b.select(alike, b.sub(b.fill(1.0, ()), similar), unlike)


class Perplexity(AveragedLoss):
    """Y = exp(-mean log X), of probabilities X, a scalar.

    Refused: elements other than float32.
    """

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.exp(e.b.neg(self.total(e, e.b.log(e[self.xs[0]]))))


class Accuracy(Operator):
    """Y = the part of all rows X0[n] whose largest element, the first of equals, is X0[n, X1[n]]; a
    scalar.

    Refused: `top_k` other than 1; labels other than int32; elements other than float32.
    """

    inputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        if self.args.int("top_k", 1) != 1:
            raise self.error("argument 'top_k' is not 1, which is not supported")

    def infer(self, s: Shapes) -> None:
        scores, labels = self.xs
        s.expect(self.ys[0], (), "f32")
        s.expect_dtype(scores, "f32")
        s.expect_dtype(labels, "i32")
        dims = s.dims(scores)
        if dims is None:
            s.expect(scores, (s.fresh(), s.fresh()))
        elif len(dims) != 2:
            raise self.error(f"scores of shape {s.text(dims)}, expected two axes")
        else:
            s.expect(labels, dims[:1])

    def build(self, e: Emitter) -> None:
        scores, labels = (e[blob] for blob in self.xs)
        place = extremum_place(e.b, scores, "max", 1)
        right = e.b.compare("eq", place, e.b.cast(labels, "i64"))
        e[self.ys[0]] = mean(e.b, e.b.cast(right, "f32"), [0])


def _from_zero(b: Builder, x: SSAValue) -> SSAValue:
    """max(x, 0), whose slope at 0 is 1, too."""
    zero = b.full_like(x, 0.0)
    return b.select(b.compare("lt", x, zero), zero, x)


OPERATORS: dict[str, type[Operator]] = {
    "SumElements": SumElements,
    "SumElementsInt": SumElementsInt,
    "SumSqrElements": SumSqrElements,
    "AveragedLoss": AveragedLoss,
    "MarginRankingCriterion": MarginRankingCriterion,
    "CosineEmbeddingCriterion": CosineEmbeddingCriterion,
    "Perplexity": Perplexity,
    "Accuracy": Accuracy,
}
