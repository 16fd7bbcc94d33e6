"""What an ONNX name stands for: numbers known at import, sizes among them, or a computed value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, dims_of, dtype_of

Array = np.ndarray[Any, np.dtype[Any]]
Dims = tuple[Dim, ...]

NAMES = {np.dtype(numpy): name for name, numpy in NUMPY.items() if name != "bf16"}
"""Our element types by NumPy's."""


def name_of(dtype: np.dtype[Any]) -> str:
    """Our name of an element type, else NumPy's."""
    return "bf16" if dtype.name == "bfloat16" else NAMES.get(dtype, dtype.name)


LARGEST = 2**63 - 1
"""The largest int64."""


class SizeOverflow(Exception):
    """A size, or a number in its formula, is beyond int64."""


@dataclass(frozen=True, eq=False)
class Value:
    """One value of a graph.

    Attributes:
        dtype: a name of `rnncc.ir.types`; of known numbers also any other name of NumPy's.
        known: the numbers, where they are known; sizes are an array of `Dim` objects.
        made: what computes it, where they are not.
        name: the initialiser that it is.
    """

    dtype: str
    dims: Dims
    known: Array | None = None
    made: SSAValue | None = None
    name: str = ""

    @staticmethod
    def of(array: Array, name: str = "") -> Value:
        """Known numbers; an array of objects holds integers and sizes, as int64."""
        if array.dtype == object:
            array = _as_numbers(array)
        dtype = "i64" if array.dtype == object else name_of(array.dtype)
        return Value(dtype, tuple(Dim.of(size) for size in array.shape), array, name=name)

    @staticmethod
    def computed(value: SSAValue) -> Value:
        """What an op gives."""
        return Value(dtype_of(value), dims_of(value), made=value)

    @property
    def form(self) -> tuple[Any, ...]:
        """A list's or optional value's length and such: what is no tensor's type."""
        return ("tensor",)

    @property
    def is_tensor(self) -> bool:
        """Whether it is no list and no optional value."""
        return self.form == ("tensor",)

    def tensors(self) -> list[Value]:
        """What it holds: itself, unless it is a list or optional value."""
        return [self]

    def holding(self, tensors: Sequence[Value]) -> Value:
        """The same with other tensors in the place of those that it holds."""
        (tensor,) = tensors
        return tensor

    def __str__(self) -> str:
        return "a tensor"

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.dims)

    @property
    def symbolic(self) -> bool:
        """Whether it holds sizes that are no numbers yet."""
        return self.known is not None and self.known.dtype == object

    @property
    def numbers(self) -> Array | None:
        """The numbers, where all of them are known."""
        return None if self.symbolic else self.known


@dataclass(frozen=True)
class Dequantised:
    """What a tensor of floats is made of: numbers, a scale and a zero point.

    Attributes:
        axis: along which scales differ, where there are several.
    """

    numbers: Value
    scale: Value
    zero: Value | None
    axis: int


def sizes_value(dims: Sequence[Dim | int]) -> Value:
    """A vector of sizes."""
    array = np.empty(len(dims), object)
    array[:] = [Dim.of(d) for d in dims]
    return Value.of(array)


def size_value(dim: Dim) -> Value:
    """One size, without an axis."""
    array = np.empty((), object)
    array[()] = dim
    return Value.of(array)


def as_objects(array: Array) -> Array:
    """An array of `Dim`s."""
    made: Array = np.empty(array.shape, object)
    made.reshape(-1)[:] = [Dim.of(d if isinstance(d, Dim) else int(d)) for d in array.reshape(-1)]
    return made


def _as_numbers(array: Array) -> Array:
    """Sizes as numbers, where all of them are."""
    flat = [Dim.of(d) for d in array.reshape(-1)]
    if any(abs(factor) > LARGEST for d in flat for _, factor in d.terms):
        raise SizeOverflow
    if all(d.is_static for d in flat):
        return np.array([int(d) for d in flat], np.int64).reshape(array.shape)
    return as_objects(array)
