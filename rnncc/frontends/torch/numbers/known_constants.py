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
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from rnncc.frontends.torch.mark_places import (
    BRANCH_END,
    LOOP_END,
    LOOP_TEST,
    TRIAL,
    TRIAL_END,
    WAY_IF_FALSE,
    WAY_IF_TRUE,
)
from rnncc.frontends.torch.readings import location, refuse

LIMIT = "CONSTANT_NUMEL_LIMIT"
"""PyTorch's name of how many elements a tensor may have whose values it knows."""
_BEGIN = frozenset({WAY_IF_TRUE, WAY_IF_FALSE, LOOP_TEST, TRIAL})
_END = frozenset({WAY_IF_FALSE, BRANCH_END, LOOP_END, TRIAL_END})
"""Marks before and behind a part of the code; the test and the body of a loop are one part."""
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


def forget_written(mode: Any, func: OpOverload, args: Any, kwargs: Any) -> None:
    """Let what an operator writes be unknown, and all that shares its memory.

    PyTorch forgets of itself an operand that is known: none within a list, and nothing by way of a
    view whose value it does not know, such as one with an open size.
    """
    known = getattr(mode.fake_tensor_converter, "constant_storage_mapping", None)
    if not known or not func._schema.is_mutable:
        return
    leaves = tree_leaves((args, kwargs))
    fakes = [x for x in leaves if isinstance(x, FakeTensor)]
    if all(x.constant is not None for x in fakes) and not any(map(_is_open, leaves)):
        return  # the operator computes with the values
    written = [
        kwargs.get(argument.name, args[i] if i < len(args) else None)
        for i, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    tensors = [x for x in tree_leaves(written) if isinstance(x, FakeTensor)]
    memories = {x.untyped_storage()._cdata for x in tensors}
    for references in list(known.values()):
        for x in (reference() for reference in references):
            if x is not None and x.untyped_storage()._cdata in memories:
                forget(x)


def _is_open(x: Any) -> bool:
    symbols = torch.SymInt | torch.SymFloat | torch.SymBool
    return isinstance(x, symbols) or (isinstance(x, FakeTensor) and x._has_symbolic_sizes_strides)


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
            if place == LOOP_END:
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
