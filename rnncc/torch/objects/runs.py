# pyright: basic, reportMissingImports=false
"""Which functions run while a module is exported.

TorchDynamo runs no functions of the branches and cells that it reads, and what it has read it does
not read again: what it ever reads in this process counts as well. Where others of Python's threads
may have run code for this one, all functions count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Container, Generator
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

Ran = tuple[str, str]
"""Code that ran: its file and its name, as code that is written anew has them too."""
_read = set[Ran]()
"""What TorchDynamo has read."""


def ran_by(code: CodeType) -> Ran:
    """What tells code from other code."""
    return code.co_filename, code.co_name


_THREADS = frozenset(
    ran_by(waits.__code__) for waits in (threading.Thread.start, threading.Condition.wait)
)
"""What runs where a thread starts another one, or waits for what it does."""


class RanCode(Container[Ran]):
    """Code that ran, and what TorchDynamo has read."""

    def __init__(self) -> None:
        self._own = set[Ran]()
        self.is_all = False

    def __contains__(self, code: object) -> bool:
        return self.is_all or code in self._own or code in _read

    def note(self, frame: FrameType, event: str, called: Any) -> None:
        """A hook for Python; a module that sets the hook itself hides what it runs."""
        if event == "call":
            self._own.add(ran_by(frame.f_code))
        elif event == "c_call" and called is sys.setprofile:
            self.is_all = True

    def is_hidden(self, hook: object) -> bool:
        """Whether more ran; `hook` is the one that Python has at the end."""
        return self.is_all or hook != self.note or not _THREADS.isdisjoint(self._own)


@contextmanager
def running() -> Generator[RanCode]:
    """The functions that this thread runs meanwhile; all there are, where both of the hooks that
    Python has for that are in use, as by a profiler and a debugger."""
    runs = RanCode()
    if sys.getprofile() is None:
        get, put = sys.getprofile, sys.setprofile
    elif sys.gettrace() is None:
        get, put = sys.gettrace, sys.settrace
    else:
        runs.is_all = True
        yield runs
        return
    put(runs.note)
    try:
        yield runs
    finally:
        is_all, is_ours = runs.is_hidden(get()), get() == runs.note
        if is_ours:
            put(None)  # which is a call that `note` sees
        runs.is_all = is_all


def note_readings() -> None:
    """Let TorchDynamo note what it reads, from now on."""
    kind: Any = InstructionTranslatorBase
    own = kind.__init__

    @wraps(own)
    def begin(translator: Any, *args: Any, **kwargs: Any) -> None:
        own(translator, *args, **kwargs)
        _read.add(ran_by(translator.f_code))

    kind.__init__ = begin


note_readings()
