"""Ops that rearrange elements and compute nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, var_operand_def

from rnncc.ir.attributes import get_dim, get_dims, get_int, get_ints
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import (
    Array,
    Axes,
    Context,
    Grads,
    Properties,
    RnnOp,
    Slopes,
    Tangents,
    Variadic,
    View,
)
from rnncc.ir.ops.checks import expect, expect_equal
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder


def _axis(properties: Properties, rank: int) -> int:
    axis = get_int(properties["axis"])
    expect(0 <= axis < rank, f"axis {axis} of a tensor of rank {rank}")
    return axis


def squeezed(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """A shape without its axes of size 1."""
    return tuple(d for d in dims if d != 1)


@irdl_op_definition
class Reshape(View):
    """y = x's elements, row-major, in another shape"""

    name = "rnn.reshape"
    dims = prop_def(ArrayAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        old, new = dims_of(types[0]), get_dims(properties["dims"])
        expect_equal(
            [product(old)],
            [product(new)],
            f"{shape_text(old)} has {product(old)} elements, {shape_text(new)} has {product(new)}",
        )
        return tensor(new, dtype_of(types[0]))

    @property
    def only_units(self) -> bool:
        """Whether it only adds or drops axes of size 1."""
        return squeezed(dims_of(self.x)) == squeezed(dims_of(self.y))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.reshape(arrays[0], context.shape(dims_of(self.y)))

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.reshape(dy, dims_of(self.x))]

    def operand_axes(self, axis: int) -> Axes | None:
        """The axis of x with as many elements in front of it."""
        old, new = dims_of(self.x), dims_of(self.y)
        before = product(new[:axis])
        # Axes of size 1 have the same count in front of them as the axis behind.
        wide = (i for i, size in enumerate(old) if size != 1 and product(old[:i]) == before)
        start = next(wide, None)
        return None if start is None or new[axis] == 1 else (start,)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.reshape(operands[0], [size, *dims_of(self.y)])


def inverse(perm: Sequence[int]) -> list[int]:
    """The order of axes that undoes another."""
    return [perm.index(axis) for axis in range(len(perm))]


@irdl_op_definition
class Transpose(View):
    """y's axis i is x's axis perm[i]"""

    name = "rnn.transpose"
    perm = prop_def(ArrayAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        dims, perm = dims_of(types[0]), get_ints(properties["perm"])
        expect(sorted(perm) == list(range(len(dims))), f"{perm} does not permute {len(dims)} axes")
        return tensor([dims[axis] for axis in perm], dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.transpose(arrays[0], get_ints(self.perm))

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.transpose(dy, inverse(get_ints(self.perm)))]

    def operand_axes(self, axis: int) -> Axes | None:
        return (get_ints(self.perm)[axis],)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.transpose(operands[0], [0, *(axis + 1 for axis in get_ints(self.perm))])


@irdl_op_definition
class Broadcast(View):
    """y = x repeated: x's axis i becomes y's axis axes[i], of the same size or grown from 1"""

    name = "rnn.broadcast"
    dims = prop_def(ArrayAttr)
    axes = prop_def(ArrayAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        old, new = dims_of(types[0]), get_dims(properties["dims"])
        axes = get_ints(properties["axes"])
        expect(len(axes) == len(old), f"{len(axes)} axes for a tensor of rank {len(old)}")
        expect(list(axes) == sorted(set(axes)), f"axes {axes} do not increase")
        for size, axis in zip(old, axes, strict=True):
            expect(0 <= axis < len(new), f"axis {axis} of a tensor of rank {len(new)}")
            if size != 1:
                message = f"size {size} does not broadcast to {new[axis]}"
                expect_equal([size], [new[axis]], message)
        return tensor(new, dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        shape = context.shape(dims_of(self.y))
        wide = [1] * len(shape)
        for size, axis in zip(arrays[0].shape, get_ints(self.axes), strict=True):
            wide[axis] = size
        return np.broadcast_to(arrays[0].reshape(wide), shape)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """Summed over the repeats."""
        old, axes = dims_of(self.x), get_ints(self.axes)
        grown = {axis for size, axis in zip(old, axes, strict=True) if size != dims_of(dy)[axis]}
        summed = [axis for axis in range(len(dims_of(dy))) if axis not in axes or axis in grown]
        return [b.reshape(b.reduce("sum", dy, summed) if summed else dy, old)]

    def operand_axes(self, axis: int) -> Axes | None:
        """The whole of x where it is repeated."""
        places = get_ints(self.axes)
        source = places.index(axis) if axis in places else None
        same = source is not None and dims_of(self.x)[source] == dims_of(self.y)[axis]
        return (source if same else None,)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        places = [0, *(axis + 1 for axis in get_ints(self.axes))]
        return b.broadcast(operands[0], [size, *dims_of(self.y)], places)


@irdl_op_definition
class Slice(View):
    """y = x[..., start : start + size, ...] along one axis"""

    name = "rnn.slice"
    SIZES: ClassVar[tuple[str, ...]] = ("start", "size")
    axis = prop_def(IntAttr)
    start = prop_def(StringAttr)
    size = prop_def(StringAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        dims = list(dims_of(types[0]))
        axis = _axis(properties, len(dims))
        start, size = get_dim(properties["start"]), get_dim(properties["size"])
        rest = dims[axis] - start - size
        # what depends on symbols is checked when a call names the sizes
        inside = not any(d.is_static and int(d) < 0 for d in (start, size, rest))
        expect(inside, f"slice of {size} from {start} along an axis of {dims[axis]}")
        dims[axis] = size
        return tensor(dims, dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        start = get_dim(self.start).evaluate(context.sizes)
        size = get_dim(self.size).evaluate(context.sizes)
        index = [slice(None)] * arrays[0].ndim
        index[self.axis.data] = slice(start, start + size)
        return arrays[0][tuple(index)]

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """Padded with -0.0, which adds up to what it is added to, bit for bit."""
        return [
            b.pad(dy, self.axis.data, get_dim(self.start), dims_of(self.x)[self.axis.data], -0.0)
        ]

    def operand_axes(self, axis: int) -> Axes | None:
        return None if axis == self.axis.data else (axis,)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.like(self, operands, axis=IntAttr(self.axis.data + 1))

    def bounds(self) -> Sequence[Dim]:
        """Where it starts, and what is left behind it."""
        start = get_dim(self.start)
        return start, dims_of(self.x)[self.axis.data] - start - get_dim(self.size)


@irdl_op_definition
class Concat(Variadic):
    """y = the operands one after another along one axis"""

    name = "rnn.concat"
    SLOPES: ClassVar[Slopes] = Slopes.FIXED
    xs = var_operand_def()
    axis = prop_def(IntAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect(len(types) > 0, "nothing to concatenate")
        first = dims_of(types[0])
        axis = _axis(properties, len(first))
        total = Dim.of(0)
        for type_ in types:
            dims = dims_of(type_)
            shapes = f"{shape_text(first)} and {shape_text(dims)}"
            same = len(dims) == len(first) and dtype_of(type_) == dtype_of(types[0])
            expect(same, f"ranks or element types differ: {shapes}")
            one, other = ([*d[:axis], *d[axis + 1 :]] for d in (first, dims))
            expect_equal(one, other, f"shapes differ beside axis {axis}: {shapes}")
            total = total + dims[axis]
        return tensor([*first[:axis], total, *first[axis + 1 :]], dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return np.concatenate(arrays, self.axis.data)

    @property
    def parts(self) -> Iterator[tuple[Dim, SSAValue]]:
        """Where each operand starts along the axis, and itself."""
        start = Dim.of(0)
        for x in self.xs:
            yield start, x
            start = start + dims_of(x)[self.axis.data]

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        axis = self.axis.data
        return [b.slice(dy, axis, start, dims_of(x)[axis]) for start, x in self.parts]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def operand_axes(self, axis: int) -> Axes | None:
        return None if axis == self.axis.data else (axis,) * len(self.xs)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        return [True] * len(differ)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.concat(operands, self.axis.data + 1)

    def work(self) -> Dim | None:
        return product(dims_of(self.y))


@irdl_op_definition
class ReverseSegments(RnnOp):
    """y[t, n] = x[len[n] - 1 - t, n] for t < len[n], else x[t, n]; lengths beyond T are an error"""

    name = "rnn.reverse_segments"
    CAN_FAIL: ClassVar[bool] = True
    x = operand_def()
    lengths = operand_def()

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        x, lengths = types
        expect(dtype_of(lengths) == "i32", f"lengths are {dtype_of(lengths)}, expected i32")
        dims = dims_of(x)
        expect(len(dims) >= 2, f"data of shape {shape_text(dims)}, expected T x N x ...")
        expect_equal(
            dims_of(lengths),
            (dims[1],),
            f"lengths of shape {shape_text(dims_of(lengths))} for data {shape_text(dims)}",
        )
        return x

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, lengths = arrays
        result = np.array(x)
        for column, length in enumerate(lengths):
            if not 0 <= length <= len(x):
                raise ValueError(f"length {length} of a sequence of {len(x)} steps")
            result[:length, column] = x[:length, column][::-1]
        return result

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """The reversal undoes itself."""
        return [b.reverse_segments(dy, self.lengths), None]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def operand_axes(self, axis: int) -> Axes | None:
        return None if axis == 0 else (axis, 0 if axis == 1 else None)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """None: time comes first."""
        return None

    def work(self) -> Dim | None:
        """None: its operand is as large as its result."""
        return None


@irdl_op_definition
class Shift(RnnOp):
    """y[0] = init, y[t] = x[t - 1]; with `reverse` y[T - 1] = init, y[t] = x[t + 1]

    The states before each step, given those after each step.
    """

    name = "rnn.shift"
    x = operand_def()
    init = operand_def()
    reverse = prop_def(BoolAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        x, init = types
        fits = dims_of(x)[1:] == dims_of(init) and dtype_of(x) == dtype_of(init)
        expect(fits and len(dims_of(x)) > 0, f"a sequence {x} does not continue {init}")
        return x

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, init = arrays
        parts = [x[1:], init[None]] if self.reverse else [init[None], x[:-1]]
        return np.concatenate(parts)[: len(x)]

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """The shift the other way; init gets the row where it stands, if there is one."""
        dims = dims_of(self.x)
        last = b.size(dims[0] - 1, "i32") if self.reverse else b.size(Dim.of(0), "i32")
        here = b.compare("eq", b.iota(dims, 0), last)
        zero = b.full_like(self.init, 0.0)
        first = b.reduce("sum", b.select(here, dy, b.full_like(dy, 0.0)), [0])
        return [b.shift(dy, zero, not self.reverse), first]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def operand_axes(self, axis: int) -> Axes | None:
        return None if axis == 0 else (axis, axis - 1)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """None: time comes first."""
        return None

    def work(self) -> Dim | None:
        return Dim.of(0)


OPS = [Reshape, Transpose, Broadcast, Slice, Concat, ReverseSegments, Shift]
