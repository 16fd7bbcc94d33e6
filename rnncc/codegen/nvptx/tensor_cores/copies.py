"""Shared by products on tensor cores that copy both operands into shared memory unconverted.

Runs of k are copied ahead, some of them on their way while one is multiplied. Warps stand in a
square over a tile's sums: `ACROSS` of them side by side along its rows of A.
"""

from __future__ import annotations

from collections.abc import Callable

from rnncc.codegen.llvm.values import I32, I64, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import COLUMNS, SIDE, ZERO, Lane
from rnncc.codegen.nvptx.limits import WARP
from rnncc.records import record

RUN = 32
"""k at a time."""
STAGES = 3
"""Runs in shared memory: one that is multiplied, others on their way."""
LINE = 64
"""bf16 of a line of the second-level cache."""
PIECE = 8
"""bf16 that are copied at a time, at a multiple of 16 bytes."""
ACROSS = 2
"""Warps along A, where its tiles can be shared among two."""


@record
class WarpPart:
    """A warp's part of a tile: `tiles` of rows of A by `columns` of eight, and which one it is."""

    tiles: int
    columns: int
    across: Value
    down: Value

    @staticmethod
    def of(emit: GpuEmit, lane: Lane, rows: int, columns: int) -> WarpPart:
        """That of this thread's warp, of a tile of so many rows of A and columns."""
        warps, b = emit.threads // WARP, emit.b
        across = min(ACROSS, warps)
        return WarpPart(
            rows // SIDE // across,
            columns // COLUMNS // (warps // across),
            b.and_(lane.warp, I32(across - 1)),
            b.lshr(lane.warp, I32(across.bit_length() - 1)),
        )

    @property
    def zeros(self) -> list[Value]:
        """What a lane's sums begin at."""
        return [ZERO] * (4 * self.tiles * self.columns)


def summed(
    emit: GpuEmit,
    runs: Value,
    sums: list[Value],
    copy: Callable[[Value, Value], None],
    multiply: Callable[[Value, list[Value]], list[Value]],
) -> list[Value]:
    """A lane's sums over all runs.

    Args:
        copy: begins to copy a run, by its number, to a stage.
        multiply: adds the terms of the run in a stage.
    """
    b = emit.b
    emit.gpu.block_wait()  # until nobody reads what lies in shared memory
    for run in range(STAGES - 1):
        copy(I64(run), I32(run))

    def iteration(i: Value, carried: list[Value]) -> list[Value]:
        stage, *sums = carried
        emit.gpu.await_copies(STAGES - 2)
        # Behind it all see the run, and nobody reads the one before.
        emit.gpu.block_wait()
        first = b.icmp_unsigned("==", stage, I32(0))
        before = b.select(first, I32(STAGES - 1), b.sub(stage, I32(1)))
        copy(b.add(i, I64(STAGES - 1)), before)
        sums = multiply(stage, sums)
        last = b.icmp_unsigned("==", stage, I32(STAGES - 1))
        return [b.select(last, I32(0), b.add(stage, I32(1))), *sums]

    _, *sums = emit.loop(runs, iteration, [I32(0), *sums])
    emit.gpu.await_copies(0)
    return sums
