"""Constants in the place of inputs, checked against these."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rnncc.constants import Constant
from rnncc.errors import CompileError, Location
from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, shape_text

Array = np.ndarray[Any, np.dtype[Any]]


def constant_of(value: Constant, dtype: str, dims: Sequence[Dim] | None, place: Location) -> Array:
    """A constant as an array that may stand for an input.

    Args:
        dtype: the input's.
        dims: its shape, where it has one; open sizes may be any.

    Raises:
        CompileError: the shape is another, or a number does not fit that type. A fraction is
            rounded to the nearest float.
    """
    array = np.asarray(value)
    if dims is not None:
        if array.ndim == 0 and all(d == 1 for d in dims):
            array = array.reshape([1] * len(dims))
        fits = array.ndim == len(dims)
        if not fits or any(d.is_static and d != n for d, n in zip(dims, array.shape, strict=True)):
            shown = shape_text(array.shape)
            raise CompileError(place, f"has the shape {shown}, the input {shape_text(dims)}")
    with np.errstate(all="ignore"):
        converted = array.astype(NUMPY[dtype])
    exact = array.size == 0 or _is_exact(array, converted)
    if not exact or (array.dtype.kind == "b") != (dtype == "i1"):
        shown = json.dumps(value)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        raise CompileError(place, f"{shown} does not fit the input's {np.dtype(NUMPY[dtype])}")
    return converted


def natural_type(value: Constant) -> str:
    """The type of a constant for what does not say its own: i1, i64 or f32."""
    return {"b": "i1", "i": "i64", "u": "i64"}.get(np.asarray(value).dtype.kind, "f32")


def _is_exact(array: Array, converted: Array) -> bool:
    """Whether integers are what they were, and other floats finite if they were."""
    if converted.dtype.kind == "f" and array.dtype.kind == "f":
        return bool((np.isfinite(array) == np.isfinite(converted)).all())
    back = converted.astype(object) == array.astype(object)
    return bool(np.all(back))
