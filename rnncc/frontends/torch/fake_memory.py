# pyright: basic, reportMissingImports=false
"""A quick way to what PyTorch remembers of operators of fake tensors.

PyTorch looks a result up by a key of forty objects for each operand, which takes half of the time
that an operator takes whose result it knows. Here that is found by fewer, which say the same of
plain tensors whose sizes are numbers; it is asked for all else, and for what is not known here yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_PARTS = "_CacheKeyState", "_BypassDispatchCache", "_DispatchCacheValidEntry"
_State, _Bypass, _Entry = (getattr(fake_tensor, name, None) for name in _PARTS)
_RESULT = "state", "entry", "key", "func", "args"
_NUMBERS = frozenset({int, float, bool, complex, str, type(None)})
_PLAIN = _NUMBERS | {torch.dtype, torch.device, torch.layout, torch.memory_format}
_NESTS = frozenset({list, tuple, torch.Size})
_is_inference = torch.is_inference_mode_enabled  # as it is where no code is read
_found: dict[Hashable, tuple[Any, Any] | None] = {}
"""What PyTorch has remembered, with its own key; None where it remembers nothing."""


def has_memory() -> bool:
    """Whether this PyTorch remembers as it is known here."""
    own: Any = getattr(FakeTensorMode, "_output_from_cache_entry", None)
    if None in (_State, _Bypass, _Entry, own) or not hasattr(FakeTensorMode, "_cache_key"):
        return False
    return tuple(inspect.signature(own).parameters)[1:] == _RESULT


def result_of(
    remembered: Callable[..., Any], mode: Any, func: Any, types: Any, args: Any, kwargs: Any
) -> Any:
    """What an operator makes; `remembered` is PyTorch's function for that."""
    key = _key(mode, func, args, kwargs)
    if key is None:
        return remembered(mode, func, types, args, kwargs)
    if key not in _found:
        _find(key, mode, func, args, kwargs)
    known = _found.get(key)
    if known is None:
        return remembered(mode, func, types, args, kwargs)
    FakeTensorMode.cache_hits += 1
    return mode._output_from_cache_entry(_State(mode.shape_env), *known, func, args)  # pyright: ignore


def _find(key: Hashable, mode: Any, func: Any, args: Any, kwargs: Any) -> None:
    """Keep what PyTorch remembers by now, if it has met that operator."""
    state: Any = _State(mode.shape_env)  # pyright: ignore
    try:
        own = mode._cache_key(state, func, args, kwargs)
    except _Bypass:  # pyright: ignore
        return
    entry = None if state.cache_on_shape_env() else FakeTensorMode.cache.get(own)
    if entry is not None:
        _found[key] = (entry, own) if isinstance(entry, _Entry) else None  # pyright: ignore


def _key(mode: Any, func: Any, args: Any, kwargs: Any) -> Hashable | None:
    """What tells calls apart whose results differ; None for those that only PyTorch knows."""
    if mode.in_kernel_invocation or mode.cache_crosscheck_enabled:
        return None
    env = mode.shape_env
    settings = None if env is None else env.settings
    parts: list[Any] = [func, torch.get_default_dtype(), torch._C._get_default_device()]
    parts += _is_inference(), settings
    if not _add(parts, mode, args):
        return None
    if kwargs and not all(_add(parts, mode, pair) for pair in kwargs.items()):
        return None
    return tuple(parts)


def _add(parts: list[Any], mode: Any, values: Iterable[Any]) -> bool:
    """Add what tells values apart; whether it is known of all of them."""
    for x in values:
        kind: Any = type(x)
        if kind is FakeTensor:
            if x.fake_mode is not mode or x.constant is not None or x._has_symbolic_sizes_strides:
                return False
            if x.layout is not torch.strided or x.is_quantized:
                return False
            size = x.untyped_storage().nbytes()
            if type(size) is not int:
                return False
            flags = x.requires_grad, x.is_conj(), x.is_neg(), x.is_inference()
            parts += x.dtype, x.shape, x.stride(), x.storage_offset(), x.fake_device, size, flags
        elif kind in _PLAIN:
            parts += kind, x
        elif kind in _NESTS:
            parts += kind, len(x)
            if not _add(parts, mode, x):
                return False
        else:
            return False
    return True
