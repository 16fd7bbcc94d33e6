"""What training minimises: cross entropies, and means over a batch."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Dims, Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of
from rnncc.nn.activations import softplus
from rnncc.nn.arithmetic import plus, times
from rnncc.nn.indexing import extremum_place, gather_elements
from rnncc.nn.normalisation import log_softmax
from rnncc.nn.reduction import count, mean, total

LEAST = 1e-20
"""The least probability whose logarithm Caffe2 takes."""


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


class LabelCrossEntropy(Operator):
    """Y[n] = -log X0[n, X1[n]], of probabilities of 1e-20 at least.

    Refused: labels other than int32; elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, labels = self.xs
        s.expect_dtype(x, "f32")
        s.expect_dtype(labels, "i32")
        dims = s.dims(x)
        if dims is None:
            s.expect(x, (s.fresh(), s.fresh()))
        elif len(dims) != 2:
            raise self.error(f"probabilities of shape {s.text(dims)}, expected two axes")
        else:
            s.expect(self.ys[0], dims[:1], "f32")
            if s.dims(labels) is None:
                s.expect(labels, dims[:1])
            elif s.known(labels)[1:] not in ((), (1,)):
                raise self.error(f"labels of shape {s.text(s.known(labels))}, expected a vector")

    def build(self, e: Emitter) -> None:
        x, labels = (e[blob] for blob in self.xs)
        picked = _picked(e.b, x, labels)
        e[self.ys[0]] = e.b.neg(_log(e.b, picked))


class CrossEntropy(Operator):
    """Y[n] = -sum X1[n] log X0[n], of probabilities of 1e-20 at least.

    Refused: elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        s.same_shape(*self.xs)
        dims = s.dims(self.xs[0])
        if dims is not None:
            if len(dims) != 2:
                raise self.error(f"probabilities of shape {s.text(dims)}, expected two axes")
            s.expect(self.ys[0], dims[:1])

    def build(self, e: Emitter) -> None:
        x, labels = (e[blob] for blob in self.xs)
        e[self.ys[0]] = e.b.neg(total(e.b, e.b.mul(labels, _log(e.b, x)), [1]))


class BernoulliJSD(Operator):
    """Y = h((X0 + X1) / 2) - (h(X0) + h(X1)) / 2, the Jensen-Shannon divergence of two coins that
    fall with these probabilities; h(p) = -p log p - (1 - p) log (1 - p).

    Refused: elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        s.same_shape(*self.xs, self.ys[0])

    def build(self, e: Emitter) -> None:
        b = e.b
        x, target = (e[blob] for blob in self.xs)
        apart = times(b, b.add(_entropy(b, x), _entropy(b, target)), 0.5)
        e[self.ys[0]] = b.sub(_entropy(b, times(b, b.add(x, target), 0.5)), apart)


class SigmoidCrossEntropyWithLogits(Operator):
    """Y = the mean along the last axis of -X1 log p - (1 - X1) log (1 - p), p = 1 / (1 + exp(-X0)).

    Refused: `log_D_trick`; `unjoined_lr_loss`; elements other than float32.
    """

    inputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        for name in ("log_D_trick", "unjoined_lr_loss"):
            if self.args.flag(name):
                raise self.error(f"argument {name!r} is not supported")

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, self.ys[0])
        s.same_shape(*self.xs)
        dims = s.dims(self.xs[0])
        if dims is not None:
            s.expect(self.ys[0], dims[:-1])

    def build(self, e: Emitter) -> None:
        x, labels, *weights = (e[blob] for blob in self.xs)
        loss = e.b.sub(softplus(e.b, x), e.b.mul(x, labels))
        loss = loss if not weights else e.b.mul(loss, *weights)
        e[self.ys[0]] = mean(e.b, loss, [len(dims_of(loss)) - 1][: len(dims_of(loss))])


def _weighted_mean(b: Builder, x: SSAValue, weights: SSAValue | None = None) -> SSAValue:
    """The sum of all elements times their weights, divided by the weights' sum."""
    axes = range(len(dims_of(x)))
    if weights is None:
        return b.div(total(b, x, axes), count(b, x, axes))
    return b.div(total(b, b.mul(x, weights), axes), total(b, weights, axes))


class SoftmaxWithLoss(Operator):
    """Y0 = Softmax of X0, rows from `axis` on; Y1 = the mean of -log Y0[n, X1[n]], times `scale`:
    weighted by X2[n] if there is one, then divided by the weights' sum; with `label_prob` the rows
    of X1 are probabilities.

    Refused: `average_by_batch_size`; labels other than int32; elements other than float32.
    """

    inputs = (2, 3)
    outputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        if self.args.flag("average_by_batch_size"):
            raise self.error("argument 'average_by_batch_size' is not supported")
        self.of_rows = self.args.flag("label_prob")
        self.scale = self.args.float("scale", 1.0)

    def infer(self, s: Shapes) -> None:
        x, labels, *weights = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", x, *weights, *self.ys)
        s.expect_dtype(labels, "f32" if self.of_rows else "i32")
        s.expect(self.ys[1], ())
        dims = s.dims(x)
        if dims is None:
            return
        rows = self._rows(dims)
        for blob in weights:
            s.expect(blob, dims[: self._axis(dims)])
        if self.of_rows:
            s.same_shape(x, labels)
        elif s.dims(labels) is None:
            s.expect(labels, dims[: self._axis(dims)])
        elif not s.equal(product(s.known(labels)), rows[0]):
            raise self.error(f"labels of shape {s.text(s.known(labels))} for {s.text(dims)}")

    def _axis(self, dims: Dims) -> int:
        return self.axis("axis", 1, len(dims))

    def _rows(self, dims: Dims) -> Dims:
        return product(dims[: self._axis(dims)]), product(dims[self._axis(dims) :])

    def build(self, e: Emitter) -> None:
        b, dims = e.b, e.dims(self.xs[0])
        rows = self._rows(dims)
        logs = log_softmax(b, b.reshape(e[self.xs[0]], rows), 1)
        e[self.ys[0]] = b.reshape(b.exp(logs), dims)
        labels = e[self.xs[1]]
        if self.of_rows:
            losses = total(b, b.mul(b.reshape(labels, rows), logs), [1])
        else:
            losses = _picked(b, logs, labels)
        weights = [b.reshape(e[blob], rows[:1]) for blob in self.xs[2:]]
        e[self.ys[1]] = times(b, _weighted_mean(b, losses, *weights), -self.scale)


class SpatialSoftmaxWithLoss(Operator):
    """Y0 = Softmax of X0 [N, C, H, W] over the channels; Y1 = the mean of -log Y0[n, X1[n, h, w],
    h, w]: weighted by X2[n, h, w] if there is one, then divided by the weights' sum. A label of -1
    counts as nothing.

    Refused: `scale` other than 1, which Caffe2 applies to gradients alone; `order` NHWC; labels
    other than int32; elements other than float32.
    """

    inputs = (2, 3)
    outputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        if self.has_channels_last() or self.args.float("scale", 1.0) != 1:
            raise self.error("has the order NHWC, or a scale, which are not supported")

    def infer(self, s: Shapes) -> None:
        x, labels, *weights = self.xs
        s.same_shape(x, self.ys[0])
        s.same_shape(labels, *weights)
        s.expect_dtypes("f32", x, *weights, *self.ys)
        s.expect_dtype(labels, "i32")
        s.expect(self.ys[1], ())
        dims = s.dims(x)
        if dims is None:
            return
        if len(dims) != 4:
            raise self.error(f"data of shape {s.text(dims)}, expected four axes")
        s.expect(labels, (dims[0], *dims[2:]))

    def build(self, e: Emitter) -> None:
        b, (x, labels, *weights) = e.b, (e[blob] for blob in self.xs)
        dims, ones = dims_of(labels), b.fill(1.0, dims_of(labels))
        logs = log_softmax(b, x, 1)
        e[self.ys[0]] = b.exp(logs)
        is_ignored = b.compare("eq", labels, b.full_like(labels, -1))
        label = b.select(is_ignored, b.full_like(labels, 0), labels)
        picked = gather_elements(b, logs, b.reshape(label, (dims[0], 1, *dims[1:])), 1)
        factor = b.select(is_ignored, b.full_like(ones, 0.0), weights[0] if weights else ones)
        e[self.ys[1]] = b.neg(_weighted_mean(b, b.reshape(picked, dims), factor))


class WeightedSigmoidCrossEntropyWithLogits(SigmoidCrossEntropyWithLogits):
    """Y = the mean along the last axis of X2 (-X1 log p - (1 - X1) log (1 - p)), p = 1 / (1 +
    exp(-X0)).

    Refused: elements other than float32.
    """

    inputs = (3, 3)


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


def _log(b: Builder, x: SSAValue) -> SSAValue:
    """log max(x, 1e-20), whose slope is 1 / max(x, 1e-20) below, too, as in Caffe2."""
    missing = b.sub(b.maximum(x, b.fill(LEAST, ())), x)
    return b.log(b.add(x, b.stop_gradient(missing)))


def _picked(b: Builder, x: SSAValue, labels: SSAValue) -> SSAValue:
    """x[n, labels[n]]"""
    rows = dims_of(x)[:1]
    picked = gather_elements(b, x, b.reshape(labels, (*rows, 1)), 1)
    return b.reshape(picked, rows)


def _entropy(b: Builder, p: SSAValue) -> SSAValue:
    """Of coins that fall with these probabilities."""
    other = b.sub(b.fill(1.0, ()), p)
    return b.neg(b.add(b.mul(p, _log(b, p)), b.mul(other, _log(b, other))))


OPERATORS: dict[str, type[Operator]] = {
    "BernoulliJSD": BernoulliJSD,
    "SumElements": SumElements,
    "SumElementsInt": SumElementsInt,
    "SumSqrElements": SumSqrElements,
    "AveragedLoss": AveragedLoss,
    "LabelCrossEntropy": LabelCrossEntropy,
    "CrossEntropy": CrossEntropy,
    "SigmoidCrossEntropyWithLogits": SigmoidCrossEntropyWithLogits,
    "SoftmaxWithLoss": SoftmaxWithLoss,
    "SpatialSoftmaxWithLoss": SpatialSoftmaxWithLoss,
    "WeightedSigmoidCrossEntropyWithLogits": WeightedSigmoidCrossEntropyWithLogits,
    "MarginRankingCriterion": MarginRankingCriterion,
    "CosineEmbeddingCriterion": CosineEmbeddingCriterion,
    "Perplexity": Perplexity,
    "Accuracy": Accuracy,
}
