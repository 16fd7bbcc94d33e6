# pyright: basic, reportMissingImports=false
"""What PyTorch calls dtypes and sizes, in the terms of `rnn`."""

from __future__ import annotations

from typing import Any

import torch

from rnncc.errors import CompileError, Location
from rnncc.ir.dims import Dim

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "i1",
}
"""Element types."""
NARROW = {torch.bfloat16: "bf16", torch.float16: "f16"}
"""Those that are computed in float32 and rounded after each operator."""
SHORT = {torch.uint8: (8, False), torch.int8: (8, True), torch.int16: (16, True)}
"""Integers that are computed in int32 and wrapped after each operator: their bits, and whether they
have a sign."""
CONVERTED = {*NARROW, *SHORT}
"""Those that no compiled code takes or gives: calls convert them."""

LARGEST_CONSTANT = 4096
"""Elements of a tensor that is written into the program."""
ORDER = ("i1", "i32", "i64", "f32", "f64")
"""Each may become any that follows it."""


def type_name(dtype: torch.dtype) -> str:
    """A dtype as messages show it: float32."""
    return str(dtype).removeprefix("torch.")


def element_type(dtype: torch.dtype, where: Location | str = "") -> str:
    """The type in `rnn` that elements, or the parts of complex ones, are computed in.

    Raises:
        CompileError: there is none.
    """
    real = dtype.to_real()
    if dtype == torch.complex32 or real not in (*DTYPES, *CONVERTED):
        hint = "use float32" if dtype.is_floating_point or dtype.is_complex else "use int64"
        raise CompileError(where, f"{type_name(dtype)} is not supported", hint)
    return "i32" if real in SHORT else DTYPES.get(real, "f32")


def as_computed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the type that it is computed in."""
    if tensor.dtype in SHORT:
        return tensor.int()
    return tensor.float() if tensor.dtype in NARROW else tensor


def fixed_size(size: Any) -> Dim:
    """The size of a graph that has no symbols."""
    return Dim.of(int(size))
