"""Calls that several threads compute, however small they are."""

from __future__ import annotations

from typing import TypeVar

from rnncc_runtime.compiled import Compiled

M = TypeVar("M", bound=Compiled)


def insistent(model: M, threads: int = 1 << 20) -> M:
    """A model that takes so many threads of a pool for every call."""
    model._functions = {**model._functions, "threads": lambda *sizes: threads}
    return model
