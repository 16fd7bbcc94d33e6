"""Ops that sum: products of matrices and reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import (
    Array,
    Context,
    Properties,
    RnnOp,
    expect,
    expect_float,
    get_ints,
    get_text,
)
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min}


def _matrix(dims: tuple[Dim, ...], transpose: bool) -> tuple[Dim, Dim]:
    return (dims[-1], dims[-2]) if transpose else (dims[-2], dims[-1])


@irdl_op_definition
class Matmul(RnnOp):
    """y[..., m, n] = Σₖ a[..., m, k] · b[..., k, n]

    `transpose_a`, `transpose_b` swap an operand's last two axes first. The leading axes agree,
    or b is one matrix for all of them.
    """

    name = "rnn.matmul"
    a = operand_def()
    b = operand_def()
    transpose_a = prop_def(BoolAttr)
    transpose_b = prop_def(BoolAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        expect(dtype_of(types[0]) == dtype_of(types[1]), "element types differ")
        a, b = dims_of(types[0]), dims_of(types[1])
        shapes = f"{shape_text(a)} and {shape_text(b)}"
        expect(len(a) >= 2 and len(b) >= 2, f"product of {shapes}: both need two axes")
        expect(len(b) == 2 or a[:-2] == b[:-2], f"product of {shapes}: leading axes differ")
        m, k = _matrix(a, bool(properties["transpose_a"]))
        k_of_b, n = _matrix(b, bool(properties["transpose_b"]))
        expect(k == k_of_b, f"product of {shapes}: inner sizes are {k} and {k_of_b}")
        return tensor([*a[:-2], m, n], dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        a, b = arrays
        a = np.swapaxes(a, -1, -2) if self.transpose_a else a
        return np.matmul(a, np.swapaxes(b, -1, -2) if self.transpose_b else b)


@irdl_op_definition
class Reduce(RnnOp):
    """y = sum, max or min of x over some axes, which go; max and min of nothing are ∓∞"""

    name = "rnn.reduce"
    x = operand_def()
    kind = prop_def(StringAttr)
    axes = prop_def(ArrayAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        kind, axes = get_text(properties["kind"]), get_ints(properties["axes"])
        expect(kind in REDUCTIONS, f"kind {kind!r} is not one of {', '.join(REDUCTIONS)}")
        dims = dims_of(types[0])
        expect(list(axes) == sorted(set(axes)), f"axes {axes} do not increase")
        expect(all(0 <= axis < len(dims) for axis in axes), f"axes {axes} of rank {len(dims)}")
        return tensor([d for i, d in enumerate(dims) if i not in axes], dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        initial = {"sum": 0, "max": -np.inf, "min": np.inf}[self.kind.data]
        if arrays[0].dtype.kind != "f" and initial:
            return REDUCTIONS[self.kind.data](arrays[0], axis=get_ints(self.axes))
        reduce = REDUCTIONS[self.kind.data]
        return np.asarray(reduce(arrays[0], axis=get_ints(self.axes), initial=initial))


OPS = [Matmul, Reduce]
