"""Threads that compute one call together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Any, Protocol

import numpy as np

from rnncc_runtime.arrays import address
from rnncc_runtime.memory import ALIGNMENT, Memory

Task = Callable[[int], int]
"""Given the address of a `struct rnncc_part`, compute it; returns a code."""


class Parallel(Protocol):
    """What computes a call by several threads: a `Pool`, or a caller's own."""

    @property
    def threads(self) -> int:
        """How many there are."""
        ...

    def run(self, function: Task, threads: int) -> int:
        """Call a function in so many threads at the same time, each with a part of its own.

        Returns:
            The first code that is not 0, if any.
        """
        ...


class Parts:
    """The parts of one call at a time, for teams of any number of threads."""

    def __init__(self) -> None:
        self._counter = Memory(ALIGNMENT)  # a line of the cache of its own
        self._counter.bytes[:] = 0
        self._structs: dict[int, tuple[np.ndarray[Any, Any], list[int]]] = {}

    def of(self, threads: int) -> list[int]:
        """The address of a `struct rnncc_part` for each of so many threads."""
        found = self._structs.get(threads)
        if found is None:
            rows = [(part, threads, self._counter.address) for part in range(threads)]
            structs = np.array(rows, np.int64)
            made = structs, [address(row) for row in structs]
            found = self._structs.setdefault(threads, made)  # another thread may ask as well
        return found[1]


@contextmanager
def undisturbed() -> Generator[None]:
    """Until the end of the block no Ctrl-C: a thread that left a call would keep others waiting."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    seen: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen and callable(before):
            before(*seen[0])


class Pool:
    """A few threads, for the calls of any number of models, one call at a time.

    The caller's thread is one of them. Use it in a `with` statement, or `close` it.

    Args:
        threads: how many compute a call at most, from 1 up; more than there are cores is slow.

    Attributes:
        threads: how many.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads: expected at least 1")
        self.threads = threads
        self._lock = threading.Lock()
        self._done: SimpleQueue[int] = SimpleQueue()
        self._tasks = [SimpleQueue[tuple[Task, int] | None]() for _ in range(threads - 1)]
        self._parts = Parts()
        for tasks in self._tasks:
            threading.Thread(target=self._work, args=(tasks,), daemon=True).start()

    def run(self, function: Task, threads: int | None = None) -> int:
        """Call a function in several threads, each with a part of its own, and wait.

        Args:
            threads: how many, at most those of the pool; None is all of them.

        Returns:
            The first code that is not 0, if any.
        """
        with self._lock, undisturbed():
            own, *others = self._parts.of(min(threads or self.threads, self.threads))
            for tasks, at in zip(self._tasks, others, strict=False):
                tasks.put((function, at))
            codes = [function(own)]
            codes += [self._done.get() for _ in others]
        return next((code for code in codes if code), 0)

    def close(self) -> None:
        """End the threads, once they have nothing to do."""
        with self._lock:
            for tasks in self._tasks:
                tasks.put(None)
            self._tasks = []
            self.threads = 1

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _work(self, tasks: SimpleQueue[tuple[Task, int] | None]) -> None:
        while (task := tasks.get()) is not None:
            function, at = task
            self._done.put(function(at))
