"""How a sum of outer products is cut into register tiles, and the memory that its packing takes.

The lowering asks for the memory, the code generator for the rest.
"""

from __future__ import annotations

from rnncc.codegen.cpu.machine.core import Core
from rnncc.records import record

DEPTH = 128
"""Rows of both operands that are packed and summed at a time."""
MOST_HEIGHT = 12
"""Rows of a tile."""
MOST_VECTORS = 8
"""Of a panel, where there are few rows: independent sums that fill the pipeline."""


@record
class Tiling:
    """Tiles of out[rows, columns]: a tile holds `height` rows of a panel of `vectors` vectors.

    Attributes:
        swapped: whether out's rows and columns, and with them a and b, change roles.
        rows, columns: of out, in these roles.
        block: panels that are packed at a time, so that they stay in cache.
    """

    swapped: bool
    rows: int
    columns: int
    height: int
    vectors: int
    block: int
    lanes: int

    @staticmethod
    def of(target: Core, rows: int, columns: int) -> Tiling:
        """The tiles for one machine; lanes run along the wider axis where the other is narrow."""
        # Lanes run along columns: fewer than a vector's would leave lanes empty in each term.
        swapped = columns < target.lanes and columns < rows
        if swapped:
            rows, columns = columns, rows
        # Of 32 registers 24 hold sums, of 16 registers 12: the others are for a row's factor and
        # the panel's vectors.
        sums = 2 * MOST_HEIGHT if target.registers >= 32 else MOST_HEIGHT
        height = _evenly(rows, sums // 2)
        wide = -(-columns // target.lanes)
        vectors = max(1, min(MOST_VECTORS, sums // max(height, 1), wide))
        panel = max(1, vectors * target.lanes)
        # Half of the cache: rows of the left operand and the sums pass through the other half.
        fit = max(1, target.cache // 2 // (target.item * DEPTH * panel))
        block = _evenly(max(1, columns // panel), fit)
        return Tiling(swapped, rows, columns, height, vectors, block, target.lanes)

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def right_elements(self) -> int:
        """Room for a block of packed panels."""
        return self.block * self.panel * DEPTH

    @property
    def scratch(self) -> int:
        """Room for panels, and for out itself where it is summed up transposed."""
        turned = self.rows * self.columns if self.swapped else 0
        return self.right_elements + turned


def _evenly(count: int, most: int) -> int:
    """The size of equal parts of at most `most`, the last of which may be smaller."""
    parts = -(-count // most)
    return -(-count // max(parts, 1))
