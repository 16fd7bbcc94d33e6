"""A product by tensor cores as a loop keeps it: how it is cut, and what of it lies where.

See `loop` for who owns what, and `step` for an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import COLUMNS, PADDING, QUAD, SIDE, Groups
from rnncc.codegen.nvptx.held import Shares
from rnncc.kern.kernels import Gemm

PARTS = 8
"""Of k, each a chain of sums."""
MOST_ROWS = 16
"""Rows that a block computes at a time, at most."""
SURE_SHARED = 99 << 10
"""Bytes of shared memory that a block can have on all chips with tensor cores for bf16."""

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
        shares: which points a block has, where that is known before the loop; without a pair it
            would take registers, and rows come no sooner.
    """

    op: Gemm
    groups: Groups
    rounds: int
    fits: Value = None
    fragments: dict[tuple[int, int, int], Fragment] | None = None
    shares: Shares | None = None

    @property
    def registers(self) -> int:
        return self.rounds * self.groups.tiles * deep(self.op.depth.data) * 4

    @property
    def rows(self) -> int:
        """Rows of the batch that a block computes at a time, at most."""
        return MOST_ROWS if memory_bytes(self, MOST_ROWS) <= SURE_SHARED else COLUMNS

    @property
    def blocks(self) -> int:
        return -(-self.op.units // self.groups.units)


def padded(depth: int) -> int:
    """The k of all parts."""
    return deep(depth) * PARTS * SIDE


def memory_bytes(resident: TensorProduct, rows: int) -> int:
    """What so many rows take of shared memory."""
    width = resident.groups.rows + QUAD
    return 2 * rows * (padded(resident.op.depth.data) + PADDING) + 4 * PARTS * rows * width


class StepMemory:
    """What a step keeps in shared memory: rows as bf16, then the sums of each part."""

    def __init__(self, emit: GpuEmit, resident: TensorProduct) -> None:
        self.emit = emit
        self.depth = padded(resident.op.depth.data)
        self.pitch = self.depth + PADDING
        self.width = resident.groups.rows + QUAD
        self._rows = 2 * resident.rows * self.pitch
        self.bytes = memory_bytes(resident, resident.rows)

    @property
    def rows(self) -> Pointer:
        return Pointer(self.emit.gpu.shared(), "bf16")

    @property
    def sums(self) -> Pointer:
        return self.emit.at(Pointer(self.emit.gpu.shared(), "f32"), I64(self._rows // 4))
