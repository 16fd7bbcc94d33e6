"""Terms of neighbouring results over a window of known taps, such as those of a depthwise
convolution or a pool: an element that several terms read is loaded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.sums.strided_rows import StridedRows, count_of
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Reduce
from rnncc.records import record

Combine = Callable[[Value, Sequence[Value], Value | None], Value]
"""Writes a result with one more term, under a mask."""


@record
class ResultVector:
    """A vector of results: how far it is from the first one of its block along each axis; and which
    lanes count, where not all do."""

    shift: tuple[int, ...]
    mask: Value | None


class WindowTerms:
    """Writes terms of a block of results.

    Args:
        axis: that the lanes run along.
        bases: where the first term of the first result reads each input.
        indices: of that term.
        results, taps: what terms there will be.
    """

    def __init__(
        self,
        emit: CpuEmit,
        op: Reduce,
        code: RegionCode,
        axis: int,
        bases: Sequence[Pointer],
        indices: Sequence[Value],
        results: Sequence[ResultVector],
        taps: Sequence[Sequence[int]],
    ) -> None:
        self.emit, self.code, self.axis = emit, code, axis
        self.arguments: Sequence[SSAValue] = op.body.block.args
        self.strides = [access.strides for access in op.in_accesses]
        self.bases, self.indices, self.lanes = bases, indices, emit.target.lanes
        self._loaded = dict[tuple[int, Dim, int], Value]()
        self.taps = taps
        reads = [((*r.shift, *tap), count_of(r.mask, self.lanes)) for r in results for tap in taps]
        kept = len(op.dims) - op.reduced.data
        self.rows = [
            StridedRows.of(emit, base, strides, axis, kept, reads)
            for base, strides in zip(bases, self.strides, strict=True)
        ]

    def term(self, result: ResultVector, tap: Sequence[int]) -> list[Value]:
        """The term of a tap."""
        emit, shift = self.emit, (*result.shift, *tap)
        known, scalars = dict[SSAValue, Value](), dict[SSAValue, Value]()
        for number, argument in enumerate(self.arguments):
            varies = argument in self.code.varying
            (known if varies else scalars)[argument] = self._load(
                number, varies, shift, result.mask
            )

        def scalar_index(axis: int) -> Value:
            return emit.b.add(self.indices[axis], I64(shift[axis]))

        def index(axis: int) -> Value:
            if axis == self.axis:
                return emit.lane_numbers(scalar_index(axis), self.lanes)
            return emit.splat(scalar_index(axis), self.lanes)

        scalars = self.code.invariants(scalars, scalar_index)
        return self.code.vectors(scalars, known, index, self.lanes)

    def extrema(
        self,
        results: Sequence[ResultVector],
        first: Sequence[int],
        second: Sequence[int],
        totals: Sequence[Value],
        combine: Combine,
    ) -> list[Value]:
        """Of windows of two axes: of each line along one of them once, then of their lines.

        Args:
            first, second: the taps of each axis.
            totals: what results start at.
        """
        rows, columns = (
            [[(i, j) for j in second] for i in first],
            [[(i, j) for i in first] for j in second],
        )
        lines = min(
            (rows, columns),
            key=lambda way: len({self._places(r, line[0]) for r in results for line in way}),
        )
        extrema = dict[object, Value]()
        totals = list(totals)
        for number, result in enumerate(results):
            for line in lines:
                key = self._places(result, line[0])
                if key not in extrema:
                    [extrema[key]], *rest = (self.term(result, tap) for tap in line)
                    for term in rest:
                        extrema[key] = combine(extrema[key], term, result.mask)
                totals[number] = combine(totals[number], [extrema[key]], result.mask)
        return totals

    def _places(self, result: ResultVector, tap: Sequence[int]) -> tuple[object, ...]:
        """Which elements a term reads: equal of equal terms, where none takes an index."""
        shift = (*result.shift, *tap)
        ahead = (self._ahead(number, shift) for number in range(len(self.arguments)))
        return (shift[self.axis], *ahead)

    def _ahead(self, number: int, shift: Sequence[int]) -> Dim:
        pairs = zip(self.strides[number], shift, strict=True)
        return sum((step * by for step, by in pairs), Dim.of(0))

    def _load(self, number: int, varies: bool, shift: Sequence[int], mask: Value | None) -> Value:
        ahead = self._ahead(number, shift)
        # Vectors of one place along the lanes have one mask.
        key = number, ahead, shift[self.axis]
        if key not in self._loaded:
            self._loaded[key] = self._read(number, varies, shift, mask)
        return self._loaded[key]

    def _read(self, number: int, varies: bool, shift: Sequence[int], mask: Value | None) -> Value:
        emit, rows = self.emit, self.rows[number]
        if rows is not None:
            count = count_of(mask, self.lanes)
            assert count is not None
            return rows.load(shift, count)
        at = emit.at(self.bases[number], emit.dim(self._ahead(number, shift)))
        if not varies:
            return emit.load(at)
        return emit.spaced(at, int(self.strides[number][self.axis]), self.lanes, mask)

    def in_order(self, results: Sequence[ResultVector]) -> list[tuple[int, Sequence[int]]]:
        """Results by number and taps, those of each result in the taps' order: row by row of what
        is read in strides, so that each row's vectors are done with before those of the next."""
        pairs = [(number, tap) for tap in self.taps for number in range(len(results))]
        rows = next((rows for rows in self.rows if rows is not None), None)
        if rows is None:
            return pairs

        def row(pair: tuple[int, Sequence[int]]) -> int:
            return rows.row((*results[pair[0]].shift, *pair[1]))

        for number in range(len(results)):
            own = [row(pair) for pair in pairs if pair[0] == number]
            if own != sorted(own):
                return pairs
        return sorted(pairs, key=row)
