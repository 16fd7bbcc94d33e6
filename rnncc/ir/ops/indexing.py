"""Ops that choose elements along one axis: by numbers known at run time, or evenly spaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.attributes import get_dim, get_int
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Array, Axes, Context, Grads, Properties, RnnOp, Tangents, View
from rnncc.ir.ops.checks import expect, expect_equal, expect_kind, expect_number, expect_one_type
from rnncc.ir.ops.linear import Accumulating
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder


@irdl_op_definition
class Gather(RnnOp):
    """y[a..., j..., c...] = x[a..., index[j...], c...]; an index outside of x is an error

    `axis` is the axis of x that the axes of `index` take the place of.
    """

    name = "rnn.gather"
    CAN_FAIL: ClassVar[bool] = True
    x = operand_def()
    index = operand_def()
    axis = prop_def(IntAttr)

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


@irdl_op_definition
class Windows(View):
    """y[a..., i, k, c...] = x[a..., start + i·stride + k·dilation, c...], `count` by `taps`

    What a convolution multiplies with its weights; with one tap, elements at even distances.
    """

    name = "rnn.windows"
    SIZES: ClassVar[tuple[str, ...]] = ("start", "count")
    axis = prop_def(IntAttr)
    start = prop_def(StringAttr)
    count = prop_def(StringAttr)
    stride = prop_def(IntAttr)
    taps = prop_def(IntAttr)
    dilation = prop_def(IntAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        dims, axis = dims_of(types[0]), get_int(properties["axis"])
        expect(0 <= axis < len(dims), f"axis {axis} of a tensor of rank {len(dims)}")
        start, count = get_dim(properties["start"]), get_dim(properties["count"])
        stride, taps, dilation = (get_int(properties[n]) for n in ("stride", "taps", "dilation"))
        expect(min(stride, taps, dilation) > 0, "stride, taps and dilation are at least 1")
        rest = dims[axis] - start - (count - 1) * stride - (taps - 1) * dilation - 1
        empty = count == 0
        inside = empty or not any(d.is_static and int(d) < 0 for d in (start, count, rest))
        expect(inside, f"{count} windows of {taps} do not fit an axis of {dims[axis]}")
        return tensor([*dims[:axis], count, taps, *dims[axis + 1 :]], dtype_of(types[0]))

    @property
    def steps(self) -> tuple[int, int]:
        """From one window to the next, and from one tap to the next."""
        return self.stride.data, self.dilation.data

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        start, count = (get_dim(d).evaluate(context.sizes) for d in (self.start, self.count))
        stride, dilation = self.steps
        first = start + np.arange(count)[:, None] * stride
        return np.take(arrays[0], first + np.arange(self.taps.data) * dilation, self.axis.data)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        axis = self.axis.data
        total = dims_of(self.x)[axis]
        return [overlap_add(b, dy, axis, get_dim(self.start), total, self.steps)]

    def operand_axes(self, axis: int) -> Axes | None:
        front = self.axis.data
        return None if axis in (front, front + 1) else (axis if axis < front else axis - 1,)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.like(self, operands, axis=IntAttr(self.axis.data + 1))

    def bounds(self) -> Sequence[Dim]:
        """Where the first one starts, and what is left behind the last one."""
        start, (stride, dilation) = get_dim(self.start), self.steps
        reach = (get_dim(self.count) - 1) * stride + (self.taps.data - 1) * dilation + 1
        return start, dims_of(self.x)[self.axis.data] - start - reach


def overlap_add(
    b: Builder, y: SSAValue, axis: int, start: Dim, total: Dim, steps: tuple[int, int]
) -> SSAValue:
    """The sum of windows laid over each other, the opposite of `rnn.windows`.

    Args:
        y: windows along `axis`, their taps along the axis behind it; taps of known number.
        start: where the first window begins.
        total: how long the result is along `axis`.
        steps: from one window to the next, and from one tap to the next.
    """
    count, taps = dims_of(y)[axis], int(dims_of(y)[axis + 1])
    stride, dilation = steps
    # taps that lie in one stride meet no others of their own: all of them are one term of the sum
    together = stride if dilation == 1 else 1
    sums = None
    for tap in range(0, taps, together):
        number = min(together, taps - tap)
        row = b.slice(y, axis + 1, tap, number)
        if stride > number:
            # x + -0.0 is x for every x, which x + 0.0 is not.
            row = b.pad(row, axis + 1, 0, Dim.of(stride), -0.0)
        dims = dims_of(row)
        row = b.reshape(row, (*dims[:axis], count * stride, *dims[axis + 2 :]))
        row = b.slice(row, axis, 0, (count - 1) * stride + number)
        placed = b.pad(row, axis, start + tap * dilation, total, -0.0)
        sums = placed if sums is None else b.add(sums, placed)
    assert sums is not None
    return sums


OPS = [Gather, Scatter, Windows]
