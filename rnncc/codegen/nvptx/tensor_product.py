"""A product by tensor cores as a loop keeps it: how it is cut, and what of it lies where.

See `tensor` for who owns what, and `tensor_step` for an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import PADDING, QUAD, SIDE, Groups
from rnncc.kern.kernels import Gemm

PARTS = 8
"""Of k, each a chain of sums."""
ROWS = 16
"""Rows that a block computes at a time, at most."""

Fragment = list[Value]
Source = Callable[[int, int, Value], Fragment]
"""A fragment of A, given the round of parts, the tile, and the tile along k within the part."""


def deep(depth: int) -> int:
    """Tiles along k of a part."""
    return -(-depth // (SIDE * PARTS))


@dataclass
class TensorProduct:
    """A product of the loop.

    Attributes:
        registers: of a thread, for its weights.
        blocks: that own all units.
        fits: whether there are so many; None where weights are not held.
    """

    op: Gemm
    groups: Groups
    rounds: int
    fits: Value = None
    fragments: dict[tuple[int, int, int], Fragment] | None = None

    @property
    def registers(self) -> int:
        return self.rounds * self.groups.tiles * deep(self.op.depth.data) * 4

    @property
    def blocks(self) -> int:
        return -(-self.op.units // self.groups.units)


class StepMemory:
    """What a step keeps in shared memory: rows as bf16, then the sums of each part."""

    def __init__(self, emit: GpuEmit, resident: TensorProduct) -> None:
        self.emit = emit
        self.depth = deep(resident.op.depth.data) * PARTS * SIDE
        self.pitch = self.depth + PADDING
        self.width = resident.groups.rows + QUAD
        self._rows = 2 * ROWS * self.pitch
        self.bytes = self._rows + 4 * PARTS * ROWS * self.width

    @property
    def rows(self) -> Pointer:
        return Pointer(self.emit.gpu.shared(), "bf16")

    @property
    def sums(self) -> Pointer:
        return self.emit.at(Pointer(self.emit.gpu.shared(), "f32"), I64(self._rows // 4))
