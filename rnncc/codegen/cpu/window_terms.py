"""Terms of neighbouring results over a window of known taps, such as those of a depthwise
convolution or a pool: an element that several terms read is loaded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Reduce
from rnncc.records import record

Combine = Callable[[Value, Sequence[Value], Value | None], Value]
"""Writes a result with one more term, under a mask."""


@record
class Result:
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
    """

    def __init__(
        self,
        emit: CpuEmit,
        op: Reduce,
        code: RegionCode,
        axis: int,
        bases: Sequence[Pointer],
        indices: Sequence[Value],
    ) -> None:
        self.emit, self.code, self.axis = emit, code, axis
        self.arguments: Sequence[SSAValue] = op.body.block.args
        self.strides = [access.strides for access in op.in_accesses]
        self.bases, self.indices, self.lanes = bases, indices, emit.target.lanes
        self._loaded = dict[tuple[int, Dim, int], Value]()

    def term(self, result: Result, tap: Sequence[int]) -> list[Value]:
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
        results: Sequence[Result],
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
        found = dict[object, Value]()
        totals = list(totals)
        for number, result in enumerate(results):
            for line in lines:
                key = self._places(result, line[0])
                if key not in found:
                    [found[key]], *rest = (self.term(result, tap) for tap in line)
                    for term in rest:
                        found[key] = combine(found[key], term, result.mask)
                totals[number] = combine(totals[number], [found[key]], result.mask)
        return totals

    def _places(self, result: Result, tap: Sequence[int]) -> tuple[object, ...]:
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
            emit, step = self.emit, self.strides[number][self.axis]
            at = emit.at(self.bases[number], emit.dim(ahead))
            self._loaded[key] = (
                emit.spaced(at, int(step), self.lanes, mask) if varies else emit.load(at)
            )
        return self._loaded[key]
