"""What every `rnn` op has: type rule (`infer`), meaning in NumPy (`evaluate`), gradient (`vjp`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, Tensor, dims_of, dtype_of, shape_text

if TYPE_CHECKING:
    from rnncc.ir.build import Build

Array = np.ndarray[Any, Any]
Properties = Mapping[str, Attribute]
Grads = Sequence[SSAValue | None]


@dataclass(frozen=True)
class Context:
    """What evaluation needs beside arrays: a size for each symbol, and the float type to use."""

    sizes: Mapping[str, int]
    real: type[np.floating[Any]] = np.float32

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(d.evaluate(self.sizes) for d in dims)

    def numpy_type(self, dtype: str) -> type[Any]:
        return self.real if dtype == "f32" else NUMPY[dtype]


def expect(ok: bool, message: str) -> None:
    """Raise `VerifyException` unless `ok`."""
    if not ok:
        raise VerifyException(message)


def expect_float(type_: Tensor) -> None:
    """Raise `VerifyException` unless the elements are floats."""
    expect(dtype_of(type_) in ("f32", "f64"), f"operand is {dtype_of(type_)}, expected a float")


class RnnOp(IRDLOperation, ABC):
    """An op without regions and with one result.

    Subclasses declare operands and properties and give `infer`, `evaluate` and `vjp`.
    """

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

    @classmethod
    @abstractmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        """The result's type; raises `VerifyException` for operands that do not fit."""

    @abstractmethod
    def evaluate(self, context: Context, *arrays: Array) -> Array:
        """The op's meaning."""

    @abstractmethod
    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        """The gradient of each operand, given that of y, in terms of ops that `b` appends.

        None where there is none (integers, conditions). Only float results have gradients.
        """

    def verify_(self) -> None:
        types = (v.type for v in self.operands)
        want = self.infer(self.properties, *types)  # type: ignore[arg-type]  # each op names its own
        expect(self.y.type == want, f"result is {self.y.type}, the type rule gives {want}")


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

    def vjp(self, b: Build, dy: SSAValue) -> Grads:
        return []

    def verify_(self) -> None:
        dims_of(self.y)


class Elementwise(RnnOp, ABC):
    """All operands and the result have one shape."""

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        first = dims_of(types[0])
        for other in types[1:]:
            message = f"shapes differ: {shape_text(first)} and {shape_text(dims_of(other))}"
            expect(dims_of(other) == first, message)
        return cls.infer_element(properties, *types)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        """The result's type, given operands of one shape; by default all types agree."""
        names = [dtype_of(t) for t in types]
        expect(len(set(names)) == 1, f"element types differ: {', '.join(names)}")
        return types[0]


class Unary(Elementwise, ABC):
    """y = f(x), float to float."""

    x = operand_def()

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect_float(types[0])
        return types[0]


class Binary(Elementwise, ABC):
    """y = f(a, b)."""

    a = operand_def()
    b = operand_def()


class Arithmetic(Binary, ABC):
    """y = f(a, b) of numbers; there is no arithmetic of truth values."""

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        expect(dtype_of(types[0]) != "i1", "operand is i1, expected numbers")
        return super().infer_element(properties, *types)


def dims_attr(dims: Sequence[Dim | int]) -> ArrayAttr[StringAttr]:
    """A shape as an attribute."""
    return ArrayAttr(StringAttr(str(d)) for d in dims)


def dim_attr(dim: Dim | int) -> StringAttr:
    """A size as an attribute: its text."""
    return StringAttr(str(dim))


def ints_attr(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    """Whole numbers as an attribute."""
    return ArrayAttr(IntAttr(v) for v in values)


def get_dims(attribute: Attribute) -> tuple[Dim, ...]:
    """The shape in an attribute."""
    assert isinstance(attribute, ArrayAttr)
    return tuple(get_dim(item) for item in cast(ArrayAttr[Attribute], attribute).data)


def get_dim(attribute: Attribute) -> Dim:
    """The size in an attribute."""
    assert isinstance(attribute, StringAttr)
    return Dim.parse(attribute.data)


def get_ints(attribute: Attribute) -> tuple[int, ...]:
    """The numbers in an attribute."""
    assert isinstance(attribute, ArrayAttr)
    return tuple(get_int(item) for item in cast(ArrayAttr[Attribute], attribute).data)


def get_int(attribute: Attribute) -> int:
    """The number in an IntAttr."""
    assert isinstance(attribute, IntAttr)
    return cast(IntAttr, attribute).data


def expect_kind(properties: Properties, known: Collection[str]) -> None:
    """Raise `VerifyException` unless an op's kind is one of some."""
    kind = get_text(properties["kind"])
    expect(kind in known, f"kind {kind!r} is not one of {', '.join(known)}")


def get_text(attribute: Attribute) -> str:
    """The text in an attribute."""
    assert isinstance(attribute, StringAttr)
    return attribute.data
