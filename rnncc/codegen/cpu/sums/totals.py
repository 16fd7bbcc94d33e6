"""What results of `kern.reduce` are: the terms of each, folded in one fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit, Part
from rnncc.codegen.cpu.sums.shared_rows import ResultIndices, has_few_taps
from rnncc.codegen.cpu.sums.streams import folded_along, streams_of
from rnncc.codegen.cpu.sums.window_terms import ResultVector, WindowTerms
from rnncc.codegen.llvm.nest import indexed_axes
from rnncc.codegen.llvm.reductions import Folding, Lanes, fold, lanes_of
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Reduce


class Totals:
    """Writes code for results at some places.

    Lanes run along the last axis that is kept, where memory is dense along it, and each sums by
    itself; else along the last reduced axis, and are added up in the end; else there is one.
    """

    def __init__(
        self, emit: CpuEmit, op: Reduce, ins: list[Pointer], out: Pointer, init: Pointer | None
    ) -> None:
        self.emit, self.op, self.ins, self.out, self.init = emit, op, ins, out, init
        self.kept = len(op.dims) - op.reduced.data
        self.folding = Folding.of(emit, op)
        self.access = [*op.in_accesses, *op.out_accesses]
        reads, lanes = self.access[:-1], lanes_of(op)
        across, along = lanes is Lanes.ACROSS, lanes is Lanes.ALONG
        self.down = op.order.data == "down"
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

    def add(self, places: list[ResultIndices], part: Part | None) -> None:
        """Vectors of results at some places, or the `part` of them that a chunk of rows adds."""
        emit, dims = self.emit, self.op.dims[self.kept :]
        lanes = self.lanes if self.across else 1
        outs = [self.result_at(place.indices) for place in places]
        totals = [self.start(place, lanes, part) for place in places]
        if self.unrolled and part is None:
            totals = self._sum_taps(places, totals)
        elif part is None:
            totals = self.sum(places, [], dims, totals)
        else:
            totals = self._sum_rows(places, part, totals)
        if self.along:
            totals = [fold(self.folding, total, self.lanes) for total in totals]
        totals = self.finished(totals, places)
        for total, out, place in zip(totals, outs, places, strict=True):
            emit.store(total, out, lanes, place.mask)

    def finished(self, totals: list[Value], places: Sequence[ResultIndices]) -> list[Value]:
        """What is stored of vectors of totals."""
        return totals

    def start(self, place: ResultIndices, lanes: int, part: Part | None) -> Value:
        """What results start at: in later chunks of rows, what the earlier ones left."""
        emit, b = self.emit, self.emit.b
        out, mask = self.result_at(place.indices), place.mask
        init = None if self.init is None else self._pointer(self.init, -1, place.indices)
        if part is None:
            return (
                self.folding.initial(self.lanes) if init is None else emit.load(init, lanes, mask)
            )
        fresh = b.icmp_signed("==", part[0], I64(0))
        if init is None:
            return b.select(fresh, self.folding.initial(self.lanes), emit.load(out, lanes, mask))
        # One load from a chosen place: with two loads the one that is not taken would be run, too.
        return emit.load(replace(out, base=b.select(fresh, init.base, out.base)), lanes, mask)

    def _sum_rows(
        self, places: list[ResultIndices], part: Part, totals: list[Value]
    ) -> list[Value]:
        """A chunk of the outermost reduced axis."""
        b, dims = self.emit.b, self.op.dims[self.kept :]
        first, count = part

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            k = self._counted(b.add(first, i), self.emit.dim(dims[0]))
            return self.sum(places, [k], dims[1:], carried)

        return self.emit.loop(count, iteration, totals)

    def _counted(self, i: Value, size: Value) -> Value:
        """The i-th index in the order of the sum."""
        b = self.emit.b
        return b.sub(b.sub(size, I64(1)), i) if self.down else i

    def sum(
        self,
        places: list[ResultIndices],
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
                totals = self.sum(places, [*reduced, k], dims[1:], totals)
            return totals

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            return self.sum(places, [*reduced, self._counted(i, size)], dims[1:], carried)

        return emit.loop(size, iteration, totals)

    def _sum_taps(self, places: list[ResultIndices], totals: list[Value]) -> list[Value]:
        """All taps of a window, one by one."""
        axis, taps = self.axis, [range(int(d)) for d in self.op.dims[self.kept :]]
        assert axis is not None
        at = [*places[0].indices, *(I64(0) for _ in taps)]
        bases = [self._pointer(p, i, at) for i, p in enumerate(self.ins)]
        outer, own = [0] * (self.kept - 2), min(self.kept, 2)
        results = [ResultVector((*outer, *p.shift[2 - own :]), p.mask) for p in places]
        order = list(product(*(reversed(t) if self.down else t for t in taps)))
        terms = WindowTerms(self.emit, self.op, self.code, axis, bases, at, results, order)
        # Largest and smallest values do not depend on the order: neighbours share parts of windows.
        if self.op.kind.data != "sum" and len(taps) == 2 and not indexed_axes(self.op):
            return terms.extrema(results, taps[0], taps[1], totals, self._combine)
        for number, tap in terms.in_order(results):
            mask = results[number].mask
            totals[number] = self._combine(totals[number], terms.term(results[number], tap), mask)
        return totals

    def _sum_lanes(
        self, places: list[ResultIndices], reduced: list[Value], size: Value, totals: list[Value]
    ) -> list[Value]:
        """The last reduced axis, several terms at a time; then the rest, masked."""

        def terms(start: Value, mask: Value | None, carried: list[Value]) -> list[Value]:
            here = places if mask is None else [replace(place, mask=mask) for place in places]
            return self.sum(here, [*reduced, start], [], carried)

        streams = streams_of(self.folding.kind, self.op.dims[-1], self.lanes)
        return folded_along(self.emit, self.folding, (size, self.lanes, streams), totals, terms)

    def term(self, place: ResultIndices, reduced: list[Value]) -> list[Value]:
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

    def _read(self, number: int, place: ResultIndices, reduced: list[Value]) -> Pointer:
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

    def result_at(self, indices: list[Value]) -> Pointer:
        """Where a result lies."""
        return self._pointer(self.out, -1, indices)

    def _pointer(self, pointer: Pointer, number: int, indices: list[Value]) -> Pointer:
        emit, access = self.emit, self.access[number]
        first = emit.at(pointer, emit.dim(access.offset))
        return emit.along(first, access.strides, indices)

    def _combine(self, total: Value, term: Sequence[Value], mask: Value | None) -> Value:
        """One more term; along the reduced axis masked-off lanes keep what they have."""
        new = self.folding.added(total, term, self.lanes)
        return new if mask is None or not self.along else self.emit.b.select(mask, new, total)
