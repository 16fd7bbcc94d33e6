"""Value types: xDSL's tensor type, whose encoding names the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    NoneAttr,
    StringAttr,
    TensorType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from rnncc.ir.dims import Dim

Tensor = TensorType[Any]

ELEMENTS: dict[str, Attribute] = {"f32": f32, "f64": f64, "i32": i32, "i64": i64, "i1": i1}
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i1": np.bool_}
STORED = {**NUMPY, "bf16": np.uint16, "i8": np.int8, "u8": np.uint8}
"""What buffers hold: also weights of low precision, bf16 by its bits."""
ITEM_BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "i1": 1, "bf16": 2, "i8": 1, "u8": 1}
FLOATS = ("f32", "f64")
_NAMES = {attribute: name for name, attribute in ELEMENTS.items()}


def tensor(dims: Sequence[Dim | int | str], dtype: str = "f32") -> Tensor:
    """The type of a dense tensor; a str among the dims is a symbol."""
    return _tensor(tuple(Dim.of(d) for d in dims), dtype)


@lru_cache(maxsize=8192)
def _tensor(dims: tuple[Dim, ...], dtype: str) -> Tensor:
    shape = [int(d) if d.is_static else DYNAMIC_INDEX for d in dims]
    symbolic = DYNAMIC_INDEX in shape
    encoding = ArrayAttr(StringAttr(str(d)) for d in dims) if symbolic else NoneAttr()
    return TensorType(ELEMENTS[dtype], shape, encoding)


def dims_of(value: SSAValue | Attribute) -> tuple[Dim, ...]:
    """The shape of a value or of a tensor type."""
    return _dims(_type(value))


def dtype_of(value: SSAValue | Attribute) -> str:
    """The element type of a value or of a tensor type: f32, f64, i32, i64 or i1."""
    return _NAMES[_type(value).element_type]


def shape_text(dims: Sequence[Dim | int]) -> str:
    """A shape as messages show it: `T x N x 40`; `scalar` for rank 0."""
    return " x ".join(str(d) for d in dims) or "scalar"


@lru_cache(maxsize=8192)
def _dims(type_: Tensor) -> tuple[Dim, ...]:
    encoding = cast(ArrayAttr[StringAttr] | NoneAttr, type_.encoding)
    if isinstance(encoding, ArrayAttr):
        return tuple(Dim.parse(text.data) for text in encoding.data)
    return tuple(Dim.of(size) for size in type_.get_shape())


def _type(value: SSAValue | Attribute) -> Tensor:
    type_ = value.type if isinstance(value, SSAValue) else value
    assert isinstance(type_, TensorType), f"{type_} is not a tensor"
    return cast(Tensor, type_)
