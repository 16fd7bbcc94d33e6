"""Reductions along rows that are a block's own: all threads compute terms, half a warp adds them.

    terms of a row, side by side over the threads -> shared memory -> sums of `LANES` lanes

Sums have the order that half a warp alone gives them, which would wait for its terms while the rest
of the block has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import I64, VALUE, Pointer, Value
from rnncc.codegen.nvptx.columns import ColumnResult, Term, are_words, fewer, folded_in_order
from rnncc.codegen.nvptx.emit import GpuEmit, ThreadShare
from rnncc.codegen.nvptx.limits import WARP
from rnncc.ir.types import dtype_of
from rnncc.kern.kernels import Reduce

LANES = 16
LEAST_TERMS, MOST_TERMS = 256, 4096
MOST_ROWS = 4
"""Of a block: with more, each half of a warp has a row of its own to add."""
AT_A_TIME = 8
"""Terms of a thread."""


def suits(op: Reduce, threads: int) -> bool:
    """Whether the terms of a row fit into shared memory, and are worth to be shared out."""
    size = op.dims[-1]
    if op.reduced.data != 1 or not size.is_static or not are_words(op) or threads <= WARP:
        return False
    return LEAST_TERMS <= int(size) <= MOST_TERMS


def shared_bytes(op: Reduce, threads: int) -> int:
    """Of shared memory."""
    return 4 * len(op.term) * int(op.dims[-1]) if suits(op, threads) else 0


def lane_sum(
    emit: GpuEmit,
    op: Reduce,
    folding: Folding,
    lane: Value,
    size: Value,
    term: Term,
    total: Value,
) -> Value:
    """Terms lane, lane + `LANES`, ... of so many."""
    b = emit.b
    count = b.lshr(b.add(b.sub(size, lane), I64(LANES - 1)), I64(LANES.bit_length() - 1))
    count = b.select(b.icmp_signed("<", lane, size), count, I64(0))

    def own(i: Value) -> list[Value]:
        return term(b.add(lane, b.mul(i, I64(LANES))))

    return folded_in_order(emit, op, folding, count, own, total)


class RowSums:
    """One reduction.

    Args:
        fold: adds the sums of `LANES` lanes; of use in the lowest lane.
    """

    def __init__(
        self, emit: GpuEmit, op: Reduce, folding: Folding, fold: Callable[[Value], Value]
    ) -> None:
        self.emit, self.op, self.folding, self.fold = emit, op, folding, fold
        self.size = int(op.dims[-1])
        self.types = [VALUE[dtype_of(value)] for value in op.term]

    def pay(self, share: ThreadShare) -> Value:
        """Whether a block has few rows."""
        return self.emit.b.icmp_signed("<=", share.count, I64(MOST_ROWS))

    def write(self, share: ThreadShare, result: Callable[[Value], ColumnResult]) -> None:
        """The rows of this block, one after another."""
        emit, b = self.emit, self.emit.b
        first_warp = b.icmp_unsigned("<", emit.thread64, I64(WARP))
        lane = b.and_(emit.thread64, I64(LANES - 1))
        leads = b.icmp_unsigned("==", emit.thread64, I64(0))

        def row(i: Value, carried: list[Value]) -> list[Value]:
            own = result(share.number(i))
            emit.gpu.block_wait()  # until nobody reads what lay there before
            self._store(own.term)
            emit.gpu.block_wait()
            with emit.when(first_warp):
                own_sum = lane_sum(
                    emit, self.op, self.folding, lane, I64(self.size), self._read, own.begin
                )
                total = self.fold(own_sum)
                with emit.when(leads):
                    own.end(total)
            return carried

        emit.loop(share.count, row)

    def _place(self, k: Value, part: int) -> Pointer:
        emit, b = self.emit, self.emit.b
        return emit.at(Pointer(emit.gpu.shared(), "f32"), b.add(k, I64(part * self.size)))

    def _store(self, term: Term) -> None:
        """This thread's terms of a row, some of which are on their way at a time."""
        emit, b = self.emit, self.emit.b
        each = -(-self.size // emit.threads)
        together = min(each, fewer(self.op, AT_A_TIME))
        whole = self.size % (emit.threads * together) == 0

        def some(i: Value, carried: list[Value]) -> list[Value]:
            first = b.add(emit.thread64, b.mul(i, I64(emit.threads * together)))
            numbers = [b.add(first, I64(j * emit.threads)) for j in range(together)]
            insides = [b.icmp_signed("<", k, I64(self.size)) for k in numbers]
            # Behind the last term another one is computed, and not kept.
            pairs = list(zip(insides, numbers, strict=True))
            terms = [term(k if whole else b.select(inside, k, I64(0))) for inside, k in pairs]
            for (inside, k), values in zip(pairs, terms, strict=True):
                with nullcontext() if whole else emit.when(inside):
                    for part, value in enumerate(values):
                        b.store(value, self._place(k, part).base, align=4)
            return carried

        emit.loop(I64(-(-each // together)), some)

    def _read(self, k: Value) -> list[Value]:
        return [
            self.emit.b.load(self._place(k, part).base, typ=type_, align=4)
            for part, type_ in enumerate(self.types)
        ]
