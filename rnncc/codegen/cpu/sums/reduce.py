"""`kern.reduce`: sums, largest and smallest values; here the loops over results.

Where lanes run across results, a few vectors of them are reduced at a time. A sum in a stated order
takes its terms in chunks of rows and keeps its results in memory in between, which is exact, so
that the rows are read one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit, Part
from rnncc.codegen.cpu.sums.shared_columns import SharedColumns
from rnncc.codegen.cpu.sums.shared_rows import (
    SHARING,
    ResultIndices,
    folds_together,
    rows_together,
    side_by_side,
    vectors_together,
)
from rnncc.codegen.cpu.sums.totals import Totals
from rnncc.codegen.llvm.reductions import fold_together
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.kern.kernels import Reduce

TOGETHER, PAIR = 4, 2
"""Vectors of results side by side; of those behind the last four."""
ROWS = 4
"""Rows that a sum takes in before it turns to the next results: few streams are read at a time."""


def emit_reduce(
    emit: CpuEmit,
    op: Reduce,
    ins: list[Pointer],
    outs: list[Pointer],
    init: Pointer | None,
    rows: Pointer | None = None,
) -> None:
    """Write the loops of a reduction; `rows`: the list of those that are computed."""
    ReduceCode(Totals(emit, op, ins, outs[0], init)).run(rows)


class ReduceCode:
    """The loops of a reduction."""

    def __init__(self, totals: Totals) -> None:
        self.totals, self.emit, self.op = totals, totals.emit, totals.op
        op, kept = totals.op, totals.kept
        self.ordered = op.order.data != "any"
        self.folds_together = totals.along and folds_together(op, kept, totals.lanes)
        self.sharing = 1
        if totals.across and not self.ordered:
            self.sharing = rows_together(self.emit.target, op, kept, totals.unrolled)
        windows = totals.unrolled and self.sharing > 1
        self.together = vectors_together(self.emit.target) if windows else TOGETHER

    def run(self, listed: Pointer | None) -> None:
        """Write them: of all rows, or of those that are listed."""
        totals, shared = self.totals, None
        if self.folds_together:  # rows that meet the same columns go through these together
            shared = SharedColumns.of(self.emit, self.op, totals.folding)
        if shared is None:
            self.over_rows(listed)
        else:
            shared.run(totals.ins, totals.out, lambda: self.over_rows(listed))

    def over_rows(self, listed: Pointer | None) -> None:
        """Rows by themselves, or some at a time where they share what they read."""
        emit, dims, listing = self.emit, self.op.dims, self.op.active_rows
        outer = dims[: self.totals.kept - 1] if self.totals.across else dims[: self.totals.kept]
        if self.folds_together:
            outer, body = outer[:-1], self._neighbours
        else:
            body = self._row if self.totals.across else self._element
        if listing is not None and listed is not None:
            rows = RowList(emit, self.op, outer[: listing.axes], listed)
            rows.nest([emit.dim(d) for d in outer[listing.axes :]], body)
        elif self.sharing > 1:
            self._shared_rows([emit.dim(d) for d in outer[:-1]])
        elif outer or self.totals.across:  # without other axes, threads share the results of a row
            emit.nest([emit.dim(d) for d in outer], body, shared=True)
        else:
            with emit.alone():
                body([])

    def _row(self, indices: list[Value]) -> None:
        """A row of results, one a lane."""
        # An order that is not stated allows all rows at once: the sums stay in registers.
        if not self.ordered or self.totals.kept == len(self.op.dims):
            self._results([indices], None)
            return
        emit, b = self.emit, self.emit.b
        size = emit.dim(self.op.dims[self.totals.kept])
        chunks = emit.parts(size, I64(ROWS))
        # Without rows one chunk must still run: it writes what the sums start at.
        chunks = b.select(b.icmp_signed("<", chunks, I64(1)), I64(1), chunks)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(i, I64(ROWS))
            rest = b.sub(size, first)
            count = b.select(b.icmp_signed("<", rest, I64(ROWS)), rest, I64(ROWS))
            self._results([indices], (first, count))
            return []

        emit.loop(chunks, iteration)

    def _shared_rows(self, outer: list[Value]) -> None:
        """Rows of results, some at a time that read the same, then fewer, then single ones."""
        emit, b = self.emit, self.emit.b
        size = self.op.dims[self.totals.kept - 2]

        def rows(done: Value, height: int) -> Callable[[list[Value]], None]:
            def block(indices: list[Value]) -> None:
                first = b.add(done, b.mul(indices[-1], I64(height)))
                numbers = [b.add(first, I64(r)) for r in range(height)]
                self._results([[*indices[:-1], number] for number in numbers], None)

            return block

        full, rest = emit.divided(size, self.sharing)
        done = b.mul(full, I64(self.sharing))
        emit.nest([*outer, full], rows(I64(0), self.sharing), shared=True)
        if self.totals.unrolled and size.is_static:
            if left := int(size) % self.sharing:
                emit.nest([*outer, I64(1)], rows(done, left), shared=True)
            return
        if self.sharing > SHARING:
            several = emit.quotient(rest, I64(SHARING))
            emit.nest([*outer, several], rows(done, SHARING), shared=True)
            taken = b.mul(several, I64(SHARING))
            done, rest = b.add(done, taken), b.sub(rest, taken)
        emit.nest([*outer, rest], rows(done, 1), shared=True)

    def _results(self, rows: list[list[Value]], part: Part | None) -> None:
        """Rows of results, a few vectors at a time, then single ones; `part`: a chunk's rows."""
        emit, b, lanes = self.emit, self.emit.b, self.totals.lanes
        size, width = self.op.dims[self.totals.kept - 1], lanes * self.together
        full, rest = emit.divided(size, width)

        def panels(done: Value, vectors: int) -> Callable[[Value, list[Value]], list[Value]]:
            def panel(i: Value, carried: list[Value]) -> list[Value]:
                start = b.add(done, b.mul(i, I64(vectors * lanes)))
                self.totals.add(side_by_side(emit, rows, start, vectors), part)
                return []

            return panel

        def last() -> None:
            if self.totals.unrolled and size.is_static:
                self._rest(rows, int(size), part)
                return
            done, left = b.mul(full, I64(width)), rest
            if self.sharing > 1 and self.together > PAIR:
                # What rows have in common is read once for two vectors, where there are two.
                pairs = emit.quotient(left, I64(PAIR * lanes))
                emit.loop(pairs, panels(done, PAIR))
                taken = b.mul(pairs, I64(PAIR * lanes))
                done, left = b.add(done, taken), b.sub(left, taken)

            def vector(start: Value, mask: Value | None) -> None:
                self.totals.add(side_by_side(emit, rows, b.add(done, start), 1, mask), part)

            emit.in_vectors(left, lanes, vector)

        if rows[0]:
            emit.loop(full, panels(I64(0), self.together))
            last()
        else:
            emit.shared(full, panels(I64(0), self.together), last=last)

    def _rest(self, rows: list[list[Value]], size: int, part: Part | None) -> None:
        """What is left of rows of results of known size, side by side."""
        first = size - size % (self.totals.lanes * self.together)
        starts = range(first, size, self.totals.lanes)
        masks = [self.emit.mask(size - start, self.totals.lanes) for start in starts]
        places = [
            ResultIndices([*row, I64(start)], mask, (r, start - first))
            for r, row in enumerate(rows)
            for start, mask in zip(starts, masks, strict=True)
        ]
        if places:
            self.totals.add(places, part)

    def _element(self, indices: list[Value]) -> None:
        self.totals.add([ResultIndices(indices)], None)

    def _neighbours(self, indices: list[Value]) -> None:
        """A row of results, as many at a time as a vector holds, then single ones."""
        emit, b, lanes = self.emit, self.emit.b, self.totals.lanes
        full, rest = emit.divided(self.op.dims[self.totals.kept - 1], lanes)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(i, I64(lanes))
            places = [ResultIndices([*indices, b.add(first, I64(j))]) for j in range(lanes)]
            totals = [self.totals.start(place, 1, None) for place in places]
            vectors, rest = divmod(int(self.op.dims[-1]), lanes)

            def terms(k: Value, carried: list[Value]) -> list[Value]:
                return self.totals.sum(places, [b.mul(k, I64(lanes))], [], carried)

            totals = emit.loop(I64(vectors), terms, totals)
            if rest:
                masked = [replace(place, mask=emit.first_lanes(rest, lanes)) for place in places]
                totals = self.totals.sum(masked, [I64(vectors * lanes)], [], totals)
            total = fold_together(self.totals.folding, totals)
            emit.store(total, self.totals.result_at(places[0].indices), lanes)
            return []

        def single(i: Value, carried: list[Value]) -> list[Value]:
            self._element([*indices, b.add(b.mul(full, I64(lanes)), i)])
            return []

        emit.loop(full, iteration)
        emit.loop(rest, single)
