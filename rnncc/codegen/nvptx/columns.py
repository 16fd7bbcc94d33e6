"""Reductions of many terms to few results: a block reads terms of `WARP` results at a time.

One thread a result would wait for its terms one after another, with most of the grid idle. Here all
warps of a block compute terms of the same results, which go through shared memory to the first
warp. It folds them in their order, so that results have the bits of one thread each:

    terms of `HEIGHT` rows a warp -> shared memory -> the sum of a lane of the first warp
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import I64, VALUE, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.limits import WARP
from rnncc.ir.types import ITEM_BYTES, dtype_of
from rnncc.kern.kernels import Reduce
from rnncc.records import record

HEIGHT = 16
"""Terms that a thread reads before it waits for the first; factors of products count each."""
LEAST_TERMS = 16
TOGETHER = 8
"""Terms that a thread reads, if it reads and adds them, before it adds the first."""
SHORT = 4
"""Operations of a body; of longer ones fewer are computed at a time, so that code stays small."""

Term = Callable[[Value], list[Value]]
"""A term, or its factors, by its number in the order of the sum."""


@record
class ColumnResult:
    """What a result starts at, its terms, and what takes the sum."""

    begin: Value
    term: Term
    end: Callable[[Value], object]


def shared_bytes(op: Reduce, threads: int) -> int:
    """Of shared memory."""
    return 2 * 4 * HEIGHT * threads if suits(op, threads) else 0


def suits(op: Reduce, threads: int) -> bool:
    """Whether a block can share the terms of a reduction: one after another, along one axis."""
    return are_words(op) and op.reduced.data == 1 and threads > WARP


def are_words(op: Reduce) -> bool:
    """Whether each term is of 4 bytes, or each of its factors."""
    return all(ITEM_BYTES[dtype_of(value)] == 4 for value in op.term)


class Columns:
    """One reduction.

    Args:
        results, count: how many results there are, and terms of each.
    """

    def __init__(
        self, emit: GpuEmit, op: Reduce, folding: Folding, results: Value, count: Value
    ) -> None:
        self.emit, self.op, self.folding = emit, op, folding
        self.results, self.count, self.parts = results, count, len(op.term)
        self.types = [VALUE[dtype_of(value)] for value in op.term]
        self.height = fewer(op, HEIGHT // self.parts)
        warps = emit.threads // WARP
        self.rows = self.height * warps
        b = emit.b
        self.lane = b.and_(emit.thread64, I64(WARP - 1))
        self.warp = b.lshr(emit.thread64, I64(WARP.bit_length() - 1))
        self.first = b.mul(self.warp, I64(self.height))

    @property
    def pay(self) -> Value:
        """Whether there are terms enough, and results for few of the grid's threads."""
        emit, b = self.emit, self.emit.b
        few = b.icmp_signed("<=", b.shl(self.results, I64(1)), emit.everyone)
        return b.and_(few, b.icmp_signed(">=", self.count, I64(LEAST_TERMS)))

    def write(self, result: Callable[[Value], ColumnResult]) -> None:
        """All results, by their numbers."""
        emit, b = self.emit, self.emit.b
        leads = b.icmp_unsigned("==", self.warp, I64(0))

        def group(i: Value) -> None:
            start = b.mul(i, I64(WARP))
            number = b.add(start, self.lane)
            inside = b.icmp_signed("<", number, self.results)
            # Lanes without a result compute the first one's terms.
            own = result(b.select(inside, number, start))
            total = self._total(own, leads)
            with emit.when(b.and_(inside, leads)):
                own.end(total)

        emit.for_each_by_blocks(emit.parts(self.results, I64(WARP)), group)

    def _total(self, result: ColumnResult, leads: Value) -> Value:
        emit, b = self.emit, self.emit.b
        runs = emit.parts(self.count, I64(self.rows))
        emit.gpu.block_wait()  # until nobody reads what lay there before

        def run(i: Value, carried: list[Value]) -> list[Value]:
            half, start = b.and_(i, I64(1)), b.mul(i, I64(self.rows))
            self._store(half, self._terms(result, b.add(start, self.first)))
            # The other half is filled next, while the first warp reads this one.
            emit.gpu.block_wait()
            rest = b.sub(self.count, start)
            rows = b.select(b.icmp_signed("<", rest, I64(self.rows)), rest, I64(self.rows))
            return [self._folded(half, b.select(leads, rows, I64(0)), carried[0])]

        return emit.loop(runs, run, [result.begin])[0]

    def _terms(self, result: ColumnResult, first: Value) -> list[list[Value]]:
        b = self.emit.b
        last = b.sub(self.count, I64(1))
        terms: list[list[Value]] = []
        for i in range(self.height):
            k = b.add(first, I64(i))
            # Behind the last term it is read once more: no sum takes it in.
            terms.append(result.term(b.select(b.icmp_signed("<", k, last), k, last)))
        return terms

    def _place(self, half: Value, row: Value, part: int) -> Pointer:
        """A lane's word of a row; a half holds the rows of all parts."""
        emit, b = self.emit, self.emit.b
        line = b.add(b.mul(half, I64(self.parts * self.rows)), I64(part * self.rows))
        at = b.add(b.mul(b.add(line, row), I64(WARP)), self.lane)
        return emit.at(Pointer(emit.gpu.shared(), "f32"), at)

    def _store(self, half: Value, terms: Sequence[Sequence[Value]]) -> None:
        b = self.emit.b
        for i, term in enumerate(terms):
            for part, value in enumerate(term):
                place = self._place(half, b.add(self.first, I64(i)), part)
                b.store(value, place.base, align=4)

    def _read(self, half: Value, row: Value) -> list[Value]:
        b = self.emit.b
        places = (self._place(half, row, part) for part in range(self.parts))
        return [
            b.load(place.base, typ=type_, align=4)
            for place, type_ in zip(places, self.types, strict=True)
        ]

    def _folded(self, half: Value, rows: Value, total: Value) -> Value:
        """The terms of so many rows added."""

        def term(row: Value) -> list[Value]:
            return self._read(half, row)

        return _folded_some(self.emit, self.folding, rows, term, total, TOGETHER)


def folded_in_order(
    emit: GpuEmit, op: Reduce, folding: Folding, count: Value, term: Term, total: Value
) -> Value:
    """Terms 0 to `count`, some of which are computed at a time before the first is added."""
    return _folded_some(emit, folding, count, term, total, fewer(op, TOGETHER))


def fewer(op: Reduce, most: int) -> int:
    """How many terms to compute at a time: a power of two."""
    share = -(-len(op.body.block.ops) // SHORT)
    return 1 << max(1, most // share).bit_length() - 1


def _folded_some(
    emit: GpuEmit, folding: Folding, count: Value, term: Term, total: Value, together: int
) -> Value:
    b = emit.b
    shift = I64(together.bit_length() - 1)
    several = b.lshr(count, shift)

    def some(i: Value, carried: list[Value]) -> list[Value]:
        first, total = b.shl(i, shift), carried[0]
        for read in [term(b.add(first, I64(number))) for number in range(together)]:
            total = folding.added(total, read, 1)
        return [total]

    [total] = emit.loop(several, some, [total])
    if together == 1:
        return total
    done = b.shl(several, shift)

    def one(i: Value, carried: list[Value]) -> list[Value]:
        return [folding.added(carried[0], term(b.add(done, i)), 1)]

    return emit.loop(b.sub(count, done), one, [total])[0]
