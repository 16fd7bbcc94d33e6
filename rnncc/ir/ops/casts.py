"""Elements as another type: by their values, or by their bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from rnncc.ir.attributes import get_text
from rnncc.ir.ops.base import (
    Array,
    Context,
    Elementwise,
    Grads,
    Properties,
    Slopes,
    Tangents,
    Unary,
)
from rnncc.ir.ops.checks import expect
from rnncc.ir.precision import from_bf16, to_bf16
from rnncc.ir.types import FLOATS, NUMPY, Tensor, cast_steps, dims_of, dtype_of, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder


@irdl_op_definition
class Cast(Unary):
    """y = x as another element type; anything to i1 is x ≠ 0

    A float as an integer is rounded towards zero; one that does not fit becomes the nearest that
    does, and NaN 0. A narrow type is cast to and from the one that it is computed in alone: an
    integer loses its upper bits, a float is rounded, ties to even.
    """

    name = "rnn.cast"
    SLOPES: ClassVar[Slopes] = Slopes.FIXED
    dtype = prop_def(StringAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        old, new = dtype_of(types[0]), get_text(properties["dtype"])
        expect(len(cast_steps(old, new)) < 2, f"{old} is not cast to {new} in one step")
        return tensor(dims_of(types[0]), new)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, dtype = arrays[0], np.dtype(context.numpy_type(self.dtype.data))
        if "bf16" in (dtype_of(self.x), self.dtype.data):
            return to_bf16(x) if self.dtype.data == "bf16" else from_bf16(x).astype(dtype)
        if x.dtype.kind != "f" or dtype.kind != "i":
            with np.errstate(over="ignore"):  # a float16 beyond the largest is infinite
                return x.astype(dtype)
        bits = 8 * dtype.itemsize - 1  # what NumPy makes of other numbers depends on the machine
        low, high = x < -(2.0**bits), x >= 2.0**bits
        inside = np.where(low | high | np.isnan(x), 0, x).astype(dtype)
        return np.where(low, -(1 << bits), np.where(high, (1 << bits) - 1, inside)).astype(dtype)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.cast(dy, dtype_of(self.x)) if dtype_of(self.x) in FLOATS else None]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """As another type too."""
        return self.of_tangents(b, tangents) if dtype_of(self.y) in FLOATS else None


OF_ONE_WIDTH = {"f32": "i32", "i32": "f32", "f64": "i64", "i64": "f64"}
"""Element type -> the one whose elements its bits may be taken for."""


@irdl_op_definition
class Bitcast(Unary):
    """y = x's bits as float32 for int32, float64 for int64, and the other way"""

    name = "rnn.bitcast"

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        old = dtype_of(types[0])
        expect(old in OF_ONE_WIDTH, f"the bits of {old} stand for no other type")
        return tensor(dims_of(types[0]), OF_ONE_WIDTH[old])

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        old, new = dtype_of(self.x), dtype_of(self.y)
        # Of float32 where the real is wider; in one piece, with the axes that it has.
        stored = np.asarray(arrays[0], NUMPY[old], order="C")
        return stored.view(NUMPY[new]).astype(context.numpy_type(new))

    @property
    def differentiable(self) -> Sequence[SSAValue]:
        return ()

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None]


OPS: list[type[Elementwise]] = [Cast, Bitcast]
