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

LARGEST_CONSTANT = 4096
"""Elements of a tensor that is written into the program."""
ORDER = ("i1", "i32", "i64", "f32", "f64")
"""Each may become any that follows it."""


def type_name(dtype: torch.dtype) -> str:
    """A dtype as messages show it: float32."""
    return str(dtype).removeprefix("torch.")


def element_type(dtype: torch.dtype, where: Location | str = "") -> str:
    """What a dtype is called in `rnn`; raises `CompileError` where it has no name there."""
    if dtype not in DTYPES:
        raise CompileError(where, f"{type_name(dtype)} is not supported", "use float32")
    return DTYPES[dtype]


def fixed_size(size: Any) -> Dim:
    """The size of a graph that has no symbols."""
    return Dim.of(int(size))
