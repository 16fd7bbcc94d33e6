"""`kern.reduce`: sums, largest and smallest values, each in one fixed order.

Where lanes run across results, a few vectors of them are reduced at a time. A sum in a stated order
takes its terms in chunks of rows and keeps its results in memory in between, which is exact, so
that the rows are read one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit, Part
from rnncc.codegen.cpu.shared_columns import SharedColumns
from rnncc.codegen.cpu.shared_rows import (
    Place,
    folds_together,
    has_few_taps,
    rows_together,
    side_by_side,
    vectors_together,
)
from rnncc.codegen.cpu.streams import folded_along, streams_of
from rnncc.codegen.cpu.window_terms import Result, WindowTerms
from rnncc.codegen.llvm.nest import indexed_axes
from rnncc.codegen.llvm.reductions import Folding, Lanes, fold, fold_together, lanes_of
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
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
    """Write the loops of a reduction; `rows`: the list of those that are computed.

    Lanes run along the last axis that is kept, where memory is dense along it, and each sums by
    itself; else along the last reduced axis, and are added up in the end; else there is one.
    """
    ReduceCode(emit, op, ins, outs[0], init).run(rows)


class ReduceCode:
    """The loops of a reduction."""

    def __init__(
        self, emit: CpuEmit, op: Reduce, ins: list[Pointer], out: Pointer, init: Pointer | None
    ) -> None:
        self.emit, self.op, self.ins, self.out, self.init = emit, op, ins, out, init
        self.kept = len(op.dims) - op.reduced.data
        self.folding = Folding.of(emit, op)
        self.access = [*op.in_accesses, *op.out_accesses]
        reads, lanes = self.access[:-1], lanes_of(op)
        across, along = lanes is Lanes.ACROSS, lanes is Lanes.ALONG
        self.ordered, self.down = op.order.data != "any", op.order.data == "down"
        self.axis = self.kept - 1 if across else len(op.dims) - 1 if along else None
        self.lanes = emit.target.lanes if self.axis is not None else 1
        varying: set[SSAValue] = {
            v
            for v, a in zip(op.body.block.args, reads, strict=True)
            if self.axis is not None and a.strides[self.axis] != 0
        }
        self.code = RegionCode(emit, op.body.block, varying, self.axis, op.term)
        self.across, self.along = across, along
        self.unrolled = across and has_few_taps(op, self.kept)
        self.folds_together = along and folds_together(op, self.kept, self.lanes)
        self.sharing = 1
        if across and not self.ordered:
            self.sharing = rows_together(emit.target, op, self.kept, self.unrolled)
        windows = self.unrolled and self.sharing > 1
        self.together = vectors_together(emit.target) if windows else TOGETHER

    def run(self, listed: Pointer | None) -> None:
        """Write them: of all rows, or of those that are listed."""
        shared = self.shared_columns() if self.folds_together else None
        if shared is None:
            self._over_rows(listed)
        else:
            shared.run(self.ins, self.out, lambda: self._over_rows(listed))

    def shared_columns(self) -> SharedColumns | None:
        """How rows that meet the same columns go through these, if they do."""
        return SharedColumns.of(self.emit, self.op, self.folding)

    def _over_rows(self, listed: Pointer | None) -> None:
        """Rows by themselves, or some at a time where they share what they read."""
        emit, dims, listing = self.emit, self.op.dims, self.op.some_rows
        outer = dims[: self.kept - 1] if self.across else dims[: self.kept]
        if self.folds_together:
            outer, body = outer[:-1], self._neighbours
        else:
            body = self._row if self.across else self._element
        if listing is not None and listed is not None:
            rows = RowList(emit, self.op, outer[: listing.axes], listed)
            rows.nest([emit.dim(d) for d in outer[listing.axes :]], body)
        elif self.sharing > 1:
            self._shared_rows([emit.dim(d) for d in outer[:-1]])
        elif outer or self.across:  # without other axes, threads share the results of a row
            emit.nest([emit.dim(d) for d in outer], body, shared=True)
        else:
            with emit.alone():
                body([])

    def _row(self, indices: list[Value]) -> None:
        """A row of results, one a lane."""
        # An order that is not stated allows all rows at once: the sums stay in registers.
        if not self.ordered or self.kept == len(self.op.dims):
            self._results([indices], None)
            return
        emit, b = self.emit, self.emit.b
        size = emit.dim(self.op.dims[self.kept])
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
        """Rows of results, some at a time that read the same, then single ones."""
        emit, b = self.emit, self.emit.b
        size = self.op.dims[self.kept - 2]
        full, rest = emit.divided(size, self.sharing)
        left = int(size) % self.sharing if self.unrolled and size.is_static else None

        def block(indices: list[Value]) -> None:
            rows(indices[:-1], b.mul(indices[-1], I64(self.sharing)), self.sharing)

        def single(indices: list[Value]) -> None:
            rows(indices[:-1], b.add(b.mul(full, I64(self.sharing)), indices[-1]), 1)

        def last(indices: list[Value], count: int) -> None:
            rows(indices[:-1], b.mul(full, I64(self.sharing)), count)

        def rows(outer: list[Value], first: Value, count: int) -> None:
            numbers = [b.add(first, I64(r)) for r in range(count)]
            self._results([[*outer, number] for number in numbers], None)

        emit.nest([*outer, full], block, shared=True)
        if left is None:
            emit.nest([*outer, rest], single, shared=True)
        elif left:
            emit.nest([*outer, I64(1)], lambda indices: last(indices, left), shared=True)

    def _results(self, rows: list[list[Value]], part: Part | None) -> None:
        """Rows of results, a few vectors at a time, then single ones; `part`: a chunk's rows."""
        emit, b, lanes = self.emit, self.emit.b, self.lanes
        size, width = self.op.dims[self.kept - 1], lanes * self.together
        full, rest = emit.divided(size, width)

        def panels(done: Value, vectors: int) -> Callable[[Value, list[Value]], list[Value]]:
            def panel(i: Value, carried: list[Value]) -> list[Value]:
                start = b.add(done, b.mul(i, I64(vectors * lanes)))
                self._result(side_by_side(emit, rows, start, vectors), part)
                return []

            return panel

        def last() -> None:
            if self.unrolled and size.is_static:
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
                self._result(side_by_side(emit, rows, b.add(done, start), 1, mask), part)

            emit.in_vectors(left, lanes, vector)

        if rows[0]:
            emit.loop(full, panels(I64(0), self.together))
            last()
        else:
            emit.shared(full, panels(I64(0), self.together), last=last)

    def _rest(self, rows: list[list[Value]], size: int, part: Part | None) -> None:
        """What is left of rows of results of known size, side by side."""
        first = size - size % (self.lanes * self.together)
        starts = range(first, size, self.lanes)
        masks = [self.emit.mask(size - start, self.lanes) for start in starts]
        places = [
            Place([*row, I64(start)], mask, (r, start - first))
            for r, row in enumerate(rows)
            for start, mask in zip(starts, masks, strict=True)
        ]
        if places:
            self._result(places, part)

    def _element(self, indices: list[Value]) -> None:
        self._result([Place(indices)], None)

    def _neighbours(self, indices: list[Value]) -> None:
        """A row of results, as many at a time as a vector holds, then single ones."""
        emit, b, lanes = self.emit, self.emit.b, self.lanes
        full, rest = emit.divided(self.op.dims[self.kept - 1], lanes)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(i, I64(lanes))
            places = [Place([*indices, b.add(first, I64(j))]) for j in range(lanes)]
            totals = [self._start(place, 1, None) for place in places]
            vectors, rest = divmod(int(self.op.dims[-1]), lanes)

            def terms(k: Value, carried: list[Value]) -> list[Value]:
                return self._sum(places, [b.mul(k, I64(lanes))], [], carried)

            totals = emit.loop(I64(vectors), terms, totals)
            if rest:
                masked = [replace(place, mask=emit.first_lanes(rest, lanes)) for place in places]
                totals = self._sum(masked, [I64(vectors * lanes)], [], totals)
            total = fold_together(self.folding, totals)
            emit.store(
                total, self._pointer(self.out, len(self.access) - 1, places[0].indices), lanes
            )
            return []

        def single(i: Value, carried: list[Value]) -> list[Value]:
            self._element([*indices, b.add(b.mul(full, I64(lanes)), i)])
            return []

        emit.loop(full, iteration)
        emit.loop(rest, single)

    def _result(self, places: list[Place], part: Part | None) -> None:
        """Vectors of results at some places, or the `part` of them that a chunk of rows adds."""
        emit, dims = self.emit, self.op.dims[self.kept :]
        lanes = self.lanes if self.across else 1
        outs = [self._pointer(self.out, len(self.access) - 1, place.indices) for place in places]
        totals = [self._start(place, lanes, part) for place in places]
        if self.unrolled and part is None:
            totals = self._sum_taps(places, totals)
        elif part is None:
            totals = self._sum(places, [], dims, totals)
        else:
            totals = self._sum_rows(places, part, totals)
        if self.along:
            totals = [fold(self.folding, total, self.lanes) for total in totals]
        for total, out, place in zip(totals, outs, places, strict=True):
            emit.store(total, out, lanes, place.mask)

    def _start(self, place: Place, lanes: int, part: Part | None) -> Value:
        """What results start at: in later chunks of rows, what the earlier ones left."""
        emit, b, number = self.emit, self.emit.b, len(self.access) - 1
        out, mask = self._pointer(self.out, number, place.indices), place.mask
        init = None if self.init is None else self._pointer(self.init, number, place.indices)
        if part is None:
            return (
                self.folding.initial(self.lanes) if init is None else emit.load(init, lanes, mask)
            )
        fresh = b.icmp_signed("==", part[0], I64(0))
        if init is None:
            return b.select(fresh, self.folding.initial(self.lanes), emit.load(out, lanes, mask))
        # One load from a chosen place: with two loads the one that is not taken would be run, too.
        return emit.load(replace(out, base=b.select(fresh, init.base, out.base)), lanes, mask)

    def _sum_rows(self, places: list[Place], part: Part, totals: list[Value]) -> list[Value]:
        """A chunk of the outermost reduced axis."""
        b, dims = self.emit.b, self.op.dims[self.kept :]
        first, count = part

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            k = self._counted(b.add(first, i), self.emit.dim(dims[0]))
            return self._sum(places, [k], dims[1:], carried)

        return self.emit.loop(count, iteration, totals)

    def _counted(self, i: Value, size: Value) -> Value:
        """The i-th index in the order of the sum."""
        b = self.emit.b
        return b.sub(b.sub(size, I64(1)), i) if self.down else i

    def _sum(
        self,
        places: list[Place],
        reduced: list[Value],
        dims: Sequence[Dim],
        totals: list[Value],
    ) -> list[Value]:
        """Loops over the reduced axes, outermost first."""
        emit = self.emit
        if not dims:
            return [
                self._combine(total, self.term(p, reduced), p.mask)
                for total, p in zip(totals, places, strict=True)
            ]
        size = emit.dim(dims[0])
        if self.along and len(dims) == 1:
            return self._sum_lanes(places, reduced, size, totals)
        if self.unrolled:
            for i in range(int(dims[0])):
                k = self._counted(I64(i), size)
                totals = self._sum(places, [*reduced, k], dims[1:], totals)
            return totals

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            return self._sum(places, [*reduced, self._counted(i, size)], dims[1:], carried)

        return emit.loop(size, iteration, totals)

    def _sum_taps(self, places: list[Place], totals: list[Value]) -> list[Value]:
        """All taps of a window, one by one."""
        axis, taps = self.axis, [range(int(d)) for d in self.op.dims[self.kept :]]
        assert axis is not None
        at = [*places[0].indices, *(I64(0) for _ in taps)]
        bases = [self._pointer(p, i, at) for i, p in enumerate(self.ins)]
        terms = WindowTerms(self.emit, self.op, self.code, axis, bases, at)
        outer, own = [0] * (self.kept - 2), min(self.kept, 2)
        results = [Result((*outer, *p.shift[2 - own :]), p.mask) for p in places]
        # Largest and smallest values do not depend on the order: neighbours share parts of windows.
        if self.op.kind.data != "sum" and len(taps) == 2 and not indexed_axes(self.op):
            return terms.extrema(results, taps[0], taps[1], totals, self._combine)
        for tap in product(*(reversed(t) if self.down else t for t in taps)):
            for number, result in enumerate(results):
                term = terms.term(result, tap)
                totals[number] = self._combine(totals[number], term, result.mask)
        return totals

    def _sum_lanes(
        self, places: list[Place], reduced: list[Value], size: Value, totals: list[Value]
    ) -> list[Value]:
        """The last reduced axis, several terms at a time; then the rest, masked."""

        def terms(start: Value, mask: Value | None, carried: list[Value]) -> list[Value]:
            here = places if mask is None else [replace(place, mask=mask) for place in places]
            return self._sum(here, [*reduced, start], [], carried)

        streams = streams_of(self.folding.kind, self.op.dims[-1], self.lanes)
        return folded_along(self.emit, self.folding, (size, self.lanes, streams), totals, terms)

    def term(self, place: Place, reduced: list[Value]) -> list[Value]:
        """What a point adds: one value, or the factors of a product."""
        emit, indices = self.emit, [*place.indices, *reduced]
        known: dict[SSAValue, Value] = {}
        scalars: dict[SSAValue, Value] = {}
        for i, value in enumerate(self.op.body.block.args):
            pointer = self._read(i, place, reduced)
            if value in self.code.varying:
                known[value] = emit.spaced(pointer, self._step(i), self.lanes, place.mask)
            else:
                scalars[value] = emit.load(pointer)

        def scalar_index(axis: int) -> Value:
            return indices[axis]

        def index(axis: int) -> Value:
            if axis == self.axis:
                return emit.lane_numbers(indices[axis], self.lanes)
            return emit.splat(indices[axis], self.lanes)

        scalars = self.code.invariants(scalars, scalar_index)
        return self.code.vectors(scalars, known, index, self.lanes)

    def _step(self, number: int) -> int:
        """From lane to lane of an input."""
        return 1 if self.axis is None else int(self.access[number].strides[self.axis])

    def _read(self, number: int, place: Place, reduced: list[Value]) -> Pointer:
        """Where an input is read: from what neighbours read, by a distance that is known before
        the loop, so that one register of it leads to all of them."""
        emit, strides = self.emit, self.access[number].strides
        at = self._pointer(self.ins[number], number, [*(place.origin or place.indices), *reduced])
        if place.origin is None:
            return at
        for axis, by in zip((self.kept - 2, self.kept - 1), place.shift, strict=True):
            if by and strides[axis] != 0:
                at = emit.at(at, emit.b.mul(I64(by), emit.dim(strides[axis])))
        return at

    def _pointer(self, pointer: Pointer, number: int, indices: list[Value]) -> Pointer:
        emit, access = self.emit, self.access[number]
        first = emit.at(pointer, emit.dim(access.offset))
        return emit.along(first, access.strides, indices)

    def _combine(self, total: Value, term: Sequence[Value], mask: Value | None) -> Value:
        """One more term; along the reduced axis masked-off lanes keep what they have."""
        new = self.folding.added(total, term, self.lanes)
        return new if mask is None or not self.along else self.emit.b.select(mask, new, total)
