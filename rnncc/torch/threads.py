# pyright: basic, reportMissingImports=false
"""The threads that compute a call together: those that PyTorch itself would use."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import torch
from rnncc_runtime import Parallel, Parts, Pool
from rnncc_runtime.pool import Task
from rnncc_runtime.signals import undisturbed

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _OpenMP:
    """PyTorch's own threads, which wait awake for a while: others would share the cores with them.

    Raises:
        OSError, AttributeError: this PyTorch has no OpenMP of GNU's interface.
    """

    def __init__(self) -> None:
        runtime = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        self._parallel = runtime.GOMP_parallel
        self._parallel.restype = None
        self._parallel.argtypes = [_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        self._number, self._count = runtime.omp_get_thread_num, runtime.omp_get_num_threads
        self._own = threading.local()

    @property
    def threads(self) -> int:
        return torch.get_num_threads()

    def run(self, function: Task, threads: int) -> int:
        """Call a function in so many threads, or in fewer where OpenMP gives no more."""
        parts, codes = self._parts(), [0] * threads

        def body(_: object) -> None:
            number = self._number()
            codes[number] = function(parts.of(self._count())[number])

        with undisturbed():
            self._parallel(_BODY(body), None, threads, 0)
        return next((code for code in codes if code), 0)

    def _parts(self) -> Parts:
        """Of the calling thread: others may call at the same time."""
        if not hasattr(self._own, "parts"):
            self._own.parts = Parts()
        return self._own.parts


_lock = threading.Lock()
_pools: dict[int, Pool] = {}


def parallel() -> Parallel | None:
    """As many threads as `torch.get_num_threads()` says; None where that is one.

    How many of them a call takes, the compiled code tells.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        return None
    return _openmp or _pool(threads)


def _find_openmp() -> _OpenMP | None:
    try:
        return _OpenMP()
    except (OSError, AttributeError):
        return None


def _pool(threads: int) -> Pool:
    with _lock:
        if threads not in _pools:
            _pools[threads] = Pool(threads)
        return _pools[threads]


def _after_fork() -> None:
    """OpenMP would wait for threads that a forked process has not; pools make new ones."""
    global _lock, _openmp
    _lock, _openmp = threading.Lock(), None


_openmp = _find_openmp()
os.register_at_fork(after_in_child=_after_fork)
