"""Ops that sum: products of matrices and reductions."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.attributes import get_ints
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Array, Axes, Context, Grads, Properties, RnnOp, Slopes, Tangents
from rnncc.ir.ops.checks import (
    expect,
    expect_equal,
    expect_float,
    expect_kind,
    expect_number,
    expect_one_type,
)
from rnncc.ir.ops.source import Fill
from rnncc.ir.precision import integer_product
from rnncc.ir.types import FLOATS, Tensor, dims_of, dtype_of, shape_text, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min}


def _matrix(dims: tuple[Dim, ...], transpose: bool) -> tuple[Dim, Dim]:
    return (dims[-1], dims[-2]) if transpose else (dims[-2], dims[-1])


@irdl_op_definition
class Matmul(RnnOp):
    """y[..., m, n] = Σₖ a[..., m, k] · b[..., k, n]

    `transpose_a`, `transpose_b` swap an operand's last two axes first. The leading axes agree,
    or b is one matrix for all of them. Operands of i8 have sums of i32, exact modulo 2³².
    """

    name = "rnn.matmul"
    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED
    a = operand_def()
    b = operand_def()
    transpose_a = prop_def(BoolAttr)
    transpose_b = prop_def(BoolAttr)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        dtype = dtype_of(types[0])
        expect(dtype in (*FLOATS, "i8"), f"operand is {dtype}, expected a float or i8")
        expect_one_type(types)
        a, b = dims_of(types[0]), dims_of(types[1])
        shapes = f"{shape_text(a)} and {shape_text(b)}"
        expect(len(a) >= 2 and len(b) >= 2, f"product of {shapes}: both need two axes")
        if len(b) > 2:
            expect_equal(a[:-2], b[:-2], f"product of {shapes}: leading axes differ")
        m, k = _matrix(a, bool(properties["transpose_a"]))
        k_of_b, n = _matrix(b, bool(properties["transpose_b"]))
        expect_equal([k], [k_of_b], f"product of {shapes}: inner sizes are {k} and {k_of_b}")
        return tensor([*a[:-2], m, n], "i32" if dtype == "i8" else dtype)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        a, b = arrays
        a = np.swapaxes(a, -1, -2) if self.transpose_a else a
        b = np.swapaxes(b, -1, -2) if self.transpose_b else b
        return integer_product(a, b) if a.dtype == np.int8 else np.matmul(a, b)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dA = dY · Bᵀ, dB = Aᵀ · dY; where b is one matrix for all, one product over all rows."""
        da = b.matmul(dy, self.b, transpose_b=not self.transpose_b)
        rank, matrix = len(dims_of(self.a)), len(dims_of(self.b)) == 2
        swap = [*range(rank - 2), rank - 1, rank - 2]
        if not matrix or rank == 2:
            db = _right(b, self.a, dy, bool(self.transpose_a), bool(self.transpose_b))
        else:
            a = b.transpose(self.a, swap) if self.transpose_a else self.a
            db = _right(b, _as_rows(b, a), _as_rows(b, dy), False, bool(self.transpose_b))
        return [b.transpose(da, swap) if self.transpose_a else da, db]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """A' · B + A · B'"""
        da, db = tangents
        terms = [b.like(self, [da, self.b])] if da is not None else []
        terms += [b.like(self, [self.a, db])] if db is not None else []
        return terms[0] if len(terms) == 1 else b.add(*terms)

    def operand_axes(self, axis: int) -> Axes | None:
        """A row is of a, a column of b; of a stack both."""
        rank, width = len(dims_of(self.a)), len(dims_of(self.b))
        if axis == rank - 1:
            return (None, width - 2 if self.transpose_b else width - 1)
        if axis == rank - 2:
            return (rank - 1 if self.transpose_a else rank - 2, None)
        return (axis, axis if width > 2 else None)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """Other matrices a by one matrix b, or stacks by stacks."""
        rank, width = len(dims_of(self.a)), len(dims_of(self.b))
        a, b = differ
        if not a or (b and rank != width):
            return None
        return (True, b or width != 2)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.like(self, operands)

    def work(self) -> Dim | None:
        depth = dims_of(self.a)[-2 if self.transpose_a else -1]
        return product(dims_of(self.y)) * depth


def empty_value(kind: str, dtype: np.dtype[Any]) -> float:
    """A reduction of no elements: 0, or what no element of the type is beyond."""
    least, most = -np.inf, np.inf
    if dtype.kind != "f":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return {"sum": 0, "max": least, "min": most}[kind]


@irdl_op_definition
class Reduce(RnnOp):
    """y = sum, max or min of x over some axes, which go

    Of no elements the maximum is -∞ or the least integer, the minimum ∞ or the largest.
    """

    name = "rnn.reduce"
    x = operand_def()
    kind = prop_def(StringAttr)
    axes = prop_def(ArrayAttr)

    @property
    def slopes(self) -> Slopes:
        return Slopes.FIXED if self.kind.data == "sum" else Slopes.ANY

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_kind(properties, REDUCTIONS)
        axes, dims = get_ints(properties["axes"]), dims_of(types[0])
        expect_number(types[0])
        expect(list(axes) == sorted(set(axes)), f"axes {axes} do not increase")
        expect(all(0 <= axis < len(dims) for axis in axes), f"axes {axes} of rank {len(dims)}")
        return tensor([d for i, d in enumerate(dims) if i not in axes], dtype_of(types[0]))

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        x, reduce = arrays[0], REDUCTIONS[self.kind.data]
        initial = empty_value(self.kind.data, x.dtype)
        y = reduce(x, axis=get_ints(self.axes), initial=initial)
        return np.asarray(y, x.dtype)  # NumPy sums int32 as int64

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """A sum's to every element; an extremum's in equal shares to all elements that reach it."""
        dims, kept = dims_of(self.x), self.kept
        if self.kind.data == "sum":
            return [b.broadcast(dy, dims, kept)]
        reaches, count = self._reaching(b)
        share = b.broadcast(b.div(dy, count), dims, kept)
        return [b.select(reaches, share, b.full_like(share, 0.0))]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """An extremum's is the mean of those that reach it."""
        [dx] = tangents
        assert dx is not None
        if self.kind.data == "sum":
            return self.of_tangents(b, tangents)
        reaches, count = self._reaching(b)
        parts = b.select(reaches, dx, b.full_like(dx, 0.0))
        return b.div(b.reduce("sum", parts, get_ints(self.axes)), count)

    def _reaching(self, b: Builder) -> tuple[SSAValue, SSAValue]:
        """Where x is an extremum, and how many of its elements are, for each of y."""
        reaches = b.compare("eq", self.x, b.broadcast(self.y, dims_of(self.x), self.kept))
        ones = b.cast(reaches, dtype_of(self.x))
        return reaches, b.reduce("sum", ones, get_ints(self.axes))

    @property
    def kept(self) -> list[int]:
        """The axes of x that the result has."""
        reduced = get_ints(self.axes)
        return [axis for axis in range(len(dims_of(self.x))) if axis not in reduced]

    def operand_axes(self, axis: int) -> Axes | None:
        return (self.kept[axis],)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        return differ

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.reduce(self.kind.data, operands[0], [axis + 1 for axis in get_ints(self.axes)])

    def work(self) -> Dim | None:
        return product(dims_of(self.x))


class Accumulating(RnnOp, ABC):
    """An op whose result is `init` and what it adds to that, one addition after another."""

    init = operand_def()

    @property
    def starts_at_zero(self) -> bool:
        """Whether it starts at 0.0, as it does by default."""
        return is_zero(self.init)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """None: what is added in all steps is one sum over all rows, in a stated order."""
        return None

    def work(self) -> Dim | None:
        """None: it is smaller than what it is made of."""
        return None


class OrderedSum(Accumulating, ABC):
    """init + Σₖ of rows k of the other operands, along their first axes.

    k runs upwards, downwards with `reverse`. Rows cut into runs, each of which starts from the
    result of the one before, give the same bits.
    """

    reverse = prop_def(BoolAttr)


@irdl_op_definition
class Contract(OrderedSum):
    """y[m, n] = init[m, n] + Σₖ a[k, m] · b[k, n], one multiply-add after another

    k runs upwards, downwards with `reverse`. Rows cut into runs, each of which starts from the
    result of the one before, give the same bits. m and n have fixed sizes.
    """

    name = "rnn.contract"
    init = operand_def()
    a = operand_def()
    b = operand_def()

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        expect_one_type(types)
        init, a, b = (dims_of(t) for t in types)
        shapes = f"{shape_text(init)}, {shape_text(a)} and {shape_text(b)}"
        fits = len(a) == len(b) == 2 and a[0] == b[0] and init == (a[1], b[1])
        expect(fits, f"{shapes} are not [m, n], [k, m] and [k, n]")
        expect(all(d.is_static for d in init), f"sums of shape {shape_text(init)} are not fixed")
        return types[0]

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        init, a, b = arrays
        y = np.array(init)
        add_products(y, a, b, bool(self.reverse))
        return y

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dInit = dY, dA = B · dYᵀ, dB = A · dY"""
        return [dy, b.matmul(self.b, dy, transpose_b=True), b.matmul(self.a, dy)]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """Init' + Σₖ a'[k] · b[k] + Σₖ a[k] · b'[k]"""
        init, da, db = tangents
        total = b.full_like(self.init, 0.0) if init is None else init
        for left, right in ((da, self.b), (self.a, db)):
            if left is not None and right is not None:
                total = b.like(self, [total, left, right])
        return total

    def operand_axes(self, axis: int) -> Axes | None:
        return (0, 1, None) if axis == 0 else (1, None, 1)


@irdl_op_definition
class SumRows(OrderedSum):
    """y = init + Σₖ x[k], one after another

    k runs upwards, downwards with `reverse`. Rows cut into runs, each of which starts from the
    result of the one before, give the same bits.
    """

    name = "rnn.sum_rows"
    init = operand_def()
    x = operand_def()

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        expect_one_type(types)
        init, x = dims_of(types[0]), dims_of(types[1])
        shapes = f"{shape_text(x)} and {shape_text(init)}"
        expect(len(x) > 0 and x[1:] == init, f"{shapes}: rows and their sum differ")
        return types[0]

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        init, x = arrays
        y = np.array(init)
        add_rows(y, x, bool(self.reverse))
        return y

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """Every row's is the sum's."""
        dims = dims_of(self.x)
        return [dy, b.broadcast(dy, dims, range(1, len(dims)))]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def operand_axes(self, axis: int) -> Axes | None:
        return (axis, axis + 1)


def is_zero(value: SSAValue) -> bool:
    """Whether a value is known to be 0.0 everywhere, not -0.0."""
    # By its text, as -0.0 == 0.0.
    return isinstance(value.owner, Fill) and str(value.owner.value.value.data) == "0.0"


def add_products(total: Array, a: Array, b: Array, reverse: bool) -> None:
    """total += a[k] ⊗ b[k], one k after another."""
    for left, right in zip(*(x[::-1] if reverse else x for x in (a, b)), strict=True):
        total += np.multiply.outer(left, right)


def add_rows(total: Array, x: Array, reverse: bool) -> None:
    """total += x[k], one k after another."""
    for row in x[::-1] if reverse else x:
        total += row


def _as_rows(b: Builder, x: SSAValue) -> SSAValue:
    """A stack of matrices as the rows of one."""
    *rows, columns = dims_of(x)
    return b.reshape(x, [product(rows), columns])


def _right(b: Builder, a: SSAValue, dy: SSAValue, transposed: bool, swap: bool) -> SSAValue:
    """aᵀ · dy, the gradient of a product's right operand; with `swap` its transpose."""
    if swap:
        return b.matmul(dy, a, transpose_a=True, transpose_b=transposed)
    return b.matmul(a, dy, transpose_a=not transposed)


OPS = [Matmul, Reduce, Contract, SumRows]
