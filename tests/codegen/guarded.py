"""Memory that ends, or begins, at a page that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


class Guards:
    """Blocks flush against unmapped memory: behind them (`end`) or before them."""

    def __init__(self, end: bool) -> None:
        self._end = end
        self._held: list[tuple[int, int]] = []

    def block(self, size: int) -> int:
        """The address of `size` bytes."""
        pages = -(-max(size, 1) // PAGE) * PAGE
        total = pages + 2 * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = _libc.mmap(None, total, 0, flags, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value)
        self._held.append((base, total))
        assert _libc.mprotect(base + PAGE, pages, _READ_WRITE) == 0
        return base + PAGE + (pages - size if self._end else 0)

    def array(self, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A copy of an array in guarded memory; it must not outlive the guards."""
        copy = self.view(self.block(like.nbytes), like.shape, like.dtype)
        copy[...] = like
        return copy

    def view(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> np.ndarray[Any, Any]:
        """The memory at an address as an array."""
        size = int(np.prod(shape)) * dtype.itemsize
        raw = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(memoryview(raw), dtype).reshape(shape)

    def free(self) -> None:
        for base, total in self._held:
            _libc.munmap(base, total)


def address(array: np.ndarray[Any, Any]) -> int:
    """Where an array's elements begin, in memory that may be read-only."""
    return array.__array_interface__["data"][0]


def table(arrays: Iterable[np.ndarray[Any, Any] | None]) -> ctypes.Array[ctypes.c_void_p]:
    """The pointers of the arrays as C takes them, null for None; one at least."""
    addresses = [None if array is None else address(array) for array in arrays]
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


@contextmanager
def guards(end: bool) -> Generator[Guards]:
    """Guarded memory that is freed in the end."""
    held = Guards(end)
    try:
        yield held
    finally:
        held.free()
