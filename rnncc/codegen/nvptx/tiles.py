"""Tiles of products in registers: both operands go through shared memory, some k at a time.

Threads stand in a square of `SIDE` by `SIDE`. Each has some quads of the tile's rows by some quads
of its columns, so that it reads four numbers at a time; a quad's neighbour in the tile belongs to
the next thread. Sums are chains of fused multiply-adds, one k after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import FLOAT, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit, lane_place
from rnncc.records import record

SIDE = 16
QUAD = 4
DEPTH = 16
"""k that lie in shared memory at a time; as many more are on their way in registers. Twice as many
of small tiles, whose sums take too short a time for reads to come."""
SQUARE = SIDE * SIDE
"""Threads that it takes."""

LARGE, SMALL = 2, 1
"""Quads of a thread on either side, of tiles of 128 by 128 and of 64 by 64."""
ZERO = ir.Constant(FLOAT, 0.0)

Loaded = list[Value]
"""What a thread has read of an operand for one run of k."""


class Operand(Protocol):
    """One side of a product: `quads` of a thread, `SIDE * QUAD` times as many places in all.

    Attributes:
        run: k that are loaded and stored at a time.
    """

    quads: int
    run: int

    def load(self, k: Value) -> Loaded:
        """Read this thread's part of the run from the k-th on; what is outside reads as inside."""
        ...

    def store(self, loaded: Loaded, place: Pointer) -> None:
        """Leave it in shared memory: each k has `pitch_of(quads)` places."""
        ...


def pitch_of(quads: int) -> int:
    """Floats from k to k in shared memory."""
    # Lines of neighbouring k begin in other banks, and still at multiples of 16 bytes.
    return quads * SIDE * QUAD + QUAD


def run_of(left: int, right: int) -> int:
    """k that lie in shared memory at a time, given both operands' quads."""
    return 2 * DEPTH if left == right == 1 else DEPTH


def bytes_of(left: int, right: int) -> int:
    """Shared memory of a tile: of each operand two runs."""
    return 4 * 2 * run_of(left, right) * (pitch_of(left) + pitch_of(right))


@record
class OperandTile:
    """A tile's operands and the depth of its sums.

    Attributes:
        depth: how many k there are, known when code is written or not.
        brief: whether short code matters more than time.
    """

    emit: GpuEmit
    left: Operand
    right: Operand
    depth: Value
    brief: bool = False

    @property
    def rows(self) -> int:
        """Of a thread."""
        return self.left.quads * QUAD

    @property
    def columns(self) -> int:
        return self.right.quads * QUAD

    def sums(self, begin: list[Value]) -> list[Value]:
        """A thread's sums, row by row, from `begin` on; all threads of the block together."""
        emit, b = self.emit, self.emit.b
        run = self.left.run
        runs = b.sdiv(self.depth, I64(run))
        rest = b.sub(self.depth, b.mul(runs, I64(run)))
        # Until nobody reads what lay there before.
        emit.gpu.block_wait()
        with emit.when(b.icmp_signed(">", self.depth, I64(0))):  # there may be no k to read
            self._store(self._load(I64(0)), I64(0))
        emit.gpu.block_wait()

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            following = b.add(i, I64(1))
            # Behind the last whole run this is the rest, or nothing that is added.
            ahead = self._load(b.mul(following, I64(run)))
            number = b.and_(i, I64(1))
            if self.brief:
                carried = self._add_each(number, emit.gpu.hidden(run), carried)
            else:
                for k in range(run):
                    carried = self._add(number, I64(k), carried)
            self._store(ahead, b.xor(number, I64(1)))
            emit.gpu.block_wait()
            return carried

        sums = emit.loop(runs, iteration, begin)
        last = b.and_(runs, I64(1))
        return self._add_each(last, rest, sums)

    def _add_each(self, number: Value, count: Value, sums: list[Value]) -> list[Value]:
        """The terms of so many k, in as little code as there can be."""

        def one(k: Value, carried: list[Value]) -> list[Value]:
            self.emit.gpu.not_unrolled()
            return self._add(number, k, carried)

        return self.emit.loop(count, one, sums)

    def _load(self, k: Value) -> tuple[Loaded, Loaded]:
        return self.left.load(k), self.right.load(k)

    def _places(self, number: Value) -> tuple[Pointer, Pointer]:
        """Where the runs of an even or odd number lie."""
        emit, b = self.emit, self.emit.b
        memory = Pointer(emit.gpu.shared(), "f32")
        size = [side.run * pitch_of(side.quads) for side in (self.left, self.right)]
        right = b.add(I64(2 * size[0]), b.mul(number, I64(size[1])))
        return emit.at(memory, b.mul(number, I64(size[0]))), emit.at(memory, right)

    def _store(self, loaded: tuple[Loaded, Loaded], number: Value) -> None:
        for side, values, place in zip(
            (self.left, self.right), loaded, self._places(number), strict=True
        ):
            side.store(values, place)

    def _add(self, number: Value, k: Value, sums: list[Value]) -> list[Value]:
        """The terms of one k."""
        emit, b = self.emit, self.emit.b
        y, x = place_of(emit)
        values: list[list[Value]] = []
        for side, place, at in zip(
            (self.left, self.right), self._places(number), (y, x), strict=True
        ):
            line = emit.at(place, b.mul(k, I64(pitch_of(side.quads))))
            line = emit.at(line, b.mul(at, I64(QUAD)))
            quads = [emit.at(line, I64(q * SIDE * QUAD)) for q in range(side.quads)]
            values.append([v for quad in quads for v in read_quad(emit, quad)])
        fma, [rows, columns] = emit.math(1).fma, values
        return [
            fma(b, row, column, sums[r * self.columns + c])
            for r, row in enumerate(rows)
            for c, column in enumerate(columns)
        ]


def place_of(emit: GpuEmit) -> tuple[Value, Value]:
    """A thread's row and column in the square.

    A warp has four rows by eight columns of it, whose bits are those of a lane as `lane_place` has
    them; of the warps' numbers the lowest bit is the column's.
    """
    b = emit.b
    row, column = lane_place(emit, emit.thread64)
    warp = b.lshr(emit.thread64, I64(5))
    rows, columns = b.lshr(warp, I64(1)), b.and_(warp, I64(1))
    return b.or_(b.shl(rows, I64(2)), row), b.or_(b.shl(columns, I64(3)), column)


def read_quad(emit: GpuEmit, place: Pointer) -> list[Value]:
    """Four floats at a multiple of 16 bytes."""
    four = emit.b.load(place.base, typ=ir.VectorType(FLOAT, QUAD), align=16)
    return [emit.b.extract_element(four, I64(i)) for i in range(QUAD)]


def write_quad(emit: GpuEmit, values: list[Value], place: Pointer) -> None:
    """The opposite."""
    emit.b.store(vector_of(emit.b, values), place.base, align=16)


def clamped(emit: GpuEmit, value: Value, count: Value) -> Value:
    """A number below a count of at least 1: itself, or the last one."""
    b = emit.b
    inside = b.icmp_signed("<", value, count)
    return b.select(inside, value, b.sub(count, I64(1)))


def with_tiles_of(
    emit: GpuEmit, tiles: Callable[[int], Value], write: Callable[[int], None]
) -> None:
    """`write(quads)` for the quads a side and thread of which the grid makes the faster tiles.

    Args:
        tiles: how many tiles of so many quads there are.
    """
    b = emit.b
    last = b.sub(b.zext(emit.blocks, I64), I64(1))
    rounds = [
        b.sdiv(b.add(tiles(quads), last), b.zext(emit.blocks, I64)) for quads in (LARGE, SMALL)
    ]
    # A large one has four times the sums of a small one, but takes only three times as long.
    large = b.icmp_signed("<=", b.mul(rounds[0], I64(3)), rounds[1])
    with b.if_else(large) as (few, many):
        with few:
            write(LARGE)
        with many:
            write(SMALL)


def for_tiles(
    emit: GpuEmit,
    rows: Value,
    columns: Value,
    sizes: tuple[int, int],
    body: Callable[[Value, Value], None],
) -> None:
    """`body(row, column)` of each tile's first place, each by one block of the grid."""
    b = emit.b
    down, across = (
        emit.parts(n, I64(size)) for n, size in zip((rows, columns), sizes, strict=True)
    )

    def tile(number: Value) -> None:
        i = b.sdiv(number, across)
        j = b.sub(number, b.mul(i, across))
        body(b.mul(i, I64(sizes[0])), b.mul(j, I64(sizes[1])))

    emit.for_each_by_blocks(b.mul(down, across), tile)
