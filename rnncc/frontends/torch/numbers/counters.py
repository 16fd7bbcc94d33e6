# pyright: basic, reportMissingImports=false
"""Numbers in tensors as indices: `ring[:, t % 3]` with a counter t in the state.

PyTorch takes such a number out of its tensor, which a graph cannot. A row of numbers is an index
like any other: of `ring[:, t]` the graph holds `ring[:, t.reshape(1)][:, 0]`.
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import torch

_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64)


def is_counter(x: Any) -> bool:
    """Whether an index is an integer in a tensor without axes."""
    return isinstance(x, torch.Tensor) and x.dim() == 0 and x.dtype in _WHOLE


def taken(x: Any, index: Any) -> Any:
    """x[index]."""
    entries = _entries(x, index)
    for place, entry in enumerate(entries):
        if is_counter(entry):
            axis = _axes(entries[:place])
            x = x[(*[slice(None)] * axis, entry.reshape(1))]
            entries[place] = 0
    return x[tuple(entries)]


def put(x: Any, index: Any, value: Any) -> None:
    """x[index] = value, of which one entry of the index at most is a counter."""
    entries = _entries(x, index)
    place = [is_counter(entry) for entry in entries].index(True)
    behind = sum(entry is None or isinstance(entry, slice) for entry in entries[place + 1 :])
    if isinstance(value, torch.Tensor) and value.dim() >= behind:
        value = value.unsqueeze(-1 - behind)
    entries[place] = entries[place].reshape(1)
    x[tuple(entries)] = value


def has_counter(index: Any) -> bool:
    """Whether an entry of an index is a counter whose number is not known."""
    entries = index if isinstance(index, tuple) else (index,)
    return any(is_counter(e) and getattr(e, "constant", None) is None for e in entries)


def can_put(index: Any) -> bool:
    """Whether one entry of an index is such a counter, and no other is a tensor or a list."""
    entries = index if isinstance(index, tuple) else (index,)
    others = [entry for entry in entries if not is_counter(entry)]
    plain = all(entry is None or isinstance(entry, slice | int | EllipsisType) for entry in others)
    return has_counter(index) and plain and len(others) == len(entries) - 1


def _entries(x: Any, index: Any) -> list[Any]:
    """An entry for each axis: what `...` stands for is written out, and what is left out."""
    entries = list(index) if isinstance(index, tuple) else [index]
    known = [entry for entry in entries if entry is not ...]
    rest = [slice(None)] * (x.dim() - _axes(known))
    at = [entry is ... for entry in entries].index(True) if len(known) < len(entries) else None
    return [*entries, *rest] if at is None else [*entries[:at], *rest, *entries[at + 1 :]]


def _axes(entries: list[Any]) -> int:
    """How many axes entries of an index take."""
    masks = (
        e.dim() if isinstance(e, torch.Tensor) and e.dtype == torch.bool else 1 for e in entries
    )
    return sum(axes for entry, axes in zip(entries, masks, strict=True) if entry is not None)
