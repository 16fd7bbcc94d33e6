"""Threads that compute one call together."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NoReturn, Protocol

import numpy as np

from rnncc_runtime.arrays import address
from rnncc_runtime.memory import ALIGNMENT, Memory
from rnncc_runtime.signals import undisturbed
from rnncc_runtime.sizes import as_size

Task = Callable[[int], int]
"""Given the address of a `struct rnncc_part`, compute it; returns a code."""


MOST_THREADS = 1024
"""Of a pool; a system that is asked for millions comes to a halt before it refuses."""


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
        entry = self._structs.get(threads)
        if entry is None:
            rows = [(part, threads, self._counter.address) for part in range(threads)]
            structs = np.array(rows, np.int64)
            built = structs, [address(row) for row in structs]
            entry = self._structs.setdefault(threads, built)  # another thread may ask as well
        return entry[1]


class _Team:
    """The threads of a pool in one process, one at a time of whose callers computes with them.

    Its threads do not know it: so it goes, and they end, with the pool that nobody holds.
    """

    def __init__(self, threads: int) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self._parts = Parts()
        self._done: SimpleQueue[int | BaseException] = SimpleQueue()
        self._tasks: list[SimpleQueue[tuple[Task, int] | None]] = []
        try:
            for _ in range(threads - 1):
                tasks: SimpleQueue[tuple[Task, int] | None] = SimpleQueue()
                threading.Thread(target=_work, args=(tasks, self._done), daemon=True).start()
                self._tasks.append(tasks)
        except RuntimeError:  # the system gives no more threads
            self.end()
            raise

    def run(self, function: Task, threads: int) -> int:
        """Call a function in so many threads, or in as many as there still are."""
        own, *others = self._parts.of(min(threads, 1 + len(self._tasks)))
        for tasks, at in zip(self._tasks, others, strict=False):
            tasks.put((function, at))
        results = [_result(function, own)]
        results += [self._done.get() for _ in others]
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return next((code for code in results if code), 0)  # pyright: ignore[reportReturnType]

    def end(self) -> None:
        """End the threads, once they have nothing to do; calls are then for the caller alone."""
        if self.process == os.getpid():
            with self.lock:
                while self._tasks:
                    self._tasks.pop().put(None)


class Pool:
    """A few threads, for the calls of any number of models, one call at a time.

    The caller's thread is one of them. Use it in a `with` statement, or `close` it; at the end of
    the program, and when nobody holds it, it closes by itself. A closed one still computes, in the
    caller's thread alone. In a forked process it has threads of its own from the first call on.

    Args:
        threads: how many compute a call at most, from 1 up; more than there are cores is slow.

    Attributes:
        threads: how many.

    Raises:
        ValueError: no integer, fewer than one, or more than any machine has use for.
        RuntimeError: the system gives no more threads.
    """

    def __init__(self, threads: int) -> None:
        threads = _count(threads)
        if threads > MOST_THREADS:
            raise ValueError(f"{threads} threads: expected at most {MOST_THREADS}")
        self.threads = threads
        self._gather()

    def run(self, function: Task, threads: int | None = None) -> int:
        """Call a function in several threads, each with a part of its own, and wait.

        Signals such as Ctrl-C are handled after the call.

        Args:
            threads: how many, at most those of the pool; None is all of them.

        Returns:
            The first code that is not 0, if any.

        Raises:
            ValueError: no integer of threads, or fewer than one.
        """
        count = self.threads if threads is None else min(_count(threads), self.threads)
        team = self._team
        if team.process != os.getpid():
            team = self._gather_again()
        with team.lock, undisturbed():
            return team.run(function, count)

    def close(self) -> None:
        """End the threads, once they have nothing to do."""
        self.threads = 1
        self._team.end()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pool cannot be copied or pickled: its threads are those of its process")

    def _gather(self) -> None:
        self._team = _Team(self.threads)
        weakref.finalize(self, self._team.end)  # or at the end of the program

    def _gather_again(self) -> _Team:
        """In a forked process, which has none of the threads and whose lock may be held by one."""
        with _forked:
            if self._team.process != os.getpid():
                self._gather()
            return self._team


def _count(threads: int) -> int:
    number = as_size(threads, "threads")
    if number < 1:
        raise ValueError(f"{number} threads: expected at least 1")
    return number


def _work(
    queue: SimpleQueue[tuple[Task, int] | None], done: SimpleQueue[int | BaseException]
) -> None:
    while (task := queue.get()) is not None:
        result = _result(*task)
        del task  # what it holds goes with the call, not with the next one
        done.put(result)
        del result


def _result(function: Task, at: int) -> int | BaseException:
    try:
        return function(at)
    except BaseException as error:  # of the caller's function: the caller's thread raises it
        return error


def _after_fork() -> None:
    global _forked
    _forked = threading.Lock()


_forked = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
