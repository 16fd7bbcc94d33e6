# pyright: basic, reportMissingImports=false
"""Tensors whose values PyTorch knows while it reads code, such as those of `torch.tensor(2)`.

It reads both ways of a branch on a tensor's value, and the body of a loop once. So what a way or a
body has changed in place is not known behind it; what a loop carries, nowhere in it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from rnncc.frontends.torch.readings import location, refuse

LIMIT = "CONSTANT_NUMEL_LIMIT"
"""PyTorch's name of how many elements a tensor may have whose values it knows."""
_BEGIN, _END = frozenset({0, 1, 3, 6}), frozenset({1, 2, 5, 7})
"""Marks (`rnncc.frontends.torch.marks`) before a part of the code, and behind one."""
_LOOP = 5
_Values = dict[Any, tuple[torch.Tensor, torch.Tensor]]
_before: WeakKeyDictionary[Any, list[_Values]] = WeakKeyDictionary()
"""What the parts began with that are being read, by PyTorch's record of a reading."""


@contextmanager
def known_by_fakes_alone() -> Generator[None]:
    """While it lasts, PyTorch's tracer has no record of its own of values: it would keep those of
    tensors into which something unknown is written."""
    # A version of PyTorch without the name keeps its record.
    with patch.object(proxy_tensor, LIMIT, -1, create=True):
        yield


def forget(x: Any) -> None:
    """Let the value of a stand-in be unknown, and of all that share its memory."""
    if (mode := getattr(x, "fake_mode", None)) is not None and x.constant is not None:
        mode.fake_tensor_converter.invalidate_constant_aliases(x.constant)


def note_mark(x: Any, place: int) -> None:
    """The code is read from a mark on.

    Args:
        x: any stand-in.
    Raises:
        CompileError: the body of a loop has changed a tensor whose value was known in it.
    """
    if (mode := getattr(x, "fake_mode", None)) is None:
        return
    parts = _before.setdefault(mode, [])
    if place in _END and parts:
        for constant in _changed(parts.pop()):
            mode.fake_tensor_converter.invalidate_constant_aliases(constant)
            if place == _LOOP:
                what = "a loop on a tensor's value changes a tensor that begins as a constant"
                refuse(location(""), what, "assign a new one to a variable: n = n + 1")
    if place in _BEGIN:
        parts.append(_values(mode))


def _changed(before: _Values) -> list[torch.Tensor]:
    with _disable_current_modes():
        return [x for x, value in before.values() if not torch.equal(x, value)]


def _values(mode: Any) -> _Values:
    """Of all tensors whose values are known, by their memory; PyTorch counts no changes of them."""
    known = getattr(mode.fake_tensor_converter, "constant_storage_mapping", {})
    values: _Values = {}
    with _disable_current_modes():
        for memory, references in known.items():
            standing = (x for reference in references if (x := reference()) is not None)
            constant = next((x.constant for x in standing if x.constant is not None), None)
            if constant is not None:
                whole = constant.new_empty(0).set_(constant.untyped_storage())
                values[memory] = whole, whole.clone()
    return values
