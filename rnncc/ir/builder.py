"""A builder of `rnn` code: one method an op, NumPy broadcasting, and locations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.builder import Builder as OpBuilder
from xdsl.dialects.builtin import (
    FloatAttr,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from rnncc.errors import CompileError, Location
from rnncc.ir.attributes import dim_attr, dims_attr, ints_attr, is_held
from rnncc.ir.dims import Dim
from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.apply import Apply, FunctionAttr
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.checks import SizesDiffer
from rnncc.ir.ops.control import Net, Scan, Yield, row_type, terminator
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.ops.source import Constant, Fill, Iota, Param, Size
from rnncc.ir.ops.windows import Windows
from rnncc.ir.plain_ops import PlainOps
from rnncc.ir.program import Program
from rnncc.ir.types import OF_NUMPY, Tensor, cast_steps, dims_of, dtype_of, shape_text, tensor
from rnncc.scalar import Scalar

Values = Sequence[SSAValue]
Body = Callable[["Builder", list[SSAValue], list[SSAValue], list[SSAValue]], tuple[Values, Values]]


_HALF, _LOW = 32, 0xFFFFFFFF
"""The bits of half an integer, and the lower ones of 64."""


class Builder(PlainOps):
    """Appends ops to a block; each gets the location that is set at that moment.

    Every method, those of `PlainOps` too, raises `CompileError` at that location where shapes or
    types do not fit.
    """

    def __init__(self, block: Block, location: Location | None = None) -> None:
        self.block = block
        self.loc = location or Location()
        self._builder = OpBuilder(InsertPoint.at_end(block))
        self._inputs: list[str] = []
        self._name = ""

    @staticmethod
    def net(name: str) -> Builder:
        """Start a net."""
        build = Builder(Block())
        build._name = name
        return build

    @staticmethod
    def before(op: Operation) -> Builder:
        """Insert in front of an op, with its location."""
        assert op.parent is not None, f"{op.name} is in no block"
        at = op.location
        location = Location(node=at.desc.data) if isinstance(at, NameLoc) else None
        build = Builder(op.parent, location)
        build._builder = OpBuilder(InsertPoint.before(op))
        return build

    def like(self, op: RnnOp, operands: Sequence[SSAValue], **changes: Attribute) -> SSAValue:
        """The same op over other operands, with some properties changed."""
        return self.append(type(op), *operands, **{**op.properties, **changes})

    def input(self, name: str, dims: Sequence[Dim | int | str], dtype: str = "f32") -> SSAValue:
        """A model input of that blob name."""
        value = self.block.insert_arg(self._type(dims, dtype), len(self.block.args))
        self._inputs.append(name)
        return value

    def free_name(self, name: str) -> str:
        """The name of an input to come: the given one, longer where another input has that."""
        while name in self._inputs:
            name += "_"
        return name

    def finish(
        self,
        outputs: Mapping[str, SSAValue],
        arrays: Mapping[str, np.ndarray[Any, Any]] | None = None,
        source: str = "",
    ) -> Program:
        """End the net."""
        self._builder.insert(Yield(list(outputs.values())))
        net = Net(self._name, self._inputs, list(outputs), self.block)
        return Program(ModuleOp([net]), dict(arrays or {}), self._name, source)

    # Sources

    def param(self, name: str, dims: Sequence[Dim | int | str], dtype: str = "f32") -> SSAValue:
        return self._insert(Param(self._type(dims, dtype), param_name=StringAttr(name)))

    def constant(self, array: np.ndarray[Any, Any], dtype: str | None = None) -> SSAValue:
        """A small literal array; its own dtype unless one is given."""
        array = np.asarray(array)
        dtype = dtype or OF_NUMPY[array.dtype]
        if dtype == "i64" and not all(map(is_held, array.flat)):
            return self._halves(self.constant(array >> _HALF), self.constant(array & _LOW))
        return self._insert(Constant.of(array, dtype))

    def fill(self, value: float, dims: Sequence[Dim | int | str], dtype: str = "f32") -> SSAValue:
        if dtype == "i64" and isinstance(value, int) and not is_held(value):
            high, low = (self.fill(half, dims, dtype) for half in (value >> _HALF, value & _LOW))
            return self._halves(high, low)
        return self._insert(Fill(self._type(dims, dtype), value=FloatAttr(float(value), f64)))

    def _halves(self, high: SSAValue, low: SSAValue) -> SSAValue:
        """Integers of 64 bits of which a float64, as attributes hold, has no more than a half."""
        return self.add(self.mul(high, self.full_like(high, 1 << _HALF)), low)

    def full_like(self, x: SSAValue, value: float) -> SSAValue:
        """A fill of x's type."""
        return self.fill(value, dims_of(x), dtype_of(x))

    def iota(self, dims: Sequence[Dim | int | str], axis: int, dtype: str = "i32") -> SSAValue:
        return self._insert(Iota(self._type(dims, dtype), axis=IntAttr(axis)))

    def size(self, dim: Dim, dtype: str = "i64") -> SSAValue:
        return self._insert(Size.of(dim, dtype))

    def require(self, size: Dim) -> None:
        """Refuse calls for which a formula is negative: `bounds_of` takes the sizes of all values,
        of those too that nothing reads."""
        self.fill(0.0, (size,))

    # Elementwise

    def logical_not(self, x: SSAValue) -> SSAValue:
        return self.append(ew.Not, x)

    def cast(self, x: SSAValue, dtype: str) -> SSAValue:
        """x as another element type, by way of those computed in; x itself where it has it."""
        for step in cast_steps(dtype_of(x), dtype):
            x = self.append(Cast, x, dtype=StringAttr(step))
        return x

    def apply(self, function: Scalar, *xs: SSAValue) -> SSAValue:
        """A user's function: see `rnncc.elementwise`."""
        return self.append(Apply, *self.broadcast_together(*xs), function=FunctionAttr(function))

    # Shapes

    def reshape(self, x: SSAValue, dims: Sequence[Dim | int | str]) -> SSAValue:
        new = tuple(Dim.of(d) for d in dims)
        return x if dims_of(x) == new else self.append(Reshape, x, dims=dims_attr(new))

    def transpose(self, x: SSAValue, perm: Sequence[int]) -> SSAValue:
        if list(perm) == list(range(len(dims_of(x)))):
            return x
        return self.append(Transpose, x, perm=ints_attr(perm))

    def broadcast(
        self, x: SSAValue, dims: Sequence[Dim | int | str], axes: Sequence[int]
    ) -> SSAValue:
        """x's axis i becomes axis axes[i] of a tensor of shape `dims`."""
        new = tuple(Dim.of(d) for d in dims)
        if dims_of(x) == new:
            return x
        return self.append(Broadcast, x, dims=dims_attr(new), axes=ints_attr(axes))

    def broadcast_together(self, *values: SSAValue) -> list[SSAValue]:
        """Broadcast as NumPy does: trailing axes line up, sizes are equal or 1."""
        rank = max(len(dims_of(v)) for v in values)
        dims, differ = [Dim.of(1)] * rank, list[tuple[Dim, Dim]]()
        for value in values:
            for axis, size in enumerate(dims_of(value), rank - len(dims_of(value))):
                if size not in (1, dims[axis]) and dims[axis] != 1:
                    differ.append((dims[axis], size))
                dims[axis] = size if dims[axis] == 1 else dims[axis]
        if differ:
            shapes = " and ".join(shape_text(dims_of(v)) for v in values)
            raise CompileError(self.loc, f"shapes do not broadcast: {shapes}", differ=differ)
        axes = [range(rank - len(dims_of(v)), rank) for v in values]
        return [self.broadcast(v, dims, a) for v, a in zip(values, axes, strict=True)]

    def slice(self, x: SSAValue, axis: int, start: Dim | int, size: Dim | int) -> SSAValue:
        """x[start : start + size] along an axis."""
        start, size = Dim.of(start), Dim.of(size)
        if start == 0 and 0 <= axis < len(dims_of(x)) and dims_of(x)[axis] == size:
            return x
        attributes = {"start": dim_attr(start), "size": dim_attr(size)}
        return self.append(Slice, x, axis=IntAttr(axis), **attributes)

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        return values[0] if len(values) == 1 else self.append(Concat, *values, axis=IntAttr(axis))

    def pad(
        self, x: SSAValue, axis: int, start: Dim | int, total: Dim, value: float | SSAValue
    ) -> SSAValue:
        """x at `start` along an axis of size `total`, with one value around it."""
        dims, before = dims_of(x), Dim.of(start)

        def edge(size: Dim) -> list[SSAValue]:
            shape = (*dims[:axis], size, *dims[axis + 1 :])
            if size == 0:
                return []
            if isinstance(value, SSAValue):
                return [self.broadcast(value, shape, [])]
            return [self.fill(value, shape, dtype_of(x))]

        return self.concat([*edge(before), x, *edge(total - before - dims[axis])], axis)

    def windows(
        self,
        x: SSAValue,
        axis: int,
        start: Dim | int,
        count: Dim | int,
        stride: int = 1,
        taps: int = 1,
        dilation: int = 1,
    ) -> SSAValue:
        """x[start + i * stride + k * dilation] along an axis that becomes two: i, then k."""
        numbers = {"stride": stride, "taps": taps, "dilation": dilation}
        attributes = {name: IntAttr(number) for name, number in numbers.items()}
        place = {"start": dim_attr(start), "count": dim_attr(count)}
        return self.append(Windows, x, axis=IntAttr(axis), **place, **attributes)

    # Sums

    def reduce(self, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        return self.append(Reduce, x, kind=StringAttr(kind), axes=ints_attr(sorted(axes)))

    # Gradients

    def with_gradient(
        self, x: SSAValue, inputs: Values, reads: Values, inner: Builder, grads: Values
    ) -> SSAValue:
        """x, where the gradients of `inputs` are `grads`, which `inner` has built.

        Its block takes the gradient of x, then what it reads; it may use nothing else.
        """
        inner._builder.insert(Yield(list(grads)))
        try:
            op = WithGradient(x, inputs, reads, inner.block)
            op.verify_()
        except VerifyException as error:
            raise self._refused(error) from error
        return self._insert(op)

    def copy(self, op: Operation, known: dict[SSAValue, SSAValue]) -> None:
        """Append a copy of an op, over what its operands are known as; its results are new."""
        self._builder.insert(op.clone(known))

    def inline(self, block: Block, args: Values) -> list[SSAValue]:
        """Append copies of a block's ops; what it yields, given its arguments."""
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, args, strict=True))
        for op in block.ops:
            if isinstance(op, Yield):
                break
            self.copy(op, known)
        return [known[value] for value in terminator(block)]

    # Control

    def scan(
        self,
        consts: Values,
        inits: Values,
        xs: Values,
        body: Body,
        reverse: bool = False,
        length: Dim | None = None,
        gate: int | None = None,
        limited: bool = False,
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Loop over time; `body(inner, consts, carry, rows) -> (carry, rows of ys)`.

        `length` is needed only where xs is empty. The body may use nothing but its arguments.
        `gate`, `limited`: see `rnn.scan`.
        """
        types = [*(v.type for v in (*consts, *inits)), *(row_type(x) for x in xs)]
        block = Block(arg_types=types)
        args: list[SSAValue] = list(block.args)
        k, c = len(consts), len(consts) + len(inits)
        for arg, value in zip(args, (*consts, *inits, *xs), strict=True):
            arg.name_hint = value.name_hint
        inner = Builder(block, self.loc)
        carry, rows = body(inner, args[:k], args[k:c], args[c:])
        steps = dims_of(xs[0])[0] if length is None else length
        return self.scan_of(
            consts, inits, xs, inner, [*carry, *rows], steps, reverse, gate, limited
        )

    def scan_of(
        self,
        consts: Values,
        inits: Values,
        xs: Values,
        inner: Builder,
        results: Values,
        length: Dim,
        reverse: bool = False,
        gate: int | None = None,
        limited: bool = False,
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """`scan` over a body that is built already; `results`: its next carry, then its rows."""
        block = inner.block
        inner._builder.insert(Yield(list(results)))
        try:
            opened = None if gate is None else block.args[gate]
            scan = Scan(consts, inits, xs, block, length, reverse, opened, limited)
            scan.verify_()
        except VerifyException as error:
            raise self._refused(error) from error
        self.place(scan)
        return list(scan.finals), list(scan.ys)

    def place(self, scan: Scan) -> None:
        """Append a scan that is made already, unchecked."""
        self._locate(scan)
        self._builder.insert(scan)

    def append(self, op: type[RnnOp], *operands: SSAValue, **properties: Attribute) -> SSAValue:
        """Append an op; its result."""
        try:
            return self._insert(op(*operands, **properties))
        except VerifyException as error:
            raise self._refused(error) from error

    def _type(self, dims: Sequence[Dim | int | str], dtype: str) -> Tensor:
        try:
            return tensor(dims, dtype)
        except VerifyException as error:
            raise self._refused(error) from error

    def _refused(self, error: VerifyException) -> CompileError:
        """What a type rule does not take."""
        differ = error.differ if isinstance(error, SizesDiffer) else ()
        return CompileError(self.loc, str(error), differ=differ)

    def _insert(self, op: RnnOp) -> SSAValue:
        self._locate(op)
        return self._builder.insert(op).y

    def _locate(self, op: Operation) -> None:
        if str(self.loc):
            op.location = NameLoc(StringAttr(str(self.loc)), NoneAttr())
