# pyright: basic, reportMissingImports=false
"""What PyTorch calls dtypes and sizes, in the terms of `rnn`."""

from __future__ import annotations

import torch

from rnncc.errors import CompileError, Location
from rnncc.ir.types import WIDE

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "i1",
}
"""Element types."""
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
NARROW = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
}
"""Those that are computed in float32 or int32 and rounded or wrapped after each operator. No
compiled code takes or gives them: calls convert them."""

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
    if dtype == torch.complex32 or real not in (*DTYPES, *NARROW):
        hint = "use float32" if dtype.is_floating_point or dtype.is_complex else "use int64"
        raise CompileError(where, f"{type_name(dtype)} is not supported", hint)
    return WIDE[NARROW[real]] if real in NARROW else DTYPES[real]


def as_computed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the type that it is computed in."""
    if tensor.dtype not in NARROW:
        return tensor
    return tensor.float() if tensor.is_floating_point() else tensor.int()
