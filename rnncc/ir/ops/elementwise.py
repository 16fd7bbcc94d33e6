"""Elementwise ops: every operand and the result have one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.ops.base import (
    Arithmetic,
    Array,
    Binary,
    Context,
    Cost,
    Elementwise,
    Grads,
    Properties,
    Slopes,
    Unary,
    elementwise,
)
from rnncc.ir.ops.checks import expect, expect_float, expect_kind
from rnncc.ir.types import FLOATS, Tensor, dims_of, dtype_of, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
MULTIPLY_ADDS = ("add", "sub", "from")
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
BITS = {
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"left": np.left_shift, "right": np.right_shift},
}
ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "even": np.rint, "trunc": np.trunc}


def _relu(x: Array) -> Array:
    # not np.maximum, of which zeros of two signs are equal: all targets hand x on
    return np.where(x < 0, x.dtype.type(0), x)


def _divide(a: Array, divisor: Array) -> Array:
    if a.dtype.kind == "f":
        return np.divide(a, divisor)
    quotient = np.floor_divide(a, np.where(divisor == 0, 1, divisor))
    towards_zero = quotient + ((quotient < 0) & (quotient * divisor != a))
    return np.where(divisor == 0, 0, towards_zero).astype(a.dtype)


def _share(a: Array, total: Array) -> Array:
    return a * (1 / total)


def _remainder(a: Array, divisor: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, divisor)
    return np.where(divisor == 0, a, np.fmod(a, np.where(divisor == 0, 1, divisor)))


@elementwise("neg", np.negative)
class Neg(Unary):
    """y = -x"""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.neg(dy)]


@elementwise("abs", np.abs)
class Abs(Unary):
    """y = |x|"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """0 at 0 and NaN."""
        zero = b.full_like(dy, 0.0)
        below = b.select(b.compare("lt", self.x, zero), b.neg(dy), zero)
        return [b.select(b.compare("gt", self.x, zero), dy, below)]


@elementwise("relu", _relu)
class Relu(Unary):
    """y = max(x, 0); -0 stays"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """0 at 0, dy at NaN."""
        zero = b.full_like(dy, 0.0)
        return [b.select(b.compare("le", self.y, zero), zero, dy)]


@elementwise("add", np.add)
class Add(Arithmetic):
    """y = a + b"""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [dy, dy]


@elementwise("sub", np.subtract)
class Sub(Arithmetic):
    """y = a - b"""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [dy, b.neg(dy)]


@elementwise("mul", np.multiply)
class Mul(Arithmetic):
    """y = a · b"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.mul(dy, self.b), b.mul(dy, self.a)]


@irdl_op_definition
class MultiplyAdd(Elementwise):
    """y = a · b + c (add), a · b - c (sub) or c - a · b (from), rounded once where machines can"""

    name = "rnn.multiply_add"
    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED
    kind = prop_def(StringAttr)
    a = operand_def()
    b = operand_def()
    c = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, MULTIPLY_ADDS)
        expect_float(types[0])
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        product, c = np.multiply(arrays[0], arrays[1]), arrays[2]
        if self.kind.data == "add":
            return product + c
        return product - c if self.kind.data == "sub" else c - product

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        of_product, of_c = self.shares(b, dy)
        return [b.mul(of_product, self.b), b.mul(of_product, self.a), of_c]

    def shares(self, b: Builder, dy: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The gradients of the product and of c."""
        match self.kind.data:
            case "sub":
                return dy, b.neg(dy)
            case "from":
                return b.neg(dy), dy
            case _:
                return dy, dy

    @property
    def product(self) -> SSAValue | None:
        """a · b by itself, where that was computed before."""
        for use in self.a.uses:
            op = use.operation
            if (
                isinstance(op, Mul)
                and (op.a, op.b) == (self.a, self.b)
                and op.parent is self.parent
            ):
                return op.y if op.is_before_in_block(self) else None
        return None


@elementwise("div", _divide, Cost.ROOT)
class Div(Arithmetic):
    """y = a / b; of integers towards zero, where a / 0 is 0"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """da = dy / b, db = -da · y"""
        da = b.div(dy, self.b)
        return [da, b.neg(b.mul(da, self.y))]


@elementwise("share", _share, Cost.ROOT)
class Share(Arithmetic):
    """y = a · (1 / b), rounded twice: many shares of one sum, which is divided by once"""

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        return super().infer_element(properties, *types)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """da = dy · (1 / b), db = -da · y"""
        da = b.share(dy, self.b)
        return [da, b.neg(b.mul(da, self.y))]

    def scalar(self, b: Builder, operands: Sequence[SSAValue]) -> SSAValue:
        """What is the same for a vector leaves the loop over it."""
        share, total = operands
        return b.mul(share, b.div(b.full_like(total, 1.0), total))


@elementwise("maximum", np.maximum)
class Maximum(Binary):
    """y = max(a, b); NaN if either is"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """All of it to the larger; to a where they are equal."""
        return _to_one(b, b.compare("ge", self.a, self.b), dy)


@elementwise("minimum", np.minimum)
class Minimum(Binary):
    """y = min(a, b); NaN if either is"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """All of it to the smaller; to a where they are equal."""
        return _to_one(b, b.compare("le", self.a, self.b), dy)


@irdl_op_definition
class Round(Unary):
    """y = an integer near x: floor, ceil, even (the nearest, of two the even one) or trunc"""

    name = "rnn.round"
    kind = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, ROUNDINGS)
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return ROUNDINGS[self.kind.data](arrays[0])

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """0 wherever there is one."""
        return [None]


@elementwise("rem", _remainder, Cost.FUNCTION)
class Rem(Arithmetic):
    """y = a - b · trunc(a / b), exactly; if b is 0, NaN, and a of integers"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """da = dy, db = -dy · trunc(a / b)"""
        # a - y is a multiple of b: only the quotient's own rounding is to be put right.
        quotient = b.round("even", b.div(b.sub(self.a, self.y), self.b))
        return [dy, b.neg(b.mul(dy, quotient))]


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

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
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

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None, None]


@irdl_op_definition
class Bits(Arithmetic):
    """y = a ? b over the bits of integers, with ? one of and, or, xor, left, right

    The last two shift a by b bits: to the left zeros follow, to the right copies of the sign. A b
    that is negative or as large as the integer is wide moves out all of a's bits.
    """

    name = "rnn.bits"
    kind = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, BITS)
        expect(dtype_of(types[0]) not in FLOATS, f"operand is {dtype_of(types[0])}, not an integer")
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return BITS[self.kind.data](*arrays)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None, None]


@elementwise("not", np.logical_not, code="")
class Not(Unary):
    """y = not x over i1"""

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect(dtype_of(types[0]) == "i1", f"operand is {dtype_of(types[0])}, expected i1")
        return types[0]

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None]


@elementwise("select", np.where, code="")
class Select(Elementwise):
    """y = a where the condition holds, else b"""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    condition = operand_def()
    a = operand_def()
    b = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        condition, a, b = types
        expect(dtype_of(condition) == "i1", f"condition is {dtype_of(condition)}, expected i1")
        return super().infer_element(properties, a, b)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None, *_to_one(b, self.condition, dy)]


@elementwise("stop_gradient", np.asarray, code="")
class StopGradient(Unary):
    """y = x, and no gradient flows back to x"""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    @property
    def differentiable(self) -> Sequence[SSAValue]:
        return ()

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None]


def _to_one(b: Builder, condition: SSAValue, dy: SSAValue) -> list[SSAValue]:
    """dy to the first of two where the condition holds, else to the second."""
    zero = b.full_like(dy, 0.0)
    return [b.select(condition, dy, zero), b.select(condition, zero, dy)]


OPS: list[type[Elementwise]] = [
    *(Neg, Abs, Relu, Add, Sub, Mul, MultiplyAdd, Div, Share, Maximum, Minimum, Rem, Round),
    *(Compare, Logical, Bits, Not, Select, StopGradient),
]
