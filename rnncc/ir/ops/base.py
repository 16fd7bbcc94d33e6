"""What every `rnn` op has, and nobody else has to know of it.

Its type rule (`infer`), meaning in NumPy (`evaluate`), gradient and tangent (`vjp`, `jvp`), what it
does along each axis (`operand_axes`), how it does many at once (`batched_operands`, `batch`), and
what that costs (`work`). docs/adding-an-op.md goes through them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.attributes import dim_attr, dims_attr, get_dim, get_dims
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.checks import expect, expect_equal, expect_float, expect_number, expect_one_type
from rnncc.ir.types import FLOATS, NUMPY, WIDE, Tensor, dims_of, dtype_of, shape_text
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

Array = np.ndarray[Any, Any]
Properties = Mapping[str, Attribute]
Grads = Sequence[SSAValue | None]
Tangents = Sequence[SSAValue | None]
"""For each operand its tangent, or None where that is zero; one at least is there."""
E = TypeVar("E", bound="Elementwise")
Axes = tuple[int | None, ...]
"""For each operand its axis, or None for the whole of it."""


@record
class Context:
    """What evaluation needs beside arrays: a size for each symbol, and the float type to use."""

    sizes: Mapping[str, int]
    real: type[np.floating[Any]] = np.float32

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(d.evaluate(self.sizes) for d in dims)

    def numpy_type(self, dtype: str) -> type[Any]:
        return self.real if dtype == "f32" else NUMPY[dtype]


class Slopes(IntEnum):
    """What an op's gradients are made of beside the one that it is given."""

    FIXED = 0
    """Of no values."""
    BOUNDED = 1
    """Of factors that are finite wherever its operands are."""
    ANY = 2


class Sized(IRDLOperation):
    """An op with sizes among its properties."""

    SIZES: ClassVar[tuple[str, ...]] = ()
    """The properties that hold one size each; `dims` holds several."""

    @property
    def sizes(self) -> list[Dim]:
        """Those of them that hold one each."""
        return [get_dim(self.properties[name]) for name in self.SIZES]

    def substituted(self, sizes: Mapping[str, Dim | int]) -> dict[str, Attribute]:
        """The properties, with other sizes in the place of symbols."""
        changed = dict(self.properties)
        for name in self.SIZES:
            changed[name] = dim_attr(get_dim(changed[name]).substitute(sizes))
        if "dims" in changed:
            changed["dims"] = dims_attr([d.substitute(sizes) for d in get_dims(changed["dims"])])
        return changed


class RnnOp(Sized, ABC):
    """An op without regions and with one result.

    Subclasses declare operands and properties and give the methods that are abstract here.
    """

    CAN_FAIL: ClassVar[bool] = False
    """Whether some operands are an error of the run: then all of them must be there, and it may
    not run where the net would not run it."""

    SLOPES: ClassVar[Slopes] = Slopes.ANY

    y = result_def()
    traits = traits_def(Pure())

    def __init__(self, *operands: SSAValue, **properties: Attribute) -> None:
        types = (v.type for v in operands)
        type_ = self.infer(properties, *types)  # type: ignore[arg-type]  # each op names its own
        self.construct(operands, type_, properties)

    def construct(
        self, operands: Sequence[SSAValue], type_: Tensor, properties: Properties
    ) -> None:
        """Initialise with a known result type."""
        super().__init__(operands=operands, result_types=[type_], properties=properties)

    @property
    def slopes(self) -> Slopes:
        """What its gradients are made of."""
        return self.SLOPES

    @classmethod
    @abstractmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        """The result's type; raises `VerifyException` for operands that do not fit."""

    @abstractmethod
    def evaluate(self, context: Context, *arrays: Array) -> Array:
        """The op's meaning."""

    @abstractmethod
    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """The gradient of each operand, given that of y, in terms of ops that `b` appends.

        None where there is none (integers, conditions). Only float results have gradients.
        """

    @abstractmethod
    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """The tangent of y, given those of operands; None where it is zero."""

    def of_tangents(self, b: Builder, tangents: Tangents) -> SSAValue:
        """The op over tangents, zeros where there are none: the tangent of what is linear.

        Operands that have no tangents, such as indices, stay as they are.
        """
        pairs = zip(self.operands, tangents, strict=True)
        return b.like(self, [_tangent(b, x, tangent) for x, tangent in pairs])

    @property
    def differentiable(self) -> Sequence[SSAValue]:
        """The operands that gradients may flow to; of these the floats have some."""
        return self.operands

    @property
    def splits(self) -> bool:
        """Whether done twice, each for some of the readers, it has the same gradients in sum."""
        return True

    @abstractmethod
    def operand_axes(self, axis: int) -> Axes | None:
        """Where an axis of the result is in each operand, if it has rows that stand alone.

        Row i of the result along `axis` is computed from row i along these axes, and from the
        whole of an operand that has None; so some rows of the result are the op on those rows.
        None instead of a tuple: a row is computed from other rows too, or depends on its number.
        An axis may be longer or shorter in the operand, where a reshape splits or joins it: then
        the first half of one is the first half of the other, and so any share.
        """

    @abstractmethod
    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """Which operands `batch` takes with a further axis in front; None where it has no rule.

        Args:
            differ: for each operand whether it is another one for each element of the batch.
        """

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        """The op over each element of a batch, the results along a further axis in front.

        Args:
            operands: with an axis of `size` in front where `batched_operands` says so.
        """
        raise AssertionError(f"{self.name} has no batching rule")

    @abstractmethod
    def work(self) -> Dim | None:
        """How many elements it computes with, 0 if it only renames them.

        None for what is never done twice: backward keeps its result instead.
        """

    def bounds(self) -> Sequence[Dim]:
        """What must not be negative, beside the sizes of the result."""
        return ()

    def verify_(self) -> None:
        types = (v.type for v in self.operands)
        expected = self.infer(self.properties, *types)  # type: ignore[arg-type]  # each op names its own
        if self.y.type != expected:  # texts of types take longer than to infer them
            raise VerifyException(f"result is {self.y.type}, the type rule gives {expected}")


class Variadic(RnnOp, ABC):
    """An op over a list of values."""

    def construct(
        self, operands: Sequence[SSAValue], type_: Tensor, properties: Properties
    ) -> None:
        IRDLOperation.__init__(
            self, operands=[list(operands)], result_types=[type_], properties=properties
        )


class Source(RnnOp, ABC):
    """An op without operands: its type is given, not inferred."""

    def __init__(self, type_: Tensor, **properties: Attribute) -> None:
        self.construct([], type_, properties)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        raise AssertionError("a source has no type rule")

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return []

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return None

    def operand_axes(self, axis: int) -> Axes | None:
        return ()

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """It is the same for all of a batch."""
        return None

    def work(self) -> Dim | None:
        return Dim.of(0)

    def verify_(self) -> None:
        dims_of(self.y)


class View(RnnOp, ABC):
    """Elements of x, in another order or shape, some of them often or not at all."""

    SLOPES: ClassVar[Slopes] = Slopes.FIXED

    x = operand_def()

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        return self.of_tangents(b, tangents)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        return differ

    def work(self) -> Dim | None:
        return Dim.of(0)


class Cost(IntEnum):
    """What one element of an elementwise op takes."""

    ARITHMETIC = 0
    ROOT = 1  # a division, a square root: worth a buffer rather than a second evaluation
    FUNCTION = 2  # a polynomial of a dozen terms, or what a user wrote: worth a loop of its own


def cost_of(op: Operation | Block) -> Cost:
    """What one element takes; arithmetic alone of all that is not elementwise."""
    return op.COST if isinstance(op, Elementwise) else Cost.ARITHMETIC


class Elementwise(RnnOp, ABC):
    """All operands and the result have one shape."""

    COST: ClassVar[Cost] = Cost.ARITHMETIC
    CODE: ClassVar[str] = ""
    """The method of `codegen.llvm.math.MathEmitter` that computes it, of floats."""
    NUMPY: ClassVar[Callable[..., Array]]
    """The function of NumPy that it is, where `evaluate` does not say more."""

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return type(self).NUMPY(*arrays)

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        """The sum of what `vjp` makes of the tangents: an element depends on elements of its place,
        so that its slopes are the same both ways."""
        total = None
        for number, tangent in enumerate(tangents):
            share = None if tangent is None else self.vjp(b, tangent)[number]
            if share is not None:
                total = share if total is None else b.add(total, share)
        return total

    def operand_axes(self, axis: int) -> Axes | None:
        return (axis,) * len(self.operands)

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        """All of them: operands have one shape."""
        return [True] * len(differ)

    def batch(self, b: Builder, operands: Sequence[SSAValue], size: Dim) -> SSAValue:
        return b.like(self, operands)

    def work(self) -> Dim | None:
        return product(dims_of(self.y))

    def scalar(self, b: Builder, operands: Sequence[SSAValue]) -> SSAValue:
        """The op on one element, for a kernel's body: itself, or a formula of other ops."""
        return b.like(self, operands)

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        first = dims_of(types[0])
        for other in types[1:]:
            message = f"shapes differ: {shape_text(first)} and {shape_text(dims_of(other))}"
            expect_equal(dims_of(other), first, message)
        return cls.infer_element(properties, *types)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        """The result's type, given operands of one shape; by default all types agree."""
        expect_one_type(types)
        return types[0]


def _tangent(b: Builder, x: SSAValue, tangent: SSAValue | None) -> SSAValue:
    """What stands for an operand where an op is applied to tangents."""
    if tangent is None and dtype_of(x) in FLOATS:
        return b.full_like(x, 0.0)
    return x if tangent is None else tangent


def elementwise(
    name: str,
    numpy: Callable[..., Array],
    cost: Cost = Cost.ARITHMETIC,
    code: str | None = None,
) -> Callable[[type[E]], type[E]]:
    """Define an op that is a function of NumPy: `rnn.NAME`.

    Args:
        code: see `Elementwise.CODE`; the same name unless given.
    """

    def define(op: type[E]) -> type[E]:
        op.name = f"rnn.{name}"
        op = irdl_op_definition(op)
        op.NUMPY, op.COST, op.CODE = staticmethod(numpy), cost, name if code is None else code
        return op

    return define


class Unary(Elementwise, ABC):
    """y = f(x), float to float."""

    x = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        return types[0]


class Binary(Elementwise, ABC):
    """y = f(a, b) of elements that are computed with."""

    a = operand_def()
    b = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        dtype = dtype_of(types[0])
        expect(dtype not in WIDE, f"operand is {dtype}, which is cast to {WIDE.get(dtype)} first")
        return super().infer_element(properties, *types)


class Arithmetic(Binary, ABC):
    """y = f(a, b) of numbers; there is no arithmetic of truth values."""

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_number(types[0])
        return super().infer_element(properties, *types)
