"""Ops without operands: parameters, constants, sizes."""

from __future__ import annotations

import math
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, StringAttr, f64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def

from rnncc.ir.attributes import dim_attr, get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Array, Axes, Context, Source
from rnncc.ir.ops.checks import expect
from rnncc.ir.precision import to_bf16
from rnncc.ir.types import FLOATS, NUMPY, dims_of, dtype_of, tensor


@irdl_op_definition
class Param(Source):
    """y = the parameter `name`; its array, where known, is in the program's side table"""

    name = "rnn.param"
    param_name = prop_def(StringAttr)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        raise AssertionError("the interpreter looks parameters up")

    def operand_axes(self, axis: int) -> Axes | None:
        return None


@irdl_op_definition
class Constant(Source):
    """y = a small literal array, row-major"""

    name = "rnn.constant"
    values = prop_def(ArrayAttr)

    @staticmethod
    def of(array: Array, dtype: str) -> Constant:
        values = ArrayAttr(FloatAttr(float(v), f64) for v in np.ravel(array))
        return Constant(tensor(array.shape, dtype), values=values)

    def array(self) -> Array:
        """The values as float64 or int64, in the result's shape."""
        numbers = [v.value.data for v in self.values.data]  # type: ignore[union-attr]  # all are FloatAttr
        shape = [int(d) for d in dims_of(self.y)]
        kind = np.float64 if dtype_of(self.y)[0] == "f" else np.int64
        return np.array(numbers, kind).reshape(shape)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return self.array().astype(context.numpy_type(dtype_of(self.y)))

    def operand_axes(self, axis: int) -> Axes | None:
        return None

    def verify_(self) -> None:
        size = prod(int(d) for d in dims_of(self.y))
        expect(len(self.values) == size, f"{len(self.values)} values for {size} elements")
        for value in self.values:
            _expect_number(value, dtype_of(self.y))


@irdl_op_definition
class Fill(Source):
    """y = one value everywhere"""

    name = "rnn.fill"
    value = prop_def(FloatAttr)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        one = self.one(context)
        return np.full(context.shape(dims_of(self.y)), one, one.dtype)

    def one(self, context: Context) -> Array:
        """The value, of rank 0."""
        value = self.value.value.data
        if dtype_of(self.y) == "bf16":
            return to_bf16(np.asarray(value, np.float32))
        return np.asarray(value, context.numpy_type(dtype_of(self.y)))

    def verify_(self) -> None:
        _expect_number(self.value, dtype_of(self.y))


@irdl_op_definition
class Iota(Source):
    """y[..., i, ...] = i along one axis"""

    name = "rnn.iota"
    axis = prop_def(IntAttr)

    def verify_(self) -> None:
        axis, rank = self.axis.data, len(dims_of(self.y))
        expect(0 <= axis < rank, f"axis {axis} of {rank}")

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        shape = context.shape(dims_of(self.y))
        index = np.arange(shape[self.axis.data], dtype=context.numpy_type(dtype_of(self.y)))
        wide = [1] * len(shape)
        wide[self.axis.data] = -1
        return np.broadcast_to(index.reshape(wide), shape)

    def operand_axes(self, axis: int) -> Axes | None:
        return None if axis == self.axis.data else ()


@irdl_op_definition
class Size(Source):
    """y = the value of a size formula, rank 0"""

    name = "rnn.size"
    SIZES: ClassVar[tuple[str, ...]] = ("dim",)
    dim = prop_def(StringAttr)

    @staticmethod
    def of(dim: Dim, dtype: str) -> Size:
        return Size(tensor((), dtype), dim=dim_attr(dim))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        value = get_dim(self.dim).evaluate(context.sizes)
        return np.array(value, context.numpy_type(dtype_of(self.y)))


def _expect_number(attribute: Attribute, dtype: str) -> None:
    """Raise `VerifyException` where elements of a type do not hold a number."""
    number = attribute.value.data if isinstance(attribute, FloatAttr) else math.nan
    if dtype not in (*FLOATS, "f16", "bf16", "i1"):
        limits = np.iinfo(NUMPY[dtype])
        fits = number.is_integer() and limits.min <= number <= limits.max
        expect(fits, f"no {dtype} holds {number}")


OPS = [Param, Constant, Fill, Iota, Size]
