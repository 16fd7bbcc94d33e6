"""Work in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
STACK = 16 << 20
"""Bytes: some systems give a thread less than LLVM needs."""


def beside(work: Callable[[], T]) -> Callable[[], T]:
    """Begin work in another thread, which pays where it releases Python's lock, as LLVM does.

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
