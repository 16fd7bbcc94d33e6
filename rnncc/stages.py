"""Stages of a compilation: how long each takes, and work beside the main thread."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
STACK = 16 << 20
"""Bytes: some systems give a thread less than LLVM needs."""
SELDOM = 500_000
"""New objects before Python looks for garbage."""


def show(name: str, seconds: float) -> None:
    """One line of --time-passes."""
    print(f"{name:<16}{seconds * 1e3:9.2f} ms", file=sys.stderr)


@contextmanager
def timed(wanted: bool, name: str) -> Generator[None]:
    """Show how long a block takes, if that is wanted."""
    begun = time.perf_counter()
    yield
    if wanted:
        show(name, time.perf_counter() - begun)


class _Collections:
    """How often Python looks for garbage, while compilations are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._before = gc.get_threshold()

    @contextmanager
    def seldom(self) -> Generator[None]:
        """Until the end of the block, look for garbage seldom.

        What a compilation makes lives until its end: to look for garbage meanwhile takes a fifth of
        its time, and more in a process that holds much else.
        """
        with self._lock:
            if not self._under_way:
                self._before = gc.get_threshold()
                if self._before[0]:  # else it is off
                    gc.set_threshold(max(SELDOM, self._before[0]), *self._before[1:])
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    gc.set_threshold(*self._before)


collections = _Collections()


def beside(work: Callable[[], T]) -> Callable[[], T]:
    """Begin work in another thread, which pays where it holds no lock of Python's, as LLVM does.

    Returns:
        What waits for the result, or raises the error that the work ended with.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # every one goes to whoever waits
            errors.append(error)

    before = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)

    def wait() -> T:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return wait
