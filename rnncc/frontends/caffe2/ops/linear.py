"""Products, and what works on whole rows: FC, BatchMatMul, ElementwiseLinear, norms, Softmax."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Array, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims, product
from rnncc.nn.normalisation import layer_norm, softmax


class FC(Operator):
    """Y = X W^T + b, X taken as rows of size K from `axis` on, W [N, K], b [N].

    Refused: `axis_w` other than 1; weights that have not two axes; weights of symbolic sizes;
    elements other than float32.
    """

    inputs = (3, 3)
    transposed: ClassVar[bool] = False

    def setup(self, maker: Resolver) -> None:
        if self.args.int("axis_w", 1) != 1:
            raise self.error("argument 'axis_w' is not 1, which is not supported")

    def infer(self, s: Shapes) -> None:
        x, w, b = self.xs
        if s.dims(w) is None:
            s.expect(w, (s.fresh(), s.fresh()), "f32")
        if s.dims(b) is None:
            s.expect(b, (s.fresh(),), "f32")
        self._check_rank(s)
        n, k = self._sizes(s)
        s.expect(b, (n,), "f32")
        dims, rows = s.dims(x), s.dims(self.ys[0])
        if dims is not None:
            axis = self.axis("axis", 1, len(dims))
            if not s.equal(product(dims[axis:]), k):
                columns, depth = s.size_text(product(dims[axis:])), s.size_text(k)
                raise self.error(
                    f'rows of "{x.name}" have {columns} columns, "{w.name}" wants {depth}'
                )
            s.expect(self.ys[0], (*dims[:axis], n))
        elif rows is not None:
            s.expect(self.ys[0], (*rows[:-1], n))
        elif self.args.int("axis", 1) >= 0:
            axis = min(self.args.int("axis", 1), 16)
            s.expect(self.ys[0], (*(s.fresh() for _ in range(axis)), n))
        s.same_dtype(*self.xs, self.ys[0])

    def assume(self, s: Shapes, level: int) -> None:
        rows = s.dims(self.ys[0])
        if level == 1 and s.dims(self.xs[0]) is None and rows is not None:
            s.expect(self.xs[0], (*rows[:-1], self._sizes(s)[1]))

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return s.known(self.xs[1])

    def defaults(self, s: Shapes) -> Iterable[tuple[Blob, Array]]:
        """A frozen bias is zero: its builder fills it so, and no training changes it."""
        if self.args.flag("freeze_bias"):
            bias = self.xs[2]
            yield bias, np.zeros([int(d) for d in s.known(bias)], np.float32)

    def build(self, e: Emitter) -> None:
        x, w, b = (e[blob] for blob in self.xs)
        dims = e.dims(self.xs[0])
        axis = self.axis("axis", 1, len(dims))
        rows = e.b.reshape(x, (*(dims[:axis] or (1,)), product(dims[axis:])))
        y = e.b.add(e.b.matmul(rows, w, transpose_b=not self.transposed), b)
        e[self.ys[0]] = y if axis else e.b.reshape(y, e.dims(self.ys[0]))

    def _check_rank(self, s: Shapes) -> None:
        weights = s.known(self.xs[1])
        if len(weights) != 2:
            shape = s.text(weights)
            raise self.error(f'weights "{self.xs[1].name}" have shape {shape}, expected 2 axes')

    def _sizes(self, s: Shapes) -> Dims:
        """How many columns the result has, and how many X has."""
        first, second = s.known(self.xs[1])
        return (second, first) if self.transposed else (first, second)


class FCTransposed(FC):
    """Y = X W + b, W [K, N]."""

    transposed = True


class BatchMatMul(Operator):
    """C[...] = A[...] B[...] over the last two axes; each may be transposed.

    Refused: operands with one axis; operands of several ranks without `broadcast`.
    """

    inputs = (2, 2)
    batched: ClassVar[bool] = True

    def setup(self, maker: Resolver) -> None:
        self.flips = (self.args.flag("trans_a"), self.args.flag("trans_b"))
        self.spread = self.args.flag("broadcast")

    def infer(self, s: Shapes) -> None:
        a, b, c = (s.dims(blob) for blob in (*self.xs, self.ys[0]))
        s.same_dtype(*self.xs, self.ys[0])
        if a is None or b is None:
            self._infer_one(s, a, b, c)
            return
        a, b = self._check_rank(s, a, b)
        (m, k), (k_b, n) = _flip(a[-2:], self.flips[0]), _flip(b[-2:], self.flips[1])
        if not s.equal(k, k_b):
            what = f"products over {s.size_text(k)} and {s.size_text(k_b)} elements"
            raise self.error(f"{what}: A {s.text(a)}, B {s.text(b)}")
        batch = self._batch(s, a[:-2], b[:-2])
        s.expect(self.ys[0], (*batch, m, n))

    def _infer_one(self, s: Shapes, a: Dims | None, b: Dims | None, c: Dims | None) -> None:
        """Without `broadcast` all ranks agree: one that is known gives the others."""
        sizes = a or b or c
        if sizes is None or self.spread or len(sizes) < 2:
            return
        for blob in (*self.xs, self.ys[0]):
            if s.dims(blob) is None:
                s.expect(blob, (*sizes[:-2], s.fresh(), s.fresh()))

    def _check_rank(self, s: Shapes, a: Dims, b: Dims) -> tuple[Dims, Dims]:
        if min(len(a), len(b)) < 2 or (len(a) != len(b) and not self.spread):
            raise self.error(f"A has shape {s.text(a)}, B {s.text(b)}", "ranks must agree")
        if not self.batched and len(a) != 2:
            raise self.error(f"A has shape {s.text(a)}, expected 2 axes")
        return a, b

    def _batch(self, s: Shapes, a: Dims, b: Dims) -> list[Dim]:
        rank = max(len(a), len(b))
        one = Dim.of(1)
        wide = [(one,) * (rank - len(d)) + d for d in (a, b)]
        result = list[Dim]()
        for left, right in zip(*wide, strict=True):
            if self.spread and one in (left, right):
                result.append(right if left == one else left)
                continue
            if not s.equal(left, right):
                raise self.error(f"batches of A {s.text(a)} and B {s.text(b)} differ")
            result.append(left)
        return result

    def build(self, e: Emitter) -> None:
        batch = e.dims(self.ys[0])[:-2]
        operands = list[SSAValue]()
        for blob in self.xs:
            dims = e.dims(blob)
            axes = range(len(batch) - (len(dims) - 2), len(batch) + 2)
            operands.append(e.b.broadcast(e[blob], (*batch, *dims[-2:]), axes))
        one, other = operands
        e[self.ys[0]] = e.b.matmul(one, other, *self.flips)


class MatMul(BatchMatMul):
    """C = A B of two matrices; each may be transposed; a third input has C's shape.

    Refused: operands that have not two axes; `axis_a` and `axis_b` other than 1.
    """

    inputs = (2, 3)
    batched = False

    def setup(self, maker: Resolver) -> None:
        super().setup(maker)
        self.like, self.xs = self.xs[2:], self.xs[:2]
        for name in ("axis_a", "axis_b"):
            if self.args.int(name, 1) != 1:
                raise self.error(f"argument {name!r} is not 1, which is not supported")

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.same_shape(self.ys[0], *self.like)


class ElementwiseLinear(Operator):
    """Y[n, d] = X[n, d] w[d] + b[d], d running over all axes from `axis` on.

    Refused: rows of symbolic size.
    """

    inputs = (3, 3)

    def infer(self, s: Shapes) -> None:
        x, w, b = self.xs
        s.same_shape(x, self.ys[0])
        s.same_shape(w, b)
        s.same_dtype(*self.xs, self.ys[0])
        dims = s.dims(x)
        if dims is not None:
            size = product(dims[self.axis("axis", 1, len(dims)) :])
            s.expect(w, (size,))
            s.expect(b, (size,))

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return s.known(self.xs[1])

    def build(self, e: Emitter) -> None:
        x, w, b = (e[blob] for blob in self.xs)
        dims = e.dims(self.xs[0])
        axis = self.axis("axis", 1, len(dims))
        rows = e.b.reshape(x, (*dims[:axis], product(dims[axis:])))
        e[self.ys[0]] = e.b.reshape(e.b.add(e.b.mul(rows, w), b), dims)


class LayerNorm(Operator):
    """Y = (X - mean) / std [* scale + bias] over rows from `axis` on, std = sqrt(var + epsilon).

    Refused: elements other than float32; rows of symbolic size; a negative `epsilon`.
    """

    inputs = (1, 3)
    outputs = (1, 3)

    def setup(self, maker: Resolver) -> None:
        self.affine = self.args.flag("elementwise_affine")
        if self.affine and len(self.xs) != 3:
            raise self.error(f"has {len(self.xs)} inputs, elementwise_affine takes 3")
        self.epsilon = self.args.float("epsilon", 1e-5)
        if not self.epsilon >= 0:
            raise self.error(f"argument 'epsilon' is {self.epsilon:g}")

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtypes("f32", *self.xs, *self.ys)
        dims = s.dims(self.xs[0])
        if dims is None:
            return
        axis = self.axis("axis", 1, len(dims))
        for statistic in self.ys[1:]:
            s.expect(statistic, (*dims[:axis], 1))
        for affine in self.xs[1:] if self.affine else ():
            sizes = s.dims(affine)
            if sizes is None:
                s.expect(affine, dims[axis:])
            elif not s.equal(product(sizes), product(dims[axis:])):
                what = f'"{affine.name}" of shape {s.text(sizes)} for rows {s.text(dims[axis:])}'
                raise self.error(what)

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        dims = s.known(self.xs[0])
        return dims[self.axis("axis", 1, len(dims)) :]

    def build(self, e: Emitter) -> None:
        dims = e.dims(self.xs[0])
        axis = self.axis("axis", 1, len(dims))
        row = dims[axis:]
        affine = [e.b.reshape(e[x], row) for x in self.xs[1:]] if self.affine else [None, None]
        x, (scale, bias) = e[self.xs[0]], affine
        e[self.ys[0]], *statistics = layer_norm(e.b, x, scale, bias, axis, self.epsilon)
        for blob, value in zip(self.ys[1:], statistics, strict=False):
            e[blob] = e.b.reshape(value, (*dims[:axis], 1))


class WeightedSum(Operator):
    """Y = X0 X1 + X2 X3 + ..., where X1, X3, ... are single numbers.

    Refused: an odd number of inputs; elements other than float32.
    """

    inputs = (2, ANY)

    def setup(self, maker: Resolver) -> None:
        if len(self.xs) % 2:
            raise self.error(
                f"has {len(self.xs)} inputs, expected pairs of a tensor and its factor"
            )

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, *self.ys)
        s.same_shape(*self.xs[::2], *self.ys)
        for factor in self.xs[1::2]:
            dims = s.dims(factor)
            if dims is not None and not s.equal(product(dims), Dim.of(1)):
                what = f'"{factor.name}" of shape {s.text(dims)}'
                raise self.error(f"{what} is a factor, expected one element")

    def assume(self, s: Shapes, level: int) -> None:
        for factor in self.xs[1::2] if level == 1 else ():
            if s.dims(factor) is None:
                s.expect(factor, (1,))

    def build(self, e: Emitter) -> None:
        pairs = zip(self.xs[::2], self.xs[1::2], strict=True)
        terms = [e.b.mul(e[x], e.b.reshape(e[factor], ())) for x, factor in pairs]
        e[self.ys[0]] = reduce(e.b.add, terms)


class Softmax(Operator):
    """Y = exp(X - max) / sum exp(X - max), a row running over all axes from `axis` on.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtypes("f32", self.xs[0], self.ys[0])

    def build(self, e: Emitter) -> None:
        dims = e.dims(self.xs[0])
        axis = self.axis("axis", 1, len(dims))
        rows = e.b.reshape(e[self.xs[0]], (*dims[:axis], product(dims[axis:])))
        e[self.ys[0]] = e.b.reshape(softmax(e.b, rows, axis), dims)


def _flip(pair: Dims, flip: bool) -> Dims:
    return pair[::-1] if flip else pair


OPERATORS: dict[str, type[Operator]] = {
    "FC": FC,
    "FCTransposed": FCTransposed,
    "BatchMatMul": BatchMatMul,
    "MatMul": MatMul,
    "ElementwiseLinear": ElementwiseLinear,
    "LayerNorm": LayerNorm,
    "WeightedSum": WeightedSum,
    "Softmax": Softmax,
}
