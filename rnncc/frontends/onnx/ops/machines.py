"""Support vector machines of ai.onnx.ml: sums of kernels of known vectors."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.values import Array
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.arithmetic import power
from rnncc.nn.linear import matmul
from rnncc.nn.reduction import reduce_keepdims

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _svm_regressor(n: Node) -> SSAValue:
    """Σ coefficient · kernel(X, support vector) + rho, or X·coefficients + rho without support
    vectors; with `one_class` 1 where that is positive, else -1. Kernels are x·v, (gamma x·v +
    coef0)^degree, e^(-gamma |x - v|²) and tanh(gamma x·v + coef0).

    Refused: other than one or two axes; transforms of the result, which ONNX Runtime leaves out.
    """
    b, x, columns = n.b, n.x(0, FLOATS), n.dims()[-1:]
    if len(n.dims()) not in (1, 2) or not columns[0].is_static:
        what = f"has data of shape {shape_text(n.dims())}, expected one or two axes"
        raise n.unsupported(what + ", the last of a known size")
    if n.text("post_transform") != "NONE":
        raise n.unsupported("transforms its result")
    width = int(columns[0])
    x = b.cast(b.reshape(x, (product(dims_of(x)[:-1]), width)), "f32")
    weights = np.array(n.reals("coefficients"), np.float32)
    supports, rho = np.array(n.reals("support_vectors"), np.float32), n.reals("rho")
    count = n.integer("n_supports")
    if supports.size != count * width or weights.size != (count or width) or not rho:
        what = f"{supports.size} numbers of {count} support vectors and {len(rho)} of rho"
        raise n.error(f"has {weights.size} coefficients, {what} for {width} columns")
    scores = _kernel(n, x, supports.reshape(-1, width)) if count else x
    scores = matmul(b, scores, n.literal(weights.reshape(-1, 1)))
    scores = b.add(scores, b.full_like(scores, rho[0]))
    if not n.flag("one_class"):
        return scores
    positive = b.compare("gt", scores, b.full_like(scores, 0))
    return b.select(positive, b.full_like(scores, 1), b.full_like(scores, -1))


def _kernel(n: Node, x: SSAValue, vectors: Array) -> SSAValue:
    """Of each row of x and each vector: [rows, vectors]."""
    b, kind = n.b, n.one_of("kernel_type", KERNELS)
    gamma, offset, degree = [*n.reals("kernel_params", ()), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        (rows, width), count = dims_of(x), len(vectors)
        apart = b.sub(b.broadcast(x, (rows, count, width), [0, 2]), n.literal(vectors))
        squares = reduce_keepdims(b, "sum", b.mul(apart, apart), [2])
        squares = b.reshape(squares, (rows, count))
        return b.exp(b.mul(squares, b.full_like(squares, -gamma)))
    dots = matmul(b, x, n.literal(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return dots
    dots = b.add(b.mul(dots, b.full_like(dots, gamma)), b.full_like(dots, offset))
    return b.tanh(dots) if kind == "SIGMOID" else power(b, dots, degree)


OPERATORS: dict[str, OnnxOperator] = {"ai.onnx.ml.SVMRegressor": OnnxOperator(_svm_regressor)}
