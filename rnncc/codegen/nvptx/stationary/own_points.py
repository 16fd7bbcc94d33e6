"""The points of a map in the blocks that have them of the product that follows it in a loop.

    map -> wait of all -> product -> wait of the block -> the next iteration's map

What the product computes at a point, and the next map reads, stays in the block then, so that an
iteration has one wait of all blocks, not two: the product's rows are all that others wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.exchanges.pairs import MappedProduct, PointMap, paired
from rnncc.codegen.nvptx.exchanges.rows import whole
from rnncc.codegen.nvptx.stationary.staged import GROUP_UNITS
from rnncc.kern.dialect import For
from rnncc.planning.phases import NamedMemory
from rnncc.planning.uses import Touch, accesses

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.stationary.loop import Stationary


class OwnPoints:
    """A map and a product of a loop whose weights may be held.

    Attributes:
        on: whether the map's points are those of the product's blocks.
    """

    def __init__(self, around: Stationary, pair: MappedProduct) -> None:
        self.around, self.pair, self.emit = around, pair, around.emit
        self.on: Value = None

    @staticmethod
    def of(around: Stationary, loop: For, memory: NamedMemory) -> OwnPoints | None:
        """The loop's, if it is a map and such a product and no more."""
        pair = paired(loop, around.gemms, "f32")
        return None if pair is None or _meet(pair, memory) else OwnPoints(around, pair)

    def begin(self, holds: Value) -> None:
        """`holds`: whether weights are held."""
        rows = self.around.pointers[self.pair.rows.buffer]
        # As the product asks of its own row, which is whole fours of floats behind the first one.
        self.on = self.emit.b.and_(holds, self.emit.aligned(rows))

    def write_map(self, ins: list[Pointer], outs: list[Pointer], plain: Callable[[], None]) -> None:
        """The map in an iteration; `plain`: with its points shared out as any kernel's."""
        with self.emit.b.if_else(self.on) as (own, others):
            with own:
                self._write(PointMap(self.emit, self.pair.map, ins, outs))
            with others:
                plain()

    def _write(self, points: PointMap) -> None:
        emit, b = self.emit, self.emit.b
        share = self.around.shares[self.pair.gemm]
        # All sizes are powers of two: units of a block, rows of a tile.
        across = b.add(self.around.shift, I32(GROUP_UNITS.bit_length() - 1))
        log, ones = share.taken_log, b.sub(b.shl(I32(1), across), I32(1))
        tile = b.shl(I32(1), log)
        tiles = emit.parts(b.zext(share.count, I64), b.zext(b.shl(share.ranks, log), I64))

        def point(number: Value) -> None:
            at = b.trunc(number, I32)
            unit = b.add(share.first_unit, b.and_(at, ones))
            line = b.lshr(at, across)
            above, within = b.lshr(line, log), b.and_(line, b.sub(tile, I32(1)))
            rank = b.add(share.rank, b.mul(above, share.ranks))
            row = b.add(b.shl(rank, log), within)
            inside = b.icmp_unsigned("<", unit, I32(self.pair.gemm.units))
            with emit.when(b.and_(inside, b.icmp_unsigned("<", row, share.count))):
                points.write(b.zext(row, I64), b.zext(unit, I64), self.pair.slots)

        count = b.shl(tiles, b.zext(b.add(log, across), I64))
        with emit.when(share.active):
            emit.strided(emit.thread64, count, I64(emit.threads), point)

    def behind(self, together: Callable[[], None]) -> None:
        """Behind the product."""
        with self.emit.b.if_else(self.on) as (own, others):
            with own:
                self.emit.together_in_blocks()
            with others:
                together()


def _meet(pair: MappedProduct, memory: NamedMemory) -> bool:
    """Whether a map writes, in an iteration, what other blocks' product may still read or write.

    What the two share at a point is the block's own, and another row of the rows is not this one.
    """
    carried = {*pair.following, *pair.following.values()}

    def meets(a: Touch, b: Touch) -> bool:
        (x, writes, *_), (y, writes_too, *_) = a, b
        shared = whole(x) is whole(y) or x in carried or y in carried
        return (writes or writes_too) and not shared and memory.meet(a, b)

    of_map, of_product = (list(accesses(op)) for op in (pair.map, pair.gemm))
    return any(meets(a, b) for a in of_map for b in of_product)
