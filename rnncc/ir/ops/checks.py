"""What type rules ask of operands and properties; each raises `VerifyException`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.attributes import get_text
from rnncc.ir.dims import Dim
from rnncc.ir.types import WIDE, Tensor, dtype_of


def expect(ok: bool, message: str) -> None:
    """Raise `VerifyException` unless `ok`."""
    if not ok:
        raise VerifyException(message)


class SizesDiffer(VerifyException):
    """Sizes that must be equal are different formulas: pairs of them, if their number is right."""

    def __init__(self, message: str, one: Sequence[Dim], other: Sequence[Dim]) -> None:
        super().__init__(message)
        same_rank = len(one) == len(other)
        self.differ = tuple(zip(one, other, strict=True)) if same_rank else ()


def expect_equal(one: Sequence[Dim], other: Sequence[Dim], message: str) -> None:
    """Raise `SizesDiffer` unless sizes are equal."""
    if tuple(one) != tuple(other):
        raise SizesDiffer(message, one, other)


def expect_number(type_: Tensor) -> None:
    """Raise `VerifyException` unless there is arithmetic of the elements."""
    dtype = dtype_of(type_)
    expect(dtype != "i1" and dtype not in WIDE, f"operand is {dtype}, expected numbers")


def expect_float(type_: Tensor) -> None:
    """Raise `VerifyException` unless the elements are floats."""
    expect(dtype_of(type_) in ("f32", "f64"), f"operand is {dtype_of(type_)}, expected a float")


def expect_one_type(types: Sequence[Tensor]) -> None:
    """Raise `VerifyException` unless all have elements of one type."""
    names = [dtype_of(t) for t in types]
    expect(len(set(names)) == 1, f"element types differ: {', '.join(names)}")


def expect_kind(properties: Mapping[str, Attribute], kinds: Collection[str]) -> None:
    """Raise `VerifyException` unless an op's kind is one of some."""
    kind = get_text(properties["kind"])
    expect(kind in kinds, f"kind {kind!r} is not one of {', '.join(kinds)}")
