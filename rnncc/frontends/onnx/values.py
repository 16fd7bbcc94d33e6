"""What an ONNX name stands for: numbers known at import, sizes among them, or a computed value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, OF_NUMPY, dims_of, dtype_of
from rnncc.records import record

Array = np.ndarray[Any, np.dtype[Any]]
Dims = tuple[Dim, ...]


MAX_RANK = 64
"""The most axes of a tensor, which is NumPy's limit too."""

NEAR = 10**9 - 1
"""Beyond it a number is one that stands for the end of any axis."""

LARGEST = {"i32": 2**31 - 1, "i64": 2**63 - 1}
"""The largest number that sizes of a type may be."""

EXACT = {"f32": 2**24, "f64": 2**24, "f16": 2**11}
"""Up to here a type of floats holds every integer; larger known ones are those that it does hold.
Of float64 no more is needed."""

HELD = 2**53
"""Up to here a float64 holds every integer, as the attributes of ops are."""

STEP_MARK = "#"
"""What symbols of iteration numbers begin with, which no size's name does."""


def are_held(numbers: Array) -> bool:
    """Whether attributes of ops hold known numbers."""
    return numbers.dtype.kind not in "iu" or bool((np.abs(numbers) < HELD).all())


def is_uniform(numbers: Array) -> bool:
    """Whether numbers, of which there are some, are all the same; 0.0 and -0.0 are not."""
    first = numbers.reshape(-1)[0]
    return bool((numbers == first).all()) and not (first == 0 and np.signbit(numbers).any())


def name_of(dtype: np.dtype[Any]) -> str:
    """Our name of an element type, else NumPy's; texts that are known are NumPy's."""
    if dtype.kind == "U":
        return "text"
    return "bf16" if dtype.name == "bfloat16" else OF_NUMPY.get(dtype, dtype.name)


class SizeOverflow(Exception):
    """A size, or a number in its formula, is beyond its type."""


class NoFormula(Exception):
    """What was asked for is no formula of sizes."""


def hint_of(name: str) -> str:
    """What the value of an ONNX name is called in IR."""
    hint = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name[:64])
    return hint if hint[:1].isalpha() else f"v{hint}"  # xDSL drops a number at the end


def is_step(name: str) -> bool:
    """Whether a symbol is the number of a loop's iteration, counted from 0."""
    return name.startswith(STEP_MARK)


def varies(formula: Dim) -> bool:
    """Whether a formula differs from iteration to iteration of a loop around it."""
    return any(map(is_step, formula.symbols))


@record(eq=False)
class Value:
    """One value of a graph.

    Attributes:
        dtype: a name of `rnncc.ir.types`; of known numbers also any other name of NumPy's.
        known: the numbers, where they are known; sizes are an array of `Dim` objects. In a loop
            these may be formulas of the number of the iteration.
        made: what computes it, where they are not.
        name: the initialiser that it is.
        fixed: whether known numbers are no parameter of a net that is trained, however many.
    """

    dtype: str
    dims: Dims
    known: Array | None = None
    made: SSAValue | None = None
    name: str = ""
    fixed: bool = False

    @staticmethod
    def of(array: Array, name: str = "", dtype: str = "i64") -> Value:
        """Known numbers; an array of objects holds integers and sizes, of that type."""
        if array.dtype == object:
            array = _as_numbers(array, dtype)
        dtype = dtype if array.dtype == object else name_of(array.dtype)
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

    def whole(self) -> Value:
        """Itself; of one whose number of rows the run decides all rows of the bound."""
        return self

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

    def formulas(self) -> Sequence[Dim]:
        """The sizes that it holds, if it holds open ones."""
        return [] if self.known is None or not self.symbolic else list(self.known.flat)

    @property
    def varying(self) -> bool:
        """Whether it holds formulas of the number of a loop's iteration."""
        return any(map(varies, self.formulas()))

    @property
    def numbers(self) -> Array | None:
        """The numbers, where all of them are known."""
        return None if self.symbolic else self.known


@record
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
    """An array of `Dim`s.

    Raises:
        NoFormula: a number among them is no integer.
    """
    if array.dtype.kind == "f" and not (np.isfinite(array) & (np.floor(array) == array)).all():
        raise NoFormula
    objects: Array = np.empty(array.shape, object)
    objects.reshape(-1)[:] = [
        Dim.of(d if isinstance(d, Dim) else int(d)) for d in array.reshape(-1)
    ]
    return objects


def _as_numbers(array: Array, dtype: str) -> Array:
    """Sizes as numbers, where all of them are."""
    flat = [Dim.of(d) for d in array.reshape(-1)]
    if all(d.is_static for d in flat) and dtype in EXACT:
        return np.array([int(d) for d in flat], NUMPY[dtype]).reshape(array.shape)
    largest = LARGEST.get(dtype, LARGEST["i64"])
    if any(abs(factor) > largest for d in flat for _, factor in d.terms):
        raise SizeOverflow(dtype)
    if all(d.is_static for d in flat):
        return np.array([int(d) for d in flat], NUMPY[dtype]).reshape(array.shape)
    return as_objects(array)


def elements_together(arrays: Sequence[Array]) -> int:
    """The elements of arrays' common shape; 0 where they have none."""
    try:
        return math.prod(np.broadcast_shapes(*(a.shape for a in arrays)))
    except ValueError:
        return 0
