# pyright: basic, reportMissingImports=false
"""Functions put into PyTorch: for the whole process, and once, but with an effect of their own only
in a thread that is inside a scope. Elsewhere they do what PyTorch's do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

from torch._dynamo import convert_frame

T = TypeVar("T")

ALONE: Any = getattr(convert_frame, "compile_lock", None) or threading.RLock()
"""What a thread holds while it lets PyTorch read code as a graph, as all threads share what
PyTorch's tracers are doing. It is TorchDynamo's own lock, since two locks could deadlock."""


class ThreadScope(threading.local):
    """True for a thread that is within `with scope:`; blocks may lie within each other."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: Any) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


class ThreadStack(threading.local, Generic[T]):
    """What a thread does, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[T] = []


def once(patch: Callable[[], None]) -> Callable[[], None]:
    """A patch that only its first call makes; a thread that comes second waits for it."""
    lock = threading.Lock()
    pending = [patch]

    @wraps(patch)
    def make() -> None:
        with lock:
            if pending:
                pending[0]()
                pending.clear()

    return make
