# pyright: basic, reportMissingImports=false
"""What code that was written anew (`rewriting.py`) computes with: tensors, of whose values nothing
is known, and whatever else Python has."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from rnncc.torch.objects.known_values import is_known

OF_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


class Unbound:
    """The value of a variable that is not bound."""


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor that code computes with as it is read."""
    if torch.compiler.is_dynamo_compiling():
        return isinstance(x, torch.Tensor)
    return isinstance(x, torch.Tensor) and type(x) is not torch.Tensor


def is_open(test: Any) -> bool:
    """Whether it is a tensor whose value is not known."""
    return is_tensor(test) and (torch.compiler.is_dynamo_compiling() or not is_known(test))


def as_flag(test: torch.Tensor) -> torch.Tensor:
    """The truth of a tensor, as one of rank 0."""
    if test.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return test.reshape(()) if test.dtype == torch.bool else test.reshape(()) != 0


def as_flag_on(x: Any, like: torch.Tensor) -> torch.Tensor:
    """The truth of a value, as a tensor on another's device."""
    if isinstance(x, torch.Tensor):
        return as_flag(x)
    return torch.full((), bool(x), dtype=torch.bool, device=like.device)


def as_tensor(x: Any, other: Any, like: torch.Tensor) -> Any:
    """A number as a tensor of rank 0, which takes part in arithmetic as Python's does.

    Args:
        other: what may be in its place, with whose type it should go.
        like: a tensor on the device.
    """
    if type(x) not in OF_NUMBERS:
        return x
    dtype = OF_NUMBERS[type(x)]
    if type(other) in OF_NUMBERS and _kind(dtype) < _kind(OF_NUMBERS[type(other)]):
        dtype = OF_NUMBERS[type(other)]
    if isinstance(other, torch.Tensor) and other.dim() == 0 and _kind(dtype) <= _kind(other.dtype):
        dtype = other.dtype
    return torch.full((), x, dtype=dtype, device=like.device)


def _kind(dtype: torch.dtype) -> int:
    """Booleans, integers, others."""
    return 2 if dtype.is_floating_point or dtype.is_complex else int(dtype != torch.bool)


def as_exact(x: Any) -> Any:
    """A number; one that has become a tensor goes on as exact as Python's quotients."""
    return x.to(torch.float64) if is_tensor(x) and not x.is_floating_point() else x


def blanks(values: Any) -> Any:
    """Zeros of the shapes of values."""
    return pytree.tree_map(_zeros, values)


def _zeros(x: Any) -> Any:
    return torch.zeros_like(x) if isinstance(x, torch.Tensor) else x
