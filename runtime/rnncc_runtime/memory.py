"""Memory that compiled code works in."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from rnncc_runtime.arrays import address

ALIGNMENT = 64


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
