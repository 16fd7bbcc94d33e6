"""Value types: xDSL's tensor type, whose encoding names the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.attributes import dims_once
from rnncc.ir.dims import Dim

Tensor = TensorType[Any]

ELEMENTS: dict[str, Attribute] = {
    **{"f32": f32, "f64": f64, "i32": i32, "i64": i64, "i1": i1},
    **{"i8": i8, "i16": i16, "f16": f16, "bf16": bf16},
    **{f"u{bits}": IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)},
    "text": IntegerType(32, Signedness.SIGNED),
}
NUMPY: dict[str, type[Any]] = {
    **{"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i1": np.bool_},
    **{"i8": np.int8, "i16": np.int16, "f16": np.float16, "bf16": np.uint16},
    **{"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64},
    "text": np.int32,
}
"""Element types as arrays hold them: a bf16, which NumPy does not have, by its bits, a text by its
number."""
OF_NUMPY = {np.dtype(numpy): name for name, numpy in NUMPY.items() if name not in ("bf16", "text")}
"""Element types by NumPy's, of arrays that say themselves what they hold."""
ITEM_BYTES = {name: np.dtype(numpy).itemsize for name, numpy in NUMPY.items()}
FLOATS = ("f32", "f64")
WIDE = {
    **{"i8": "i32", "u8": "i32", "i16": "i32", "u16": "i32", "u32": "i64", "u64": "i64"},
    **{"f16": "f32", "bf16": "f32", "text": "i32"},
}
"""Types that are stored and moved, not computed in -> the type that their elements are read as.

It holds all their values, but of a u64 its bits and of a text its number; back, integers lose their
upper bits and floats are rounded, ties to even."""
_NAMES = {attribute: name for name, attribute in ELEMENTS.items()}


def tensor(dims: Sequence[Dim | int | str], dtype: str = "f32") -> Tensor:
    """The type of a dense tensor; a str among the dims is a symbol.

    Raises:
        VerifyException: a size is below 0. What depends on symbols a call checks.
    """
    return _tensor(tuple(Dim.of(d) for d in dims), dtype)


@lru_cache(maxsize=8192)
def _tensor(dims: tuple[Dim, ...], dtype: str) -> Tensor:
    shape = [int(d) if d.is_static else DYNAMIC_INDEX for d in dims]
    if any(d.is_static and int(d) < 0 for d in dims):
        raise VerifyException(f"a size of {shape_text(dims)} is below 0")
    symbolic = DYNAMIC_INDEX in shape
    encoding = ArrayAttr(StringAttr(str(d)) for d in dims) if symbolic else NoneAttr()
    return TensorType(ELEMENTS[dtype], shape, encoding)


def dims_of(value: SSAValue | Attribute) -> tuple[Dim, ...]:
    """The shape of a value or of a tensor type."""
    return dims_once(_type(value), _dims)


def dtype_of(value: SSAValue | Attribute) -> str:
    """The element type of a value or of a tensor type: a name of `ELEMENTS`."""
    return _NAMES[_type(value).element_type]


def is_tensor(type_: Attribute) -> bool:
    """Whether a type is as `tensor` makes it: a symbolic shape, of elements that there are."""
    if not isinstance(type_, TensorType):
        return False
    own = cast(Tensor, type_)
    try:
        return tensor(dims_once(own, _dims), _NAMES[own.element_type]) == own
    except (KeyError, ValueError, AttributeError, VerifyException):
        # no list of formulas, a size below 0, or no type of ours
        return False


NARROW_FLOATS = ("f16", "bf16")


def cast_steps(old: str, new: str) -> list[str]:
    """The types that a cast goes through, one after another: `u8` to `f16` by i32 and f32."""
    if old == new:
        return []
    path = [old, WIDE.get(old, old), WIDE.get(new, new), new]
    return [after for before, after in pairwise(path) if after != before]


def shape_text(dims: Sequence[Dim | int]) -> str:
    """A shape as messages show it: `T x N x 40`; `scalar` for rank 0."""
    return " x ".join(str(d) for d in dims) or "scalar"


def _dims(type_: Tensor) -> tuple[Dim, ...]:
    encoding = cast(ArrayAttr[StringAttr] | NoneAttr, type_.encoding)
    if isinstance(encoding, ArrayAttr):
        return tuple(Dim.parse(text.data) for text in encoding.data)
    return tuple(Dim.of(size) for size in type_.get_shape())


def _type(value: SSAValue | Attribute) -> Tensor:
    type_ = getattr(value, "type", value)  # asked often: quicker than `isinstance`
    assert isinstance(type_, TensorType), f"{type_} is not a tensor"
    return cast(Tensor, type_)
