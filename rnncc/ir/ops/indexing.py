"""Ops that choose elements along one axis by numbers known at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.attributes import get_int
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Array, Axes, Context, Grads, Properties, RnnOp, Slopes, Tangents
from rnncc.ir.ops.checks import expect, expect_equal, expect_kind, expect_number, expect_one_type
from rnncc.ir.ops.linear import Accumulating
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder


@irdl_op_definition
class Gather(RnnOp):
    """y[a..., j..., c...] = x[a..., index[j...], c...]; an index outside of x is an error

    `axis` is the axis of x that the axes of `index` take the place of. With `counts` the index
    tells whether a number of rows is as it must be, and one outside is an error of its own.
    """

    name = "rnn.gather"
    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED
    CAN_FAIL: ClassVar[bool] = True
    x = operand_def()
    index = operand_def()
    axis = prop_def(IntAttr)
    counts = prop_def(BoolAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        x, index = types
        return tensor(_chosen(x, index, get_int(properties["axis"])), dtype_of(x))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, index = arrays
        check_index(index, x.shape[self.axis.data])
        return np.take(x, index, self.axis.data)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """Every row of dy, to where it was taken."""
        zeros = b.full_like(self.x, 0.0)
        return [b.scatter("sum", zeros, dy, self.index, self.axis.data), None]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def operand_axes(self, axis: int) -> Axes | None:
        place = axis - self.axis.data
        if place < 0:
            return (axis, None)
        rank = len(dims_of(self.index))
        return (None, place) if place < rank else (axis - rank + 1, None)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """The rows of one table by other numbers, or of other tables by the same ones."""
        tables, numbers = differ
        # Each instance its own numbers into its own table is no gather of one axis. With an axis in
        # front of the numbers', the instances' would lie behind it.
        return None if numbers and (tables or self.axis.data > 0) else differ

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        tables = len(dims_of(operands[0])) > len(dims_of(self.x))
        return b.gather(operands[0], operands[1], self.axis.data + tables)

    def work(self) -> Dim | None:
        return product(dims_of(self.y))


@irdl_op_definition
class Scatter(Accumulating):
    """y = init, where y[a..., index[j...], c...] is folded with x[a..., j..., c...], j upwards

    `kind` is that of a reduction: sum, max or min. An index outside of y is an error. `axis` is
    that of y.
    """

    name = "rnn.scatter"
    CAN_FAIL: ClassVar[bool] = True
    init = operand_def()
    x = operand_def()
    index = operand_def()
    kind = prop_def(StringAttr)
    axis = prop_def(IntAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        init, x, index = types
        expect_kind(properties, AT)
        expect_number(init)
        expect_one_type([init, x])
        rows = tuple(_chosen(init, index, get_int(properties["axis"])))
        shapes = f"{shape_text(dims_of(x))} and {shape_text(rows)}"
        expect_equal(dims_of(x), rows, f"{shapes}: rows and their places differ")
        return init

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        init, x, index = arrays
        y = np.array(init)
        fold_by_index(self.kind.data, y, x, index, self.axis.data)
        return y

    @property
    def starts_at_zero(self) -> bool:
        return self.kind.data == "sum" and super().starts_at_zero

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """A sum's dY is that of init, and of every row at its place; an extremum's goes in equal
        shares to all that reach it."""
        axis = self.axis.data
        if self.kind.data == "sum":
            return [dy, b.gather(dy, self.index, axis), None]
        kept, reaches, count = self._reaching(b)
        share = b.div(dy, count)
        part = b.gather(share, self.index, axis)
        first = b.select(kept, share, b.full_like(share, 0.0))
        return [first, b.select(reaches, part, b.full_like(part, 0.0)), None]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """An extremum's is the mean of those that reach it."""
        if self.kind.data == "sum":
            return self.of_tangents(b, tangents)
        kept, reaches, count = self._reaching(b)

        def part(flags: SSAValue, tangent: SSAValue | None) -> SSAValue:
            zero = b.fill(0.0, dims_of(flags), dtype_of(self.y))
            return zero if tangent is None else b.select(flags, tangent, zero)

        first, rows = part(kept, tangents[0]), part(reaches, tangents[1])
        return b.div(b.scatter("sum", first, rows, self.index, self.axis.data), count)

    def _reaching(self, b: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Where init and x are an extremum, and how many of them are, for each of y."""
        axis, dtype = self.axis.data, dtype_of(self.y)
        kept = b.compare("eq", self.init, self.y)
        reaches = b.compare("eq", self.x, b.gather(self.y, self.index, axis))
        ones, rows = b.cast(kept, dtype), b.cast(reaches, dtype)
        return kept, reaches, b.scatter("sum", ones, rows, self.index, axis)

    def operand_axes(self, axis: int) -> Axes | None:
        if axis == self.axis.data:
            return None
        behind = axis > self.axis.data
        return (axis, axis + len(dims_of(self.index)) - 1 if behind else axis, None)


AT: dict[str, Callable[..., None]] = {
    "sum": np.add.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
"""How rows are folded, one after another."""


def fold_by_index(kind: str, y: Array, x: Array, index: Array, axis: int) -> None:
    """Fold y[a..., index[j...], c...] with x[a..., j..., c...], one j after another.

    Raises:
        ValueError: an index is outside of y.
    """
    check_index(index, y.shape[axis])
    front = range(index.ndim)
    rows = np.moveaxis(x, [axis + j for j in front], front)
    AT[kind](np.moveaxis(y, axis, 0), index, rows)


def check_index(index: Array, size: int) -> None:
    """Refuse rows that are not there.

    Raises:
        ValueError: an index is outside of 0..size - 1.
    """
    if ((index < 0) | (index >= size)).any():
        raise ValueError(f"an index outside of 0..{size - 1}")


def _chosen(x: Tensor, index: Tensor, axis: int) -> list[Dim]:
    """The sizes of what an index chooses along an axis of x."""
    expect(dtype_of(index) in ("i32", "i64"), f"index is {dtype_of(index)}, expected i32 or i64")
    dims = dims_of(x)
    expect(0 <= axis < len(dims), f"axis {axis} of a tensor of rank {len(dims)}")
    return [*dims[:axis], *dims_of(index), *dims[axis + 1 :]]


OPS = [Gather, Scatter]
