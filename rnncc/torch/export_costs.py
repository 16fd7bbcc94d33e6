# pyright: basic, reportMissingImports=false
"""What `torch.export` does for each node that is not needed here."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from traceback import FrameSummary, StackSummary
from types import FrameType
from typing import Any

import torch.fx.proxy
from torch.export import _trace

from rnncc.frontends.torch.graph_code import written_when_called
from rnncc.frontends.torch.node_context import is_of_users

_proxy: Any = torch.fx.proxy
_tracebacks = _proxy.CapturedTraceback


@contextmanager
def exporting() -> Generator[None]:
    """Until the end of the block `torch.export` prints no graph of what it cannot read, writes no
    code, and notes the user's lines alone."""
    setattr(_trace, "print", lambda *_, **__: None)  # noqa: B010
    _proxy.CapturedTraceback = _UsersLines
    try:
        with written_when_called():
            yield
    finally:
        _proxy.CapturedTraceback = _tracebacks
        _trace.__dict__.pop("print", None)  # another thread may have been first


class _UsersLines:
    """In the place of a traceback: of some eighty frames a few are the user's."""

    @staticmethod
    def extract() -> type[_UsersLines]:
        return _UsersLines

    @staticmethod
    def summary() -> StackSummary:
        """The user's frames, and those of any `forward`: PyTorch begins at the outermost one."""
        frame: FrameType | None = sys._getframe(1)
        frames = list[FrameSummary]()
        while frame is not None:
            path, name = frame.f_code.co_filename, frame.f_code.co_name
            if name == "forward" or is_of_users(path):
                frames.append(FrameSummary(path, frame.f_lineno, name, lookup_line=False))
            frame = frame.f_back
        return StackSummary(reversed(frames))
