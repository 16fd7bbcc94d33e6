"""Fill operators inside a net, and Dropout at inference."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rnncc.frontends.caffe2.constants import NAMES, Known, known_fill
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.copies import Identity
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import FLOATS
from rnncc.netdef.fills import FILLS, fill_constant, fill_shape

MAX_LITERAL = 1 << 16
"""How many elements a tensor written into a net may have; larger ones belong into the init net."""

MAX_VECTOR = 64
"""How long a vector of integers may be to count as sizes."""


class ConstantFill(Operator):
    """Y = value everywhere; of the shape given, of X's shape, or of the shape X contains.

    Refused: types other than float, double, int32, int64 and bool; an input and `shape` together;
    a shape in a blob whose content is not known at compile time.
    """

    inputs = (0, 1)

    def setup(self, maker: Resolver) -> None:
        dtype, self.value = fill_constant(self.args)
        self.dtype = NAMES[dtype.name]
        self.shape = fill_shape(self.args)
        if self.xs and self.args.ints("shape"):
            raise self.error("has an input and the argument 'shape'")

    def infer(self, s: Shapes) -> None:
        s.expect_dtype(self.ys[0], self.dtype)
        dims = self._dims(s)
        if dims is None:
            return
        shape = (*dims, *(Dim.of(int(d)) for d in self.args.ints("extra_shape") if self.xs))
        s.expect(self.ys[0], shape)
        small = len(shape) == 1 and shape[0].is_static and int(shape[0]) <= MAX_VECTOR
        if small and self.dtype in ("i32", "i64"):
            s.expect_value(self.ys[0], [int(self.value)] * int(shape[0]), self.dtype)

    def _dims(self, s: Shapes) -> Dims | None:
        if not self.xs:
            return tuple(Dim.of(d) for d in self.shape)
        if self.args.flag("input_as_shape"):
            return s.value(self.xs[0])
        return s.dims(self.xs[0])

    def assume(self, s: Shapes, level: int) -> None:
        decides = self.args.flag("input_as_shape") or s.dims(self.ys[0]) is None
        if level == 2 and decides and self._dims(s) is None:
            raise self.unknown_content(self.xs[0])

    def evaluate(self, values: Sequence[Known | None]) -> Known | None:
        one = not self.xs and prod(self.shape) == 1
        return (self.dtype, int(self.value)) if one and self.dtype not in FLOATS else None

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.fill(self.value, e.dims(self.ys[0]), self.dtype)


class GivenTensorFill(Operator):
    """Y = the values given.

    Refused: an input; more than 65536 values outside of an init net.
    """

    inputs = (0, 0)

    def setup(self, maker: Resolver) -> None:
        self.fill = FILLS[self.op.type](self.ys[0].name, self.args)
        if np.prod(self.fill.shape, dtype=np.float64) > MAX_LITERAL:
            what = f"holds more than {MAX_LITERAL} values"
            raise self.error(what, "put large tensors into an init net")

    def infer(self, s: Shapes) -> None:
        shape, dtype = self.fill.shape, NAMES[self.fill.dtype.name]
        s.expect(self.ys[0], shape, dtype)
        if dtype in ("i32", "i64") and len(shape) == 1 and shape[0] <= MAX_VECTOR:
            s.expect_value(self.ys[0], [int(v) for v in self._array()], dtype)

    def evaluate(self, values: Sequence[Known | None]) -> Known | None:
        return known_fill(self.fill)

    def _array(self) -> np.ndarray[Any, Any]:
        return self.fill.array(0)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.constant(self._array())


class DiagonalFill(GivenTensorFill):
    """Y = `value` where all places along the axes are equal, else 0; the diagonal of a high matrix
    goes on from the first column, behind a row of zeros."""


class Float16ConstantFill(GivenTensorFill):
    """Y = the float16 nearest to `value` everywhere, as float32."""


class RangeFill(GivenTensorFill):
    """Y = 0, 1, 2 and so on, in the order of rows."""


class Dropout(Identity):
    """Y = X: at inference nothing is dropped.

    Refused: `is_test` other than 1; reading the mask.
    """

    outputs = (1, 2)

    def setup(self, maker: Resolver) -> None:
        if not self.args.flag("is_test"):
            raise self.error("drops at random: argument 'is_test' is not 1")
        for mask in self.ys[1:]:
            mask.opaque = True
        del self.ys[1:]


_GIVEN = [name for name in FILLS if name.startswith("GivenTensor")]

OPERATORS: dict[str, type[Operator]] = {
    "ConstantFill": ConstantFill,
    **dict.fromkeys(_GIVEN, GivenTensorFill),
    "DiagonalFill": DiagonalFill,
    "Float16ConstantFill": Float16ConstantFill,
    "RangeFill": RangeFill,
    "Dropout": Dropout,
}

REFUSED = dict.fromkeys(
    (name for name in FILLS if name not in OPERATORS),
    "random numbers are drawn once, in an init net",
)
