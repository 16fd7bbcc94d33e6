"""Elementwise ops: every operand and the result have one shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.ops.base import (
    Arithmetic,
    Array,
    Binary,
    Context,
    Elementwise,
    Grads,
    Properties,
    Unary,
    expect,
    expect_kind,
    get_text,
)
from rnncc.ir.types import FLOATS, Tensor, dims_of, dtype_of, tensor

if TYPE_CHECKING:
    from rnncc.ir.build import Build

COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_ERF = np.vectorize(math.erf, otypes=[np.float64])


@irdl_op_definition
class Neg(Unary):
    """y = -x"""

    name = "rnn.neg"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.negative(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.neg(dy)]


@irdl_op_definition
class Abs(Unary):
    """y = |x|"""

    name = "rnn.abs"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.abs(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """0 at 0."""
        zero = b.full_like(dy, 0.0)
        signed = b.select(b.compare("lt", self.x, zero), b.neg(dy), dy)
        return [b.select(b.compare("eq", self.x, zero), zero, signed)]


@irdl_op_definition
class Sqrt(Unary):
    """y = √x; NaN below zero"""

    name = "rnn.sqrt"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.sqrt(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.div(b.mul(dy, b.full_like(dy, 0.5)), self.y)]


@irdl_op_definition
class Exp(Unary):
    """y = eˣ"""

    name = "rnn.exp"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.exp(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.mul(dy, self.y)]


@irdl_op_definition
class Log(Unary):
    """y = ln x; -∞ at zero, NaN below"""

    name = "rnn.log"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.log(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.div(dy, self.x)]


@irdl_op_definition
class Tanh(Unary):
    """y = tanh x"""

    name = "rnn.tanh"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.tanh(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """dy · (1 - y²)"""
        return [b.mul(dy, b.sub(b.full_like(dy, 1.0), b.mul(self.y, self.y)))]


@irdl_op_definition
class Sigmoid(Unary):
    """y = 1 / (1 + e⁻ˣ)"""

    name = "rnn.sigmoid"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return 1 / (1 + np.exp(-arrays[0]))

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """dy · y · (1 - y)"""
        return [b.mul(dy, b.mul(self.y, b.sub(b.full_like(dy, 1.0), self.y)))]


@irdl_op_definition
class Relu(Unary):
    """y = max(x, 0)"""

    name = "rnn.relu"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.maximum(arrays[0], 0)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """0 at 0."""
        zero = b.full_like(dy, 0.0)
        return [b.select(b.compare("gt", self.y, zero), dy, zero)]


@irdl_op_definition
class Erf(Unary):
    """y = 2/√π ∫₀ˣ e^(-t²) dt"""

    name = "rnn.erf"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return _ERF(arrays[0]).astype(arrays[0].dtype)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """dy · 2/√π · e^(-x²)"""
        slope = b.mul(b.exp(b.neg(b.mul(self.x, self.x))), b.full_like(dy, 2 / math.sqrt(math.pi)))
        return [b.mul(dy, slope)]


@irdl_op_definition
class Add(Arithmetic):
    """y = a + b"""

    name = "rnn.add"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.add(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [dy, dy]


@irdl_op_definition
class Sub(Arithmetic):
    """y = a - b"""

    name = "rnn.sub"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.subtract(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [dy, b.neg(dy)]


@irdl_op_definition
class Mul(Arithmetic):
    """y = a · b"""

    name = "rnn.mul"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.multiply(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.mul(dy, self.b), b.mul(dy, self.a)]


@irdl_op_definition
class Div(Arithmetic):
    """y = a / b; of integers towards zero, where a / 0 is 0"""

    name = "rnn.div"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        a, divisor = arrays
        if a.dtype.kind == "f":
            return np.divide(a, divisor)
        quotient = np.floor_divide(a, np.where(divisor == 0, 1, divisor))
        towards_zero = quotient + ((quotient < 0) & (quotient * divisor != a))
        return np.where(divisor == 0, 0, towards_zero).astype(a.dtype)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """da = dy / b, db = -da · y"""
        da = b.div(dy, self.b)
        return [da, b.neg(b.mul(da, self.y))]


@irdl_op_definition
class Maximum(Binary):
    """y = max(a, b); NaN if either is"""

    name = "rnn.maximum"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.maximum(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """All of it to the larger; to a where they are equal."""
        return _to_one(b, b.compare("ge", self.a, self.b), dy)


@irdl_op_definition
class Minimum(Binary):
    """y = min(a, b); NaN if either is"""

    name = "rnn.minimum"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.minimum(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """All of it to the smaller; to a where they are equal."""
        return _to_one(b, b.compare("le", self.a, self.b), dy)


@irdl_op_definition
class Compare(Binary):
    """y = a ? b as i1, with ? one of lt, le, gt, ge, eq, ne; only ne holds for NaN"""

    name = "rnn.compare"
    kind = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, COMPARISONS)
        super().infer_element(properties, *types)
        return tensor(dims_of(types[0]), "i1")

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return COMPARISONS[self.kind.data](*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [None, None]


@irdl_op_definition
class Logical(Binary):
    """y = a ? b over i1, with ? one of and, or, xor"""

    name = "rnn.logical"
    kind = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, LOGIC)
        expect(dtype_of(types[0]) == "i1", f"operand is {dtype_of(types[0])}, expected i1")
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return LOGIC[self.kind.data](*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [None, None]


@irdl_op_definition
class Not(Unary):
    """y = not x over i1"""

    name = "rnn.not"

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect(dtype_of(types[0]) == "i1", f"operand is {dtype_of(types[0])}, expected i1")
        return types[0]

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.logical_not(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [None]


@irdl_op_definition
class Select(Elementwise):
    """y = a where the condition holds, else b"""

    name = "rnn.select"
    condition = operand_def()
    a = operand_def()
    b = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        condition, a, b = types
        expect(dtype_of(condition) == "i1", f"condition is {dtype_of(condition)}, expected i1")
        return super().infer_element(properties, a, b)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.where(*arrays)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [None, *_to_one(b, self.condition, dy)]


@irdl_op_definition
class Cast(Unary):
    """y = x as another element type; anything to i1 is x ≠ 0

    A float as an integer is rounded towards zero; one that does not fit becomes the nearest that
    does, and NaN 0.
    """

    name = "rnn.cast"
    dtype = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        return tensor(dims_of(types[0]), get_text(properties["dtype"]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, dtype = arrays[0], np.dtype(context.numpy_type(self.dtype.data))
        if x.dtype.kind != "f" or dtype.kind != "i":
            return x.astype(dtype)
        bits = 8 * dtype.itemsize - 1  # what NumPy makes of other numbers depends on the machine
        low, high = x < -(2.0**bits), x >= 2.0**bits
        inside = np.where(low | high | np.isnan(x), 0, x).astype(dtype)
        return np.where(low, -(1 << bits), np.where(high, (1 << bits) - 1, inside)).astype(dtype)

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.cast(dy, dtype_of(self.x)) if dtype_of(self.x) in FLOATS else None]


@irdl_op_definition
class StopGradient(Unary):
    """y = x, and no gradient flows back to x"""

    name = "rnn.stop_gradient"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return arrays[0]

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [None]


def _to_one(b: Build, condition: SSAValue, dy: SSAValue) -> list[SSAValue]:
    """dy to the first of two where the condition holds, else to the second."""
    zero = b.full_like(dy, 0.0)
    return [b.select(condition, dy, zero), b.select(condition, zero, dy)]


OPS: list[type[Elementwise]] = [
    *(Neg, Abs, Sqrt, Exp, Log, Tanh, Sigmoid, Relu, Erf),
    *(Add, Sub, Mul, Div, Maximum, Minimum),
    *(Compare, Logical, Not, Select, Cast, StopGradient),
]
