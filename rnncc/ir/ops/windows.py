"""Windows along an axis, and windows laid over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from rnncc.ir.attributes import get_dim, get_int, get_ints
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Array, Axes, Context, Grads, Properties, View
from rnncc.ir.ops.checks import expect
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Concat, Reshape, Transpose
from rnncc.ir.ops.source import Fill
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import FLOATS, Tensor, dims_of, dtype_of, tensor
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

FEWEST, FULL = 16, 8
"""Columns that a product has to have left for its rows to be laid over each other instead: fewer do
not fill a vector. And how many rows there are for each that is made of zeros around them."""


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
        most = _without_pads(self.x, axis)
        start, empty = get_dim(self.start), not is_natural(get_dim(self.count) - 1)
        return [overlap_add(b, dy, axis, start, total, self.steps, most, empty)]

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


def _without_pads(x: SSAValue, axis: int) -> Dim:
    """How long an axis is but for constants around it."""
    match x.owner:
        case Windows() as op if axis not in (op.axis.data, op.axis.data + 1):
            return _without_pads(op.x, axis - (axis > op.axis.data))
        case Concat() as op:
            parts = [part for part in op.xs if not isinstance(part.owner, Fill)]
            if parts and op.axis.data != axis:
                return _without_pads(parts[0], axis)
            return sum((dims_of(part)[axis] for part in parts), Dim.of(0))
        case _:
            return dims_of(x)[axis]


def overlap_add(
    b: Builder,
    y: SSAValue,
    axis: int,
    start: Dim,
    total: Dim,
    steps: tuple[int, int],
    needed: Dim | None = None,
    empty: bool = False,
) -> SSAValue:
    """The sum of windows laid over each other.

    Where these are a product of rows by a matrix whose columns hold the taps, as in the gradient of
    a convolution, the rows are laid over each other instead: windows of theirs, times the taps the
    other way round, are a convolution, too.

    Args:
        y: windows along `axis`, their taps along the axis behind it; taps of known number.
        start: where the first window begins.
        total: how long the result is along `axis`.
        steps: from one window to the next, and from one tap to the next.
        needed: how much of the result is of use; all of it without.
        empty: whether there may be no window.
    """
    windowed = _product(y)
    fits = steps[0] == 1 and windowed is not None and windowed.has_taps(y, axis)
    if fits and _is_full(dims_of(y)[axis], total if needed is None else needed):
        assert windowed is not None
        return _convolved(b, y, windowed, axis, (start, total, steps[1]))
    return _added(b, y, axis, start, total, steps, empty)


def _is_full(count: Dim, total: Dim) -> bool:
    """Whether windows of so many rows hold few zeros around them."""
    known = count.is_static and total.is_static
    return not known or int(total - count) * FULL <= int(count)


def _added(
    b: Builder,
    y: SSAValue,
    axis: int,
    start: Dim,
    total: Dim,
    steps: tuple[int, int],
    empty: bool,
) -> SSAValue:
    count, taps = dims_of(y)[axis], int(dims_of(y)[axis + 1])
    stride, dilation = steps
    # taps that lie in one stride meet no others of their own: all of them are one term of the sum
    together = stride if dilation == 1 else 1
    # Of no windows, (count - 1) · stride is negative: strides stay whole, and what is beyond the
    # result is cut off the sum.
    beyond = stride - (taps % together or together) if empty else 0
    sums = None
    for tap in range(0, taps, together):
        number = min(together, taps - tap)
        row = b.slice(y, axis + 1, tap, number)
        if stride > number:
            # x + -0.0 is x for every x, which x + 0.0 is not.
            row = b.pad(row, axis + 1, 0, Dim.of(stride), -0.0)
        dims = dims_of(row)
        row = b.reshape(row, (*dims[:axis], count * stride, *dims[axis + 2 :]))
        if not beyond:
            row = b.slice(row, axis, 0, (count - 1) * stride + number)
        placed = b.pad(row, axis, start + tap * dilation, total + beyond, -0.0)
        sums = placed if sums is None else b.add(sums, placed)
    assert sums is not None
    return b.slice(sums, axis, 0, total) if beyond else sums


@record
class _Product:
    """y, turned round by `order`, is rows [r..., m] times weights [m, c...].

    Attributes:
        order: for each axis of y its number among [r..., c...].
    """

    rows: SSAValue
    order: tuple[int, ...]

    @property
    def count(self) -> int:
        """Of axes of rows."""
        return len(dims_of(self.rows)) - 1

    def has_taps(self, y: SSAValue, axis: int) -> bool:
        """Whether an axis is one of rows, the one behind it one of columns, and others remain."""
        dims = dims_of(y)
        columns = [a for a, number in enumerate(self.order) if number >= self.count]
        if axis in columns or axis + 1 not in columns:
            return False
        left = product(dims[a] for a in columns if a != axis + 1)
        return left.is_static and int(left) >= FEWEST


def _product(y: SSAValue) -> _Product | None:
    """What a value is as a product by one matrix; None where it is none."""
    match y.owner:
        case Matmul() as op if not op.transpose_a and len(dims_of(op.b)) == 2:
            return _Product(op.a, tuple(range(len(dims_of(y))))) if dtype_of(y) in FLOATS else None
        case Reshape() as op:
            inner = _product(op.x)
            if inner is None or inner.order != tuple(range(len(dims_of(op.x)))):
                return None
            return _with_columns(inner, dims_of(y))
        case Transpose() as op:
            inner = _product(op.x)
            if inner is None:
                return None
            return _Product(inner.rows, tuple(inner.order[axis] for axis in get_ints(op.perm)))
        case Concat() as op:
            parts = [_product(x) for x in op.xs]
            first = parts[0]
            if first is None or any(part != first for part in parts):
                return None
            return first if first.order[op.axis.data] >= first.count else None
        case _:
            return None


def _with_columns(inner: _Product, dims: Sequence[Dim]) -> _Product | None:
    """A product whose columns are several axes; some of size 1 may stand between those of rows."""
    order, rows, columns = list[int](), dims_of(inner.rows)[:-1], inner.count
    seen = 0
    for size in dims:
        is_row = seen < inner.count and size == rows[seen]
        if not is_row and seen < inner.count and size != 1:
            return None
        order.append(seen if is_row else columns)
        seen, columns = seen + is_row, columns + (not is_row)
    return _Product(inner.rows, tuple(order)) if seen == inner.count else None


def _weights(b: Builder, y: SSAValue) -> SSAValue:
    """The matrix of such a product, as [m, c...]."""
    windowed = _product(y)
    assert windowed is not None
    match y.owner:
        case Matmul() as op:
            return b.transpose(op.b, [1, 0]) if op.transpose_b else op.b
        case Reshape() as op:
            matrix, numbered = _weights(b, op.x), zip(windowed.order, dims_of(y), strict=True)
            columns = [size for number, size in numbered if number >= windowed.count]
            return b.reshape(matrix, (dims_of(matrix)[0], *columns))
        case Concat() as op:
            axis = windowed.order[op.axis.data] - windowed.count + 1
            return b.concat([_weights(b, x) for x in op.xs], axis)
        case op:
            assert isinstance(op, Transpose)
            return _weights(b, op.x)


def _convolved(
    b: Builder, y: SSAValue, windowed: _Product, axis: int, place: tuple[Dim, Dim, int]
) -> SSAValue:
    """Windows of rows along an axis, times the weights of their taps the other way round."""
    order, before = windowed.order, windowed.count
    tap_axis, taps = order[axis + 1], int(dims_of(y)[axis + 1])
    weights, taken = _weights(b, y), tap_axis - before + 1
    weights = b.concat([b.slice(weights, taken, k, 1) for k in reversed(range(taps))], taken)
    others = [n for n in range(len(dims_of(weights))) if n != taken]
    weights = b.transpose(weights, [taken, *others])
    columns = dims_of(weights)[2:]
    rows = _windowed_rows(b, windowed.rows, order[axis], taps, place)
    flat = b.reshape(weights, (dims_of(rows)[-1], product(columns)))
    result = b.matmul(rows, flat)
    result = b.reshape(result, (*dims_of(result)[:-1], *columns))
    left = [number - (number > tap_axis) for number in order if number != tap_axis]
    return b.transpose(result, left)


def _windowed_rows(
    b: Builder, rows: SSAValue, axis: int, taps: int, place: tuple[Dim, Dim, int]
) -> SSAValue:
    """Rows [r..., m] as [r..., taps · m] along one of their axes, with zeros around it."""
    start, total, dilation = place
    before, reach = len(dims_of(rows)) - 1, (taps - 1) * dilation
    view = rows.owner  # windows of windows are a view of what these are a view of
    if isinstance(view, Reshape) and dims_of(view.x)[:before] == dims_of(rows)[:before]:
        rows = view.x
    x = _padded(b, rows, axis, start + reach, total + reach)
    x = b.windows(x, axis, 0, total, 1, taps, dilation)
    others = [n for n in range(len(dims_of(x))) if n != axis + 1]
    x = b.transpose(x, [*others[:before], axis + 1, *others[before:]])
    dims = dims_of(x)
    return b.reshape(x, (*dims[:before], product(dims[before:])))


def _padded(b: Builder, x: SSAValue, axis: int, start: Dim, total: Dim) -> SSAValue:
    """Zeros around an axis, where a view of windows along others is a view still."""
    match x.owner:
        case Transpose() as op if isinstance(op.x.owner, Transpose | Windows):
            perm = get_ints(op.perm)
            return b.transpose(_padded(b, op.x, perm[axis], start, total), perm)
        case Windows() as op if axis not in (op.axis.data, op.axis.data + 1):
            behind = axis > op.axis.data
            return b.like(op, [_padded(b, op.x, axis - behind, start, total)])
        case _:
            return b.pad(x, axis, start, total, 0.0)


OPS = [Windows]
