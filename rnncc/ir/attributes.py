"""Sizes, numbers and texts as attributes of ops, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.dims import Dim

Known = TypeVar("Known", bound=Attribute)
_DIMS = "rnncc's dims"


def dims_once(attribute: Known, parse: Callable[[Known], tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape in an attribute, parsed once and kept with it.

    Attributes do not change. A table of them would ask for their hashes, which go through all of
    their parts each time: 1 us for a type, of which compiling asks a million times.
    """
    kept = vars(attribute)
    if _DIMS not in kept:
        kept[_DIMS] = parse(attribute)
    return kept[_DIMS]


def dims_attr(dims: Sequence[Dim | int]) -> ArrayAttr[StringAttr]:
    """A shape as an attribute."""
    return ArrayAttr(StringAttr(str(d)) for d in dims)


def dim_attr(dim: Dim | int) -> StringAttr:
    """A size as an attribute: its text."""
    return StringAttr(str(dim))


def ints_attr(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    """Integers as an attribute."""
    return ArrayAttr(IntAttr(v) for v in values)


def get_dims(attribute: Attribute) -> tuple[Dim, ...]:
    """The shape in an attribute."""
    if not isinstance(attribute, ArrayAttr):
        raise VerifyException(f"{attribute} is no list of sizes")
    return dims_once(cast(ArrayAttr[Attribute], attribute), _parsed)


def _parsed(attribute: ArrayAttr[Attribute]) -> tuple[Dim, ...]:
    return tuple(map(get_dim, attribute.data))


def get_dim(attribute: Attribute) -> Dim:
    """The size in an attribute."""
    if not isinstance(attribute, StringAttr):
        raise VerifyException(f"{attribute} is no size")
    return Dim.parse(attribute.data)


def get_ints(attribute: Attribute) -> tuple[int, ...]:
    """The numbers in an attribute."""
    if not isinstance(attribute, ArrayAttr):
        raise VerifyException(f"{attribute} is no list of numbers")
    return tuple(get_int(item) for item in cast(ArrayAttr[Attribute], attribute).data)


def get_int(attribute: Attribute) -> int:
    """The number in an IntAttr."""
    if not isinstance(attribute, IntAttr):
        raise VerifyException(f"{attribute} is no number")
    return cast(IntAttr, attribute).data


def is_held(number: int) -> bool:
    """Whether a float64, as attributes of ops have numbers, is this integer."""
    return int(float(number)) == number


def get_text(attribute: Attribute) -> str:
    """The text in an attribute."""
    if not isinstance(attribute, StringAttr):
        raise VerifyException(f"{attribute} is no text")
    return attribute.data
