"""Cross entropies: what is lost where probabilities or their logits are not what labels say."""

from __future__ import annotations

from math import log

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dims, product
from rnncc.ir.types import dims_of
from rnncc.nn.activations import softplus
from rnncc.nn.arithmetic import times
from rnncc.nn.indexing import gather_elements
from rnncc.nn.normalisation import log_softmax
from rnncc.nn.reduction import count, mean, total
from rnncc.nn.slopes import with_backward

LEAST = 1e-20
"""The least probability whose logarithm Caffe2 takes."""


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
        e[self.ys[0]] = e.b.neg(log_of(e.b, picked))


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
        e[self.ys[0]] = e.b.neg(total(e.b, e.b.mul(labels, log_of(e.b, x)), [1]))


class BernoulliJSD(Operator):
    """Y = h((X0 + X1) / 2) - (h(X0) + h(X1)) / 2, the Jensen-Shannon divergence of two coins that
    fall with these probabilities; h(p) = -p log p - (1 - p) log (1 - p), and 0 beyond 0..1.

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
    of X1 are probabilities, and those of Y0 count as 1e-20 at least.

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
            losses = total(b, b.mul(b.reshape(labels, rows), _at_least(b, logs)), [1])
        else:
            losses = _picked(b, logs, labels)
        weights = [b.reshape(e[blob], rows[:1]) for blob in self.xs[2:]]
        e[self.ys[1]] = times(b, _weighted_mean(b, losses, *weights), -self.scale)


class SpatialSoftmaxWithLoss(Operator):
    """Y0 = Softmax of X0 [N, C, H, W] over the channels; Y1 = the mean of -log Y0[n, X1[n, h, w],
    h, w], of 1e-20 at least: weighted by X2[n, h, w] if there is one, then divided by the weights'
    sum. A label of -1 counts as nothing.

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
        logs = _at_least(b, logs)
        picked = gather_elements(b, logs, b.reshape(label, (dims[0], 1, *dims[1:])), 1)
        factor = b.select(is_ignored, b.full_like(ones, 0.0), weights[0] if weights else ones)
        e[self.ys[1]] = b.neg(_weighted_mean(b, b.reshape(picked, dims), factor))


class WeightedSigmoidCrossEntropyWithLogits(SigmoidCrossEntropyWithLogits):
    """Y = the mean along the last axis of X2 (-X1 log p - (1 - X1) log (1 - p)), p = 1 / (1 +
    exp(-X0)).

    Refused: elements other than float32.
    """

    inputs = (3, 3)


def log_of(b: Builder, x: SSAValue) -> SSAValue:
    """log max(x, 1e-20), whose slope is 1 / max(x, 1e-20) below, too, as in Caffe2."""

    def backward(b: Builder, dy: SSAValue, x: SSAValue) -> SSAValue:
        return b.div(dy, b.maximum(x, b.fill(LEAST, ())))

    return with_backward(b, b.log(b.maximum(x, b.fill(LEAST, ()))), x, backward)


def _at_least(b: Builder, logs: SSAValue) -> SSAValue:
    """Logarithms of probabilities, those below 1e-20 as of 1e-20: gradients are as without."""
    raised = b.maximum(logs, b.fill(log(LEAST), ()))
    return with_backward(b, raised, logs, lambda b, dy, _: dy)


def _picked(b: Builder, x: SSAValue, labels: SSAValue) -> SSAValue:
    """x[n, labels[n]]"""
    rows = dims_of(x)[:1]
    picked = gather_elements(b, x, b.reshape(labels, (*rows, 1)), 1)
    return b.reshape(picked, rows)


def _entropy(b: Builder, p: SSAValue) -> SSAValue:
    """Of coins that fall with these probabilities, those beyond 0..1 for the nearer end."""
    zero, one = (b.full_like(p, end) for end in (0.0, 1.0))
    p = b.select(b.compare("lt", p, zero), zero, p)  # not their maximum: the slope at 0 is p's
    p = b.select(b.compare("gt", p, one), one, p)
    other = b.sub(one, p)
    return b.neg(b.add(b.mul(p, log_of(b, p)), b.mul(other, log_of(b, other))))


OPERATORS: dict[str, type[Operator]] = {
    "LabelCrossEntropy": LabelCrossEntropy,
    "CrossEntropy": CrossEntropy,
    "BernoulliJSD": BernoulliJSD,
    "SigmoidCrossEntropyWithLogits": SigmoidCrossEntropyWithLogits,
    "SoftmaxWithLoss": SoftmaxWithLoss,
    "SpatialSoftmaxWithLoss": SpatialSoftmaxWithLoss,
    "WeightedSigmoidCrossEntropyWithLogits": WeightedSigmoidCrossEntropyWithLogits,
}
