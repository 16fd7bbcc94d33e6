# pyright: basic, reportMissingImports=false
"""Which functions run while a module is exported.

TorchDynamo runs no functions of the branches and cells that it reads, and what it has read it does
not read again: what it ever reads in this process counts as well. Where others of Python's threads
may have run code for this one, all functions count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Container, Generator, Iterable
from contextlib import contextmanager
from cProfile import Profile
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


_IS_OF_THREAD = sys.version_info < (3, 12)
"""Whether Python's profiler notes what one thread runs, and is the thread's hook."""


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

    def add(self, codes: Iterable[CodeType]) -> None:
        """These ran as well."""
        self._own.update(map(ran_by, codes))

    def settle(self, is_hidden: bool) -> None:
        """At the end: `is_hidden` tells whether Python has another hook by now."""
        self.is_all |= is_hidden or not _THREADS.isdisjoint(self._own)


class _Profiler(Profile):
    """Python's profiler as the hook: it notes code without running any of Python's, which would
    take a seventh of the time of a first call.

    Attributes:
        ran: what it notes.
    """

    def __init__(self, ran: RanCode) -> None:
        super().__init__(subcalls=False, builtins=False)
        self.ran = ran

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """What Python does with a hook that `sys.setprofile` was given: a module has set this one
        again, after what it has hidden."""
        self.ran.is_all = True

    def end(self) -> None:
        """Note no more; a hook that has taken the place of this one stays."""
        other = sys.getprofile()
        self.disable()  # which takes any hook away
        if other is not self:
            enable = getattr(other, "enable", None)  # a profiler may be no hook that is called
            enable() if enable is not None else sys.setprofile(other)
        self.ran.add(e.code for e in self.getstats() if isinstance(e.code, CodeType))
        self.ran.settle(is_hidden=other is not self)


@contextmanager
def running() -> Generator[RanCode]:
    """The functions that this thread runs meanwhile; all there are, where both of the hooks that
    Python has for that are in use, as by a profiler and a debugger."""
    ran = RanCode()
    if sys.getprofile() is None and _IS_OF_THREAD:
        profiler = _Profiler(ran)
        profiler.enable()
        try:
            yield ran
        finally:
            profiler.end()
        return
    if sys.getprofile() is None:
        get, put = sys.getprofile, sys.setprofile
    elif sys.gettrace() is None:
        get, put = sys.gettrace, sys.settrace
    else:
        ran.is_all = True
        yield ran
        return
    put(ran.note)
    try:
        yield ran
    finally:
        hook, is_all = get(), ran.is_all
        if hook == ran.note:
            put(None)  # which is a call that `note` sees
        ran.is_all = is_all
        ran.settle(is_hidden=hook != ran.note)


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
