"""Terms of neighbouring results over a window of known taps, such as those of a depthwise
convolution or a pool: an element that several terms read is loaded once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access


class WindowTerms:
    """Writes terms, given how far they are from the first one of a block of results.

    Args:
        axis: that the lanes run along.
        bases: where the first term of the first result reads each input.
        indices: of that term.
    """

    def __init__(
        self,
        emit: CpuEmit,
        accesses: Sequence[Access],
        code: RegionCode,
        axis: int,
        bases: Sequence[Pointer],
        indices: Sequence[Value],
    ) -> None:
        self.emit, self.accesses, self.code, self.axis = emit, accesses, code, axis
        self.bases, self.indices, self.lanes = bases, indices, emit.target.lanes
        self._loaded = dict[tuple[int, Dim, int], Value]()

    def term(
        self, arguments: Sequence[SSAValue], shift: Sequence[int], mask: Value | None
    ) -> Value:
        """The term so many elements further along each axis of the domain."""
        emit = self.emit
        known, scalars = dict[SSAValue, Value](), dict[SSAValue, Value]()
        for number, argument in enumerate(arguments):
            place = known if argument in self.code.varying else scalars
            place[argument] = self._load(number, argument in self.code.varying, shift, mask)

        def scalar_index(axis: int) -> Value:
            return emit.b.add(self.indices[axis], I64(shift[axis]))

        def index(axis: int) -> Value:
            if axis == self.axis:
                return emit.lane_numbers(scalar_index(axis), self.lanes)
            return emit.splat(scalar_index(axis), self.lanes)

        scalars = self.code.invariants(scalars, scalar_index)
        return self.code.vectors(scalars, known, index, self.lanes)[0]

    def _load(self, number: int, varies: bool, shift: Sequence[int], mask: Value | None) -> Value:
        strides = self.accesses[number].strides
        ahead = sum((s * by for s, by in zip(strides, shift, strict=True)), Dim.of(0))
        # Vectors of one place along the lanes have one mask.
        key = number, ahead, shift[self.axis]
        if key not in self._loaded:
            emit, step = self.emit, int(strides[self.axis]) if varies else 0
            at = emit.at(self.bases[number], emit.dim(ahead))
            self._loaded[key] = emit.spaced(at, step, self.lanes, mask) if varies else emit.load(at)
        return self._loaded[key]
