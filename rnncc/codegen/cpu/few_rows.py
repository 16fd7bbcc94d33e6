"""Sums of outer products of few rows: written in the order of their memory, once.

So few rows take less time than the memory of the sums, which tiles would fetch and write in more
places than processors look ahead in.
"""

from __future__ import annotations

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.packed_rows import Buffers, Side
from rnncc.codegen.cpu.tiling import MOST_VECTORS, Tiling
from rnncc.codegen.llvm.values import I64, Pointer, Value

FEW = 4
"""The most rows of which sums are computed so."""

_Place = tuple[Value, Value | None]
"""Where a vector starts in a row, and its mask."""


class FewRows:
    """Code for all sums.

    Args:
        sides: the rows of the left and of the right operand.
        count: of rows.
    """

    def __init__(
        self,
        emit: CpuEmit,
        tiling: Tiling,
        buffers: Buffers,
        sides: tuple[Side, Side],
        count: Value,
    ) -> None:
        self.emit, self.tiling, self.buffers = emit, tiling, buffers
        self.left, self.right = sides
        self.count = count

    def run(self) -> None:
        """Write the loops over rows of sums, and over panels of a row."""
        emit, b, tiling = self.emit, self.emit.b, self.tiling
        width = MOST_VECTORS * tiling.lanes
        panels, rest = divmod(tiling.columns, width)

        def row(at: list[Value]) -> None:
            start = b.mul(at[0], I64(tiling.columns))

            def panel(i: Value, carried: list[Value]) -> list[Value]:
                self._panel(at[0], start, b.mul(i, I64(width)), width)
                return []

            emit.loop(I64(panels), panel)
            if rest:
                self._panel(at[0], start, I64(tiling.columns - rest), rest)

        emit.nest([I64(tiling.rows)], row, shared=True)

    def _panel(self, row: Value, start: Value, first: Value, width: int) -> None:
        """So many sums of a row beside each other, from its `first` on."""
        emit, b, lanes, buffers = self.emit, self.emit.b, self.tiling.lanes, self.buffers
        offsets = range(0, width, lanes)
        starts = [b.add(first, I64(v)) for v in offsets]
        masks = [emit.mask(width - v, lanes) for v in offsets]
        places = list(zip(starts, masks, strict=True))
        total = [emit.vector.splat(0.0) for _ in places]
        if buffers.init is not None:
            total = self._load(emit.at(buffers.init, start), places)

        def term(j: Value, carried: list[Value]) -> list[Value]:
            factor = emit.splat(emit.load(emit.at(self.left(j), row)), lanes)
            terms = zip(self._load(self.right(j), places), carried, strict=True)
            return [emit.vector.fma(b, factor, x, y) for x, y in terms]

        sums = emit.at(buffers.out, start)
        for value, (at, mask) in zip(emit.loop(self.count, term, total), places, strict=True):
            emit.store(value, emit.at(sums, at), lanes, mask)

    def _load(self, pointer: Pointer, places: list[_Place]) -> list[Value]:
        emit, lanes = self.emit, self.tiling.lanes
        return [emit.load(emit.at(pointer, at), lanes, mask) for at, mask in places]
