"""`kern.contract`: sums of outer products in register tiles, over a chunk of packed rows at a time.

A tile's sums are loaded at the start of a chunk and stored at its end, which is exact, so every
sum takes its terms one after another.
"""

from __future__ import annotations

from dataclasses import replace

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.few_rows import FEW, FewRows
from rnncc.codegen.cpu.packed_rows import Buffers, PackedRows, Side
from rnncc.codegen.cpu.tiling import DEPTH, Tiling
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.errors import CompileError
from rnncc.ir.types import FLOATS
from rnncc.kern.kernels import Contract
from rnncc.platforms import LINE
from rnncc.records import record


@record
class _PackedTile:
    """A tile's place and size; `width`: columns of its panel."""

    row: Value
    height: int
    column: Value
    width: int


def emit_contract(emit: CpuEmit, op: Contract, buffers: Buffers) -> None:
    """Write the loops of a sum of outer products."""
    if buffers.a.dtype not in FLOATS:
        raise CompileError(str(op.location), f"a product of {buffers.a.dtype} is not supported")
    _ContractCode(emit, op, buffers).run()


class _ContractCode:
    def __init__(self, emit: CpuEmit, op: Contract, buffers: Buffers) -> None:
        self.emit, self.buffers = emit, buffers
        depth, *sizes = op.sizes
        self.count = emit.dim(depth)
        self.tiling = tiling = Tiling.of(emit.target, *(int(d) for d in sizes))
        self.rows = PackedRows(emit, op, buffers, self.count, tiling.swapped)
        self.right_room = buffers.scratch
        self.turned = emit.at(buffers.scratch, I64(tiling.right_elements))

    def run(self) -> None:
        tiling, b = self.tiling, self.emit.b
        if tiling.rows * tiling.columns == 0:
            return
        if tiling.swapped:
            self._in_tiles()
            return
        with b.if_else(b.icmp_signed("<=", self.count, I64(FEW))) as (few, many):
            with few:
                sides = self.rows.sides(I64(0))
                FewRows(self.emit, tiling, self.buffers, sides, self.count).run()
            with many:
                self._in_tiles()

    def _in_tiles(self) -> None:
        emit, b, tiling, buffers = self.emit, self.emit.b, self.tiling, self.buffers
        # Swapped, out is narrower than a vector: its transpose fills the lanes, and is turned back
        # once, behind all chunks.
        sums = self.turned if tiling.swapped else buffers.out
        if tiling.swapped:
            self._start(sums)
            # Threads start other rows than those of the tiles that they add to.
            emit.together()
        chunks = emit.parts(self.count, I64(DEPTH))
        if not tiling.swapped:  # without rows the sums are what they start as
            chunks = b.select(b.icmp_signed("<", chunks, I64(1)), I64(1), chunks)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            fresh = None if tiling.swapped else b.icmp_signed("==", i, I64(0))
            self._chunk(b.mul(i, I64(DEPTH)), sums, fresh)
            return []

        emit.loop(chunks, iteration)
        if tiling.swapped:
            # A row of out is a column of the sums, to which all threads have added.
            emit.together()
            self._turn_back()

    def _start(self, sums: Pointer) -> None:
        """Zeros, or the initial values transposed."""
        emit, tiling, init = self.emit, self.tiling, self.buffers.init
        if init is None:
            zero = emit.vector.splat(0.0)

            def row(at: list[Value]) -> None:
                start = emit.at(sums, emit.b.mul(at[0], I64(tiling.columns)))

                def vector(i: Value, mask: Value | None) -> None:
                    emit.store(zero, emit.at(start, i), tiling.lanes, mask)

                emit.in_vectors(I64(tiling.columns), tiling.lanes, vector)

            emit.nest([I64(tiling.rows)], row, shared=True)
        else:
            self._transpose(init, sums, tiling.rows, tiling.columns)

    def _turn_back(self) -> None:
        self._transpose(self.turned, self.buffers.out, self.tiling.columns, self.tiling.rows)

    def _transpose(self, source: Pointer, target: Pointer, rows: int, columns: int) -> None:
        """target[rows, columns] = source[columns, rows] transposed."""
        emit, b = self.emit, self.emit.b

        def element(at: list[Value]) -> None:
            read = b.add(b.mul(at[1], I64(rows)), at[0])
            write = b.add(b.mul(at[0], I64(columns)), at[1])
            emit.store(emit.load(emit.at(source, read)), emit.at(target, write))

        emit.nest([I64(rows), I64(columns)], element, shared=True)

    # A chunk of rows

    def _chunk(self, start: Value, sums: Pointer, fresh: Value | None) -> None:
        """Add a chunk's rows: blocks of panels, then the panel that is left.

        Args:
            fresh: whether the sums start with this chunk; None where they hold what they start as.
        """
        b, tiling = self.emit.b, self.tiling
        rest = b.sub(self.count, start)
        count = b.select(b.icmp_signed("<", rest, I64(DEPTH)), rest, I64(DEPTH))
        code = _ChunkCode(self, self.rows.sides(start), count, sums, fresh)
        full, width = divmod(tiling.columns, tiling.panel)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(i, I64(tiling.block))
            room = b.sub(I64(full), first)
            panels = b.select(b.icmp_signed("<", room, I64(tiling.block)), room, I64(tiling.block))
            code.block(b.mul(first, I64(tiling.panel)), panels, tiling.panel, full > 1)
            return []

        self.emit.loop(I64(-(-full // tiling.block)), iteration)
        if width:
            code.block(I64(full * tiling.panel), I64(1), width, False)


class _ChunkCode:
    """One chunk of rows, added to all sums.

    A block's panels of the right operand are packed once, each tile's part of the left one before
    it meets them: [panel][k][column] and [k][row]. A team's threads share the rows of tiles.
    """

    def __init__(
        self,
        code: _ContractCode,
        sides: tuple[Side, Side],
        count: Value,
        sums: Pointer,
        fresh: Value | None,
    ) -> None:
        self.code, self.emit, self.tiling, self.count = code, code.emit, code.tiling, count
        self.left, self.right = sides
        self.sums, self.fresh = sums, fresh
        shifted = code.rows.is_shifted(left=False)
        # Packed rows pay if several tiles read them; rows in two places must lie in one before code
        # can step along them.
        self.packs_right = shifted or self.tiling.rows > self.tiling.height

    def block(self, column: Value, panels: Value, width: int, several: bool) -> None:
        """Panels of `width` columns beside each other; whether there are several."""
        b, tiling = self.emit.b, self.tiling
        if self.packs_right:
            self.emit.together()  # others may still read the block before
            self._pack_right(column, panels, width)
            self.emit.together()
        full, left = divmod(tiling.rows, tiling.height)
        # One panel reads a tile's part of the left operand once, where it lies.
        packs_left = several or self.code.rows.is_shifted(left=True)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            row = b.mul(i, I64(tiling.height))
            self._row(_PackedTile(row, tiling.height, column, width), panels, packs_left)
            return []

        def last() -> None:
            row = I64(full * tiling.height)
            self._row(_PackedTile(row, left, column, width), panels, packs_left)

        self.emit.shared(I64(full), iteration, last=last if left else None)

    def _pack_right(self, column: Value, panels: Value, width: int) -> None:
        """What fills up a panel's last vector is zero."""
        emit, b, panel = self.emit, self.emit.b, self.tiling.panel

        def iteration(j: Value, carried: list[Value]) -> list[Value]:
            source = emit.at(self.right(j), column)
            target = emit.at(self.code.right_room, b.mul(j, I64(panel)))

            def copy(i: Value, carried: list[Value]) -> list[Value]:
                here = emit.at(source, b.mul(i, I64(panel)))
                panel_row = emit.at(target, b.mul(i, I64(panel * DEPTH)))
                for v, mask in self._vectors(width):
                    value = emit.load(emit.at(here, I64(v)), self.tiling.lanes, mask)
                    emit.store(value, emit.at(panel_row, I64(v)), self.tiling.lanes)
                return []

            emit.loop(panels, copy)
            self._fetch_left(j)
            return []

        emit.shared(self.count, iteration)

    def _fetch_left(self, j: Value) -> None:
        """Bring the left operand's j-th row near, of which each tile reads a part: steps from row
        to row are too long for processors to look ahead along them."""
        emit, tiling = self.emit, self.tiling
        width = tiling.rows * emit.target.item
        if width * DEPTH <= emit.target.cache // 2:
            row = self.left(j)
            for line in range(0, width, LINE):
                emit.fetch(row, I64(line), 2)

    def _row(self, first: _PackedTile, panels: Value, packs_left: bool) -> None:
        """A row of tiles."""
        emit, b, tiling = self.emit, self.emit.b, self.tiling
        left = self._pack_left(first) if packs_left else None

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            column = b.add(first.column, b.mul(i, I64(tiling.panel)))
            right = emit.at(self.code.right_room, b.mul(i, I64(tiling.panel * DEPTH)))
            self._tile(replace(first, column=column), left, right if self.packs_right else None)
            return []

        emit.loop(panels, iteration)

    def _pack_left(self, tile: _PackedTile) -> Pointer:
        emit, room = self.emit, self.emit.stack

        def iteration(j: Value, carried: list[Value]) -> list[Value]:
            value = emit.load(emit.at(self.left(j), tile.row), tile.height)
            target = emit.at(room, emit.b.mul(j, I64(tile.height)))
            emit.store(value, target, tile.height)
            return []

        emit.loop(self.count, iteration)
        return room

    def _vectors(self, width: int) -> list[tuple[int, Value | None]]:
        """Where each vector of a panel starts, and the mask of the last one."""
        lanes = self.tiling.lanes
        return [(v, self.emit.mask(width - v, lanes)) for v in range(0, width, lanes)]

    def _tile(self, tile: _PackedTile, left: Pointer | None, right: Pointer | None) -> None:
        """Load the sums, add all rows of the chunk, store the sums; None: not packed."""
        emit, b, lanes = self.emit, self.emit.b, self.tiling.lanes
        places: list[tuple[Value, Value | None]] = []
        for r in range(tile.height):
            first = b.mul(b.add(tile.row, I64(r)), I64(self.tiling.columns))
            start = b.add(first, tile.column)
            places += [(b.add(start, I64(v)), mask) for v, mask in self._vectors(tile.width)]
        total = self._before(places)

        def iteration(j: Value, carried: list[Value]) -> list[Value]:
            return self._step(tile, left, right, j, carried)

        total = emit.loop(self.count, iteration, total)
        for value, (at, mask) in zip(total, places, strict=True):
            emit.store(value, emit.at(self.sums, at), lanes, mask)

    def _before(self, places: list[tuple[Value, Value | None]]) -> list[Value]:
        """A tile's sums before the chunk."""
        emit, b, sums, init = self.emit, self.emit.b, self.sums, self.code.buffers.init
        source, fresh = sums, self.fresh

        def load() -> list[Value]:
            return [emit.load(emit.at(source, x), self.tiling.lanes, mask) for x, mask in places]

        if fresh is None:
            return load()
        if init is not None:
            source = Pointer(b.select(fresh, init.base, sums.base), sums.dtype)
            return load()
        zero = emit.vector.splat(0.0)
        entry = b.block
        with b.if_then(b.not_(fresh)):
            loaded = load()
            added = b.block
        phis = list[Value]()
        for value in loaded:  # no pass over the sums makes them zeros first
            phi = b.phi(zero.type)
            phi.add_incoming(zero, entry)
            phi.add_incoming(value, added)
            phis.append(phi)
        return phis

    def _step(
        self,
        tile: _PackedTile,
        left: Pointer | None,
        right: Pointer | None,
        j: Value,
        total: list[Value],
    ) -> list[Value]:
        """One row's product, added to a tile's sums."""
        emit, b, lanes = self.emit, self.emit.b, self.tiling.lanes
        if left is None:
            left = emit.at(self.left(j), tile.row)
        else:
            left = emit.at(left, b.mul(j, I64(tile.height)))
        vectors = self._vectors(tile.width)
        if right is None:
            right = emit.at(self.right(j), tile.column)
        else:
            # Packing has filled the last vector up with zeros: no mask within the loop.
            vectors = [(v, None) for v, _ in vectors]
            right = emit.at(right, b.mul(j, I64(self.tiling.panel)))
        wide = [emit.load(emit.at(right, I64(v)), lanes, mask) for v, mask in vectors]
        new: list[Value] = []
        for r in range(tile.height):
            factor = emit.splat(emit.load(emit.at(left, I64(r))), lanes)
            sums = total[r * len(wide) : (r + 1) * len(wide)]
            new += [emit.vector.fma(b, factor, x, y) for x, y in zip(wide, sums, strict=True)]
        return new
