"""Memory that compiled code works in."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np

from rnncc_runtime.arrays import Array, address

ALIGNMENT = 64
LARGE = 4096
"""Bytes of an array from which on its alignment shows: NumPy begins large arrays 16 bytes behind a
page, so that each store of 64 bytes meets two lines (a convolution of 400 KB takes 38 us there,
and 30 us where lines begin)."""


class Block(Protocol):
    """Memory by its address, of the CPU or of a GPU."""

    size: int
    address: int


class Memory:
    """Bytes that start at a multiple of 64.

    Attributes:
        bytes: all of them, as an array.
    """

    def __init__(self, size: int) -> None:
        room = np.empty(size + ALIGNMENT, np.uint8)
        begin = address(room)
        self.size = size
        self.address = -(-begin // ALIGNMENT) * ALIGNMENT
        self.bytes = room[self.address - begin :][:size]

    def __reduce__(self) -> NoReturn:
        raise TypeError("memory that compiled code works in cannot be copied or pickled")


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that compiled code writes; a large one begins at a multiple of 64 bytes."""
    size = prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, Memory(size).bytes)
