"""How the programs `forward` and `backward` of a library work together: ports and the tape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES, NUMPY
from rnncc.kern.program import Port
from rnncc.platforms import LINE
from rnncc.records import record

POINTER_BYTES = SEAL_BYTES = 8
SPREAD = 0x9E3779B97F4A7C15
"""Of the seal: an odd number near 2^64 divided by the golden ratio; multiplied by it, other sizes
differ."""


@record
class TapeSlot:
    """A part of the tape or of packed parameters: a port of two programs, its offset in bytes."""

    port: Port
    offset: Dim


@dataclass
class Initial:
    """A parameter that the caller holds, what it starts with, and where the library has that."""

    port: Port
    array: np.ndarray[Any, Any]
    offset: int = 0

    def __post_init__(self) -> None:
        self.array = np.ascontiguousarray(self.array, NUMPY[self.port.dtype])


@record
class Training:
    """What forward and backward take, and what forward leaves for backward.

    Attributes:
        inputs, outputs: of the model.
        initial: the parameters.
        output_grads: outside gradients, named as the outputs are.
        grads: gradients, named as inputs and parameters are.
        kept: outputs that backward reads where the caller has them.
        slots: what follows in the tape, which starts with a seal (`codegen.cpu.tape_seal`) and a
            pointer to each of `kept`.
        tape: its bytes.
        packed: where the block has what a program of its own computed of the parameters, if there
            is such a program.
        checkpoints: how time is cut to stay within a budget, in words.
    """

    inputs: list[Port]
    outputs: list[Port]
    initial: list[Initial]
    output_grads: list[Port]
    grads: list[Port]
    kept: list[str]
    slots: list[TapeSlot]
    tape: Dim
    checkpoints: str = ""
    packed: list[TapeSlot] | None = None

    @property
    def parameters(self) -> list[Port]:
        """What the caller holds."""
        return [parameter.port for parameter in self.initial]

    @staticmethod
    def lay_out(kept: Sequence[str], saved: Sequence[Port]) -> tuple[list[TapeSlot], Dim]:
        """The slots, those of the widest elements first, and the tape's size."""
        head = SEAL_BYTES + POINTER_BYTES * len(kept)
        slots, end = list[TapeSlot](), Dim.of(-(-head // LINE) * LINE)
        # Behind wider elements each slot is aligned to its own.
        for port in sorted(saved, key=lambda port: -ITEM_BYTES[port.dtype]):
            slots.append(TapeSlot(port, end))
            end = end + port.bytes
        return slots, end

    @staticmethod
    def pack(ports: Sequence[Port]) -> list[TapeSlot]:
        """Where packed parameters lie, each at a line's beginning: a tile reads whole vectors."""
        slots, end = list[TapeSlot](), 0
        for port in ports:
            slots.append(TapeSlot(port, Dim.of(end)))
            end += -(-int(port.bytes) // LINE) * LINE
        return slots

    @property
    def packed_bytes(self) -> Dim:
        """Of the block of packed parameters; a line where there are none, as it is never NULL."""
        last = self.packed[-1] if self.packed else None
        return Dim.of(LINE) if last is None else last.offset + last.port.bytes

    def pointer_to(self, kept: str) -> Dim:
        """Where in the tape the pointer to an output is, in bytes."""
        return Dim.of(SEAL_BYTES + POINTER_BYTES * self.kept.index(kept))
