"""Rows that go from iteration to iteration without a wait of all blocks for each other.

Where a loop is one product, whose rows of a are what it wrote in the iteration before, blocks hand
these on as words of 64 bits: two neighbours as bf16, and the number of the iteration that they are
for. Who reads a word sees by itself whether it has come, so that nothing else need be ordered. All
other values that the product reads are of the same point, which the same thread has in every
iteration, or nobody writes them in the loop.

There are two words for each pair of neighbours, for even and for odd iterations. A word is written
again two iterations later, by a block that has read all words of its rows of the iteration between:
each of those was written by a block that had read its words of the iteration before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import QUAD
from rnncc.codegen.nvptx.limits import EXCHANGED_ROWS
from rnncc.ir.dims import product
from rnncc.kern.access import Access, get_access
from rnncc.kern.dialect import For, Row, ShiftedRow
from rnncc.kern.kernels import Gemm


def handed_on(loop: For, gemms: Sequence[Gemm]) -> int | None:
    """Which result of the loop's one product its next iteration reads as rows; None if none."""
    # Any other kernel would read rows that have not been stored yet, without a wait.
    if len(gemms) != 1 or loop.kernels != list(gemms):
        return None
    [op] = gemms
    following: dict[SSAValue, SSAValue] = dict(zip(loop.body.block.args, loop.yields, strict=True))
    outs = list(zip(op.outs, op.out_accesses, strict=True))
    if op.a not in following:
        return None
    rows = following[op.a], get_access(op.a_access)
    # All of a row must be handed on, in fours; listed rows may leave out some.
    if rows not in outs or op.units != op.depth.data or op.units % QUAD or op.rows is not None:
        return None
    written = {whole(value) for value in op.outs}
    for value, access in zip(op.ins, op.in_accesses, strict=True):
        if not is_own(value, access, following, outs, written):
            return None
    return outs.index(rows)


def is_own(
    value: SSAValue,
    access: Access,
    following: Mapping[SSAValue, SSAValue],
    outs: Sequence[tuple[SSAValue, Access]],
    written: Collection[SSAValue],
) -> bool:
    """Whether nobody but a point's own thread writes what the point reads in a loop.

    Args:
        following: argument of the loop's body -> what the next iteration gets.
        outs: what points write, and `written` the buffers that it is in.
    """
    if value not in following:
        return whole(value) not in written
    kept = following[value] is value and whole(value) not in written
    return kept or (following[value], access) in outs


def whole(value: SSAValue) -> SSAValue:
    """The buffer that a row is of."""
    while isinstance(value.owner, Row | ShiftedRow):
        value = value.owner.buffer
    return value


class Exchange:
    """The words of one loop.

    Args:
        out: which result is handed on; `words`: where they lie.

    Attributes:
        on: whether rows are handed on so, the same for all blocks.
    """

    def __init__(self, emit: GpuEmit, op: Gemm, out: int, words: Pointer) -> None:
        self.emit, self.op, self.out, self.words = emit, op, out, words
        self.pairs = op.depth.data // 2
        self._iteration = emit.room(I32, 4)
        self.on: Value = None

    def begin(self, on: Value) -> None:
        """No word has come; `on`: whether there are not too many rows besides."""
        emit, b = self.emit, self.emit.b
        rows = emit.dim(product(self.op.dims[:-1]))
        self.on = b.and_(on, b.icmp_signed("<=", rows, I64(EXCHANGED_ROWS)))
        b.store(I32(0), self._iteration, align=4)
        with emit.when(self.on):
            # A word of an earlier loop could have this one's mark.
            with emit.members():
                emit.for_each(I64(2 * EXCHANGED_ROWS * self.pairs), self._clear)
            emit.together()

    def _clear(self, number: Value) -> None:
        place = self.emit.b.gep(self.words.base, [number], source_etype=I64)
        self.emit.b.store(I64(0), place, align=8)

    @property
    def iteration(self) -> Value:
        """The iteration's number, from 0 up."""
        return self.emit.b.load(self._iteration, typ=I32, align=4)

    def next_iteration(self) -> None:
        b = self.emit.b
        b.store(b.add(self.iteration, I32(1)), self._iteration, align=4)

    def place(self, iteration: Value, row: Value, pair: Value) -> Value:
        """Where a word for an iteration lies."""
        b = self.emit.b
        number = b.mul(b.and_(iteration, I32(1)), I32(EXCHANGED_ROWS))
        at = b.add(b.mul(b.add(number, row), I32(self.pairs)), pair)
        return b.gep(self.words.base, [b.zext(at, I64)], source_etype=I64)

    def hand_on(self, own: Value, row: Value, unit: Value, value: Value) -> None:
        """A point's result, for the next iteration; neighbouring lanes have neighbouring units."""
        emit, b = self.emit, self.emit.b
        # Before lanes part: a shuffle takes all of a warp.
        other = emit.gpu.shuffle_down(value, 1)
        even = b.icmp_unsigned("==", b.and_(unit, I32(1)), I32(0))
        with emit.when(b.and_(b.and_(own, even), self.on)):
            iteration = b.add(self.iteration, I32(1))
            place = self.place(iteration, row, b.lshr(unit, I32(1)))
            emit.gpu.post(place, emit.gpu.halves(value, other), iteration)
