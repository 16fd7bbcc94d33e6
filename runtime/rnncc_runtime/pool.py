"""Threads that compute one call together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from rnncc_runtime.arrays import address
from rnncc_runtime.memory import ALIGNMENT, Memory

Task = Callable[[int], int]
"""Given the number of a part, compute it; returns a code."""


class Pool:
    """A few threads, for the calls of any number of models, one call at a time.

    The caller's thread is one of them. Use it in a `with` statement, or `close` it.

    Args:
        threads: how many compute a call, from 1 up; more than there are cores is slow.

    Attributes:
        threads: how many.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads: expected at least 1")
        self.threads = threads
        self._lock = threading.Lock()
        self._done: SimpleQueue[int] = SimpleQueue()
        self._tasks = [SimpleQueue[Task | None]() for _ in range(threads - 1)]
        self._counter = Memory(ALIGNMENT)  # a line of the cache of its own
        self._counter.bytes[:] = 0
        parts = [(part, threads, self._counter.address) for part in range(threads)]
        self._parts = np.array(parts, np.int64)
        for part, tasks in enumerate(self._tasks, 1):
            threading.Thread(target=self._work, args=(part, tasks), daemon=True).start()

    def run(self, function: Callable[[int], int]) -> int:
        """Call a function in every thread with the address of its `struct rnncc_part`, and wait.

        Returns:
            The first code that is not 0, if any.
        """
        with self._lock:
            for tasks in self._tasks:
                tasks.put(function)
            codes = [function(address(self._parts))]
            codes += [self._done.get() for _ in self._tasks]
        return next((code for code in codes if code), 0)

    def close(self) -> None:
        """End the threads."""
        for tasks in self._tasks:
            tasks.put(None)
        self._tasks = []
        self.threads = 1

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _work(self, part: int, tasks: SimpleQueue[Task | None]) -> None:
        at = address(self._parts[part])
        while (task := tasks.get()) is not None:
            self._done.put(task(at))
