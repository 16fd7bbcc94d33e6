# pyright: basic, reportMissingImports=false
"""Reads custom Functions, with their backward, where code calls them that PyTorch runs.

Users hold `apply` itself, as in `spike = Spike.apply`, and it is C's. It asks the class for
`_backward_cls`, then for `forward`, which it calls, and where there is one for `setup_context`. So
while anything is read, classes of Functions answer with methods of ours.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from torch.autograd.function import FunctionMeta
from torch.overrides import TorchFunctionMode

from rnncc.errors import CompileError
from rnncc.frontends.torch.own_operators.function_op import applied, is_once, methods_of
from rnncc.frontends.torch.readings import (
    is_read,
    location,
    readings,
    refuse_function,
    set_gradients,
    within_function,
)
from rnncc.frontends.torch.switches import SWITCH


class _Calls(threading.local):
    """Where this thread's innermost call of `apply` is.

    Attributes:
        begun: the class, before it is asked for `forward`.
        ended: the class, before it is asked for a `setup_context` that was called already.
    """

    begun: Any = None
    ended: Any = None


_calls = _Calls()
_lock = threading.Lock()
_watching = 0


def watch_functions(change: int) -> None:
    """Count who reads; while anyone does, classes of Functions answer as is said above."""
    global _watching
    with _lock:
        before, _watching = _watching, _watching + change
        if before == 0 < _watching:
            setattr(FunctionMeta, "__getattribute__", _answer)  # noqa: B010
        elif before > 0 == _watching:
            delattr(FunctionMeta, "__getattribute__")


def _answer(cls: Any, name: str) -> Any:
    if readings.stack:
        if name == "_backward_cls":
            _calls.begun = cls if is_read(cls, location) else None
        elif name == "forward" and _calls.begun is cls:
            _calls.begun = None
            return partial(_forward, cls)
        elif name == "setup_context" and _calls.ended is cls:
            _calls.ended = None
            return _nothing
    return type.__getattribute__(cls, name)


def _nothing(*_: Any) -> None:
    """What `_forward` has done already."""


def _forward(function: Any, *operands: Any) -> Any:
    """A Function's results, with its backward read too."""
    methods: list[Any] = [name and getattr(function, name) for name in methods_of(function)]
    forward, setup_context, backward = methods
    args = operands[1:] if setup_context is None else operands
    with within_function(), _Unrecorded():
        try:
            results = applied(forward, setup_context, backward, args, is_once(function))
        except CompileError:
            raise
        except Exception as error:
            refuse_function(function, location, str(error) or type(error).__name__)
    _calls.ended = None if setup_context is None else function
    return results


class _Unrecorded(TorchFunctionMode):
    """Switches of gradients, which mean nothing within a Function, leave no mark in a graph."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        if func is SWITCH:
            return set_gradients(*args)
        return func(*args, **(kwargs or {}))
