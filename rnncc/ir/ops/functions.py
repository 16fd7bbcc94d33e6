"""Further elementwise functions: ln(1 + x), e^x - 1, sine, cosine, rounding, remainder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from rnncc.ir.ops.base import (
    Arithmetic,
    Array,
    Context,
    Elementwise,
    Grads,
    Properties,
    Unary,
    expect_kind,
)
from rnncc.ir.types import Tensor

if TYPE_CHECKING:
    from rnncc.ir.build import Build

FARTHEST = 2.0**23
"""The largest number of which code computes the sine."""
ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "even": np.rint, "trunc": np.trunc}


@irdl_op_definition
class Log1p(Unary):
    """y = ln(1 + x), accurate near 0; -∞ at -1, NaN below"""

    name = "rnn.log1p"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.log1p(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.div(dy, b.add(self.x, b.full_like(dy, 1.0)))]


@irdl_op_definition
class Expm1(Unary):
    """y = eˣ - 1, accurate near 0"""

    name = "rnn.expm1"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.expm1(arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """dy · (y + 1)"""
        return [b.mul(dy, b.add(self.y, b.full_like(dy, 1.0)))]


@irdl_op_definition
class Sin(Unary):
    """y = sin x; NaN where |x| > 2²³, where float32 tells a turn's parts no more"""

    name = "rnn.sin"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.where(np.abs(arrays[0]) > FARTHEST, np.nan, np.sin(arrays[0]))

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.mul(dy, b.cos(self.x))]


@irdl_op_definition
class Cos(Unary):
    """y = cos x; NaN where |x| > 2²³, as of sin"""

    name = "rnn.cos"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.where(np.abs(arrays[0]) > FARTHEST, np.nan, np.cos(arrays[0]))

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return [b.neg(b.mul(dy, b.sin(self.x)))]


@irdl_op_definition
class Round(Unary):
    """y = a whole number near x: floor, ceil, even (the nearest, of two the even one) or trunc"""

    name = "rnn.round"
    kind = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, ROUNDINGS)
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return ROUNDINGS[self.kind.data](arrays[0])

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """0 wherever there is one."""
        return [None]


@irdl_op_definition
class Rem(Arithmetic):
    """y = a - b · trunc(a / b), exactly; if b is 0, NaN, and a of integers"""

    name = "rnn.rem"

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        a, divisor = arrays
        if a.dtype.kind == "f":
            return np.fmod(a, divisor)
        return np.where(divisor == 0, a, np.fmod(a, np.where(divisor == 0, 1, divisor)))

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """da = dy, db = -dy · trunc(a / b)"""
        quotient = b.round("even", b.div(b.sub(self.a, self.y), self.b))
        return [dy, b.neg(b.mul(dy, quotient))]


OPS: list[type[Elementwise]] = [Log1p, Expm1, Sin, Cos, Round, Rem]
