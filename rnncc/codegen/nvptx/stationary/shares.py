"""Which points of a product each block has whose weights stay in shared memory: see `loop`.

Blocks with the same units share the rows, a tile after another. How many rows a tile has follows
from how many there are for a block, and from how many of them a lane takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnncc.codegen.llvm.values import I1, I32, Value, declared
from rnncc.codegen.nvptx.held import Shares
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.stationary.staged import GROUP_UNITS, ROW_LANES, Height
from rnncc.kern.kernels import Gemm

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.stationary.loop import Stationary

HEIGHTS = {4: (8, 8), 2: (4, 4), 1: (0, 0)}
"""Rows of a lane: the more, the fewer reads a multiply-add takes. They are taken where a block has
more than so many pairs of a group and `ROW_LANES` rows, and more than so many rows."""
SPLIT = (1, 2)
"""Rows of a lane of split tiles: with few rows, fewer warps than schedulers would have any."""
SCHEDULERS = 4
"""Of a processor: so many warps are enough where each has many independent sums."""
MOST_SUMS = 32
"""Of a lane, in registers."""


class TileShares(Shares):
    """The points of one product of a loop, in tiles."""

    def __init__(self, around: Stationary, op: Gemm) -> None:
        super().__init__(around.emit, op, around.parts(op))
        self.around = around

    @property
    def first_unit(self) -> Value:
        """Of the block."""
        b = self.emit.b
        return b.mul(b.shl(self.part, self.around.shift), I32(GROUP_UNITS))

    @property
    def heights(self) -> list[Height]:
        """Those that a lane's registers allow, the preferred one first."""
        slots, warps = self.op.slots.data, self.emit.threads // WARP
        split = [Height(h, split=True) for h in SPLIT if 1 < slots <= warps and h <= warps]
        return [*split, *(Height(h) for h in HEIGHTS if h == 1 or h * slots <= MOST_SUMS)]

    def takes(self, height: Height) -> Value:
        """Whether a height is for so many rows, where no other one before it is."""
        b, around = self.emit.b, self.around
        if height.split:
            few = b.icmp_unsigned("<=", self.mine, I32(ROW_LANES * height.rows))
            return b.and_(few, b.icmp_unsigned("==", around.groups, I32(1)))
        quads = b.udiv(b.add(self.mine, I32(ROW_LANES - 1)), I32(ROW_LANES))
        values, least = (b.shl(quads, around.shift), self.mine), HEIGHTS[height.rows]
        many, tall = (b.icmp_unsigned(">", v, I32(n)) for v, n in zip(values, least, strict=True))
        return b.and_(many, tall)

    def log(self, height: Height) -> Value:
        """The binary logarithm of the rows of a tile: as many as warps take, or fewer."""
        emit, b = self.emit, self.emit.b
        warps = 1 if height.split else emit.threads // WARP
        if height.rows == max(HEIGHTS):
            warps = min(warps, SCHEDULERS)
        rows = ROW_LANES * height.rows * warps
        most = b.sub(I32(rows.bit_length() - 1), self.around.shift)
        zeros = declared(emit.module, "llvm.ctlz.i32", I32, [I32, I1])
        # Rounded up to a power of two, so that places in a tile are found by shifts.
        enough = b.sub(I32(32), b.call(zeros, [b.sub(self.mine, I32(1)), I1(0)]))
        return b.select(b.icmp_signed("<", enough, most), enough, most)

    @property
    def taken_log(self) -> Value:
        """The same of the height that is taken."""
        b, (*others, last) = self.emit.b, self.heights
        log = self.log(last)
        for height in reversed(others):
            log = b.select(self.takes(height), self.log(height), log)
        return log
