"""What becomes one library: planned kernel programs that share one block of packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnncc.ir.dims import Dim
from rnncc.ir.kern import Buffer
from rnncc.ir.kernel_program import KernelProgram, Port
from rnncc.ir.ops.base import dim_attr, get_dim

WEIGHT_LINE = 64
"""Packed weights start at multiples of this many bytes."""

Array = np.ndarray[Any, Any]


@dataclass
class Library:
    """The programs of one model, by what they are for: `run`, or `forward` and `backward`, ...

    Attributes:
        name: a C identifier, the prefix of every exported symbol.
        programs: planned; their own names differ.
        tape: what forward leaves for backward.
        weights: bytes of the block that all programs read.
    """

    name: str
    source: str
    programs: dict[str, KernelProgram]
    tape: Tape | None = None
    weights: int = 0

    def __post_init__(self) -> None:
        self.weights = _place_weights(list(self.programs.values()))
        for program in self.programs.values():
            program.symbols = self.symbols

    def __str__(self) -> str:
        return "\n".join(map(str, self.programs.values()))

    @staticmethod
    def of(program: KernelProgram) -> Library:
        """The library of a program for inference."""
        return Library(program.name, program.source, {"run": program})

    @property
    def symbols(self) -> list[str]:
        """The sizes that every function takes: T, N, then the others."""
        return list(dict.fromkeys(s for p in self.programs.values() for s in p.symbols))

    def weights_block(self) -> Array:
        """The packed parameters as one block of bytes, at a multiple of 64."""
        room = np.zeros(self.weights + WEIGHT_LINE, np.uint8)
        start = -room.ctypes.data % WEIGHT_LINE
        block = room[start : start + self.weights]
        for program in self.programs.values():
            for buffer in _params(program):
                assert buffer.offset is not None
                raw = program.arrays[buffer.label.data].view(np.uint8)
                at = int(get_dim(buffer.offset))
                block[at : at + len(raw)] = raw
        return block


@dataclass(frozen=True)
class Slot:
    """A block of the tape: a port of both programs, and its offset in bytes."""

    port: Port
    offset: Dim


@dataclass(frozen=True)
class Tape:
    """What forward leaves for backward.

    The tape starts with a pointer to each of `kept`, outputs of the net that backward reads where
    the caller has them; then come the slots.
    """

    kept: Sequence[str] = ()
    slots: Sequence[Slot] = field(default=())
    bytes: Dim = field(default_factory=lambda: Dim.of(0))


def _params(program: KernelProgram) -> list[Buffer]:
    return [buffer for buffer in program.buffers if buffer.role.data == "param"]


def _place_weights(programs: Sequence[KernelProgram]) -> int:
    """Lay the packed weights out one after another, equal ones once."""
    end, known = 0, dict[tuple[str, int, bytes], int]()
    for program in programs:
        for buffer in _params(program):
            array = program.arrays[buffer.label.data]
            key = (buffer.dtype, array.nbytes, _digest(array)) if len(programs) > 1 else None
            if key is not None and key in known:
                buffer.offset = dim_attr(known[key])
                continue
            start = -(-end // WEIGHT_LINE) * WEIGHT_LINE
            buffer.offset, end = dim_attr(start), start + array.nbytes
            if key is not None:
                known[key] = start
    return end


def _digest(array: Array) -> bytes:
    from hashlib import blake2b

    return blake2b(array.tobytes()).digest()
