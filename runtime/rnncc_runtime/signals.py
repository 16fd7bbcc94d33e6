"""Handlers of signals, set aside while code runs that must not be left in its midst."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from itertools import starmap
from types import FrameType
from typing import Any

# The functions under those of `signal`, which look for enums: 20 us in every call of a pool.
_signal: Any = import_module("_signal")
getsignal: Callable[[int], Any] = _signal.getsignal
set_signal: Callable[[int, Any], Any] = _signal.signal

_Handlers = list[tuple[int, Callable[[int, FrameType | None], Any]]]
_SIGNALS = sorted(map(int, signal.valid_signals()))
_set_aside: _Handlers = []
"""Handlers that are not to run before a call has ended."""


@contextmanager
def undisturbed() -> Generator[None]:
    """Until the end of the block no handler of a signal runs, such as that of Ctrl-C.

    One that raised an error would make this thread leave a call in which others wait for it, or a
    library between two steps that belong together. What comes meanwhile is handled at the end;
    signals without a handler in Python do what they do.
    """
    if _set_aside or threading.current_thread() is not threading.main_thread():
        yield  # handlers are set aside already, or run in another thread
        return
    previous = [(number, getsignal(number)) for number in _SIGNALS]
    handlers = [(number, handler) for number, handler in previous if callable(handler)]
    if not _can_set(handlers):
        yield
        return
    seen: dict[int, FrameType | None] = {}
    try:
        _set_aside.extend(handlers)
        for number, _ in handlers:
            set_signal(number, seen.__setitem__)
        yield
    finally:
        _put_back(handlers, seen)


def _can_set(handlers: _Handlers) -> bool:
    """Whether this thread is the one that handlers run in: that of the main interpreter.

    `threading` takes for the main thread whichever of an interpreter asks it first: in a
    subinterpreter, or a program that Python is embedded in, that may be any.
    """
    try:
        deque(starmap(set_signal, handlers[:1]), maxlen=0)
    except ValueError:
        return False
    return True


def _put_back(handlers: _Handlers, seen: dict[int, FrameType | None], times: int = 2) -> None:
    """Set handlers again, then call those whose signals have come.

    Twice: one that is back may raise an error, for a new signal, before the others are.
    """
    try:
        deque(starmap(set_signal, handlers), maxlen=0)
        _set_aside.clear()
    finally:
        if times > 1:
            _put_back(handlers, seen, times - 1)
        else:
            _handle(handlers, seen)


def _handle(handlers: _Handlers, seen: dict[int, FrameType | None]) -> None:
    """Call the handlers of all signals seen, even if one of them raises an error."""
    for place, (number, handler) in enumerate(handlers):
        if number in seen:
            try:
                handler(number, seen[number])
            finally:
                _handle(handlers[place + 1 :], seen)
            return


def _after_fork() -> None:
    """A call of the thread that had set handlers aside does not go on in a child of another one."""
    _put_back(_set_aside.copy(), {})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
