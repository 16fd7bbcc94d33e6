# pyright: basic, reportMissingImports=false
"""Tensors that are filled with one number, `torch.full(size, n)`, where the number is in a tensor.

PyTorch takes the number out of it: what it makes has no gradient, and is of a type that follows
from the number's. TorchDynamo fills with the tensor itself, gradient included, and takes floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _full(size: Any, fill_value: Any, *, dtype: Any = None, **kwargs: Any) -> Any:
    if dtype is None:
        is_float = fill_value.is_floating_point()
        dtype = torch.get_default_dtype() if is_float else fill_value.dtype
    return torch.zeros(size, dtype=dtype, **kwargs).copy_(fill_value.detach())


def _full_like(x: Any, fill_value: Any, **kwargs: Any) -> Any:
    return torch.zeros_like(x, **kwargs).copy_(fill_value.detach())


def _new_full(x: Any, size: Any, fill_value: Any, **kwargs: Any) -> Any:
    return x.new_zeros(size, **kwargs).copy_(fill_value.detach())


FILLS: dict[Any, Callable[..., Any]] = {
    torch.full: _full,
    torch.full_like: _full_like,
    torch.Tensor.new_full: _new_full,
}
"""What makes the same of a number in a tensor."""
