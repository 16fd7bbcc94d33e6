# pyright: basic, reportMissingImports=false
"""Tensors in the place of a cell's rows and states while it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch
import torch._dynamo

from rnncc.errors import CompileError

Type = tuple[torch.Size, torch.dtype]


def row_types(xs: Sequence[torch.Tensor]) -> list[Type]:
    """Shape and dtype of one row of each.

    Raises:
        CompileError: there are none, or not all have as many rows.
    """
    if not xs:
        raise CompileError("", "xs holds no tensor, so the number of steps is not known")
    for x in xs:
        if x.dim() == 0 or x.shape[0] != xs[0].shape[0]:
            shapes = ", ".join(str(list(x.shape)) for x in xs)
            raise CompileError("", f"xs have shapes {shapes}: the first sizes must be one T")
    return [(x.shape[1:], x.dtype) for x in xs]


def batches_of(row_types: Iterable[Type]) -> frozenset[int]:
    """The first sizes of rows that have more axes: of how many sequences they are."""
    return frozenset(shape[0] for shape, _ in row_types if len(shape) > 1)


@lru_cache(maxsize=1024)
def stand_ins_of(
    types: tuple[Type, ...], batches: frozenset[int], device: torch.device
) -> Sequence[torch.Tensor]:
    """A tensor of each type; all differ, and the same call gets the same ones.

    The batch's size is left open, where one axis has it: the last one, behind others, has units.
    """
    seen, tensors = Counter[Type](), list[torch.Tensor]()
    for kind in types:
        shape = kind[0][:-1] or kind[0]
        axes = [axis for axis, size in enumerate(shape) if size in batches]
        axis = axes[0] if len(axes) == 1 else None
        tensors.append(_stand_in(*kind, device, seen[kind], axis))
        seen[kind] += 1
    return tensors


@lru_cache(maxsize=1024)
def _stand_in(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    number: int,
    batch_axis: int | None,
) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=dtype, device=device)
    if batch_axis is not None:
        torch._dynamo.maybe_mark_dynamic(tensor, batch_axis)
    return tensor
