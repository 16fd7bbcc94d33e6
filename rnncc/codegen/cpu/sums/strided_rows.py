"""Elements of rows some apart, such as windows of stride 2 read: out of vectors of neighbours that
several terms share, each of which is loaded once."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer, Value, selection
from rnncc.ir.dims import Dim

Shift = Sequence[int]


class StridedRows:
    """What results of a block read of one input, row by row.

    Args:
        base: where the first term of the first result reads.
        strides: of the input, along the domain's axes.
        axis: that the lanes run along.
        kept: how many axes results have.
        reads: how far results and their taps are from the first ones, and how many lanes count.
    """

    def __init__(
        self,
        emit: CpuEmit,
        base: Pointer,
        strides: Sequence[int],
        axis: int,
        kept: int,
        reads: Sequence[tuple[Shift, int]],
    ) -> None:
        self.emit, self.base, self.step = emit, base, strides[axis]
        self.lanes = emit.target.lanes
        self.strides, near = strides, [axis]
        near += [a for a in range(kept, len(strides)) if 0 < strides[a] < self.lanes]
        self.far = [a for a in range(len(strides)) if a not in near]
        self._spans = dict[int, tuple[int, int]]()
        self._parts = dict[tuple[int, int], Value]()
        for shift, count in reads:
            first = self._place(shift)
            last = first + (count - 1) * self.step
            row = self.row(shift)
            low, high = self._spans.get(row, (first, last))
            self._spans[row] = min(low, first), max(high, last)

    @staticmethod
    def of(
        emit: CpuEmit,
        base: Pointer,
        strides: Sequence[Dim],
        axis: int,
        kept: int,
        reads: Sequence[tuple[Shift, int | None]],
    ) -> StridedRows | None:
        """None where elements are neighbours, a stride or a number of lanes is open, or vectors of
        neighbours are as many as there are without."""
        counted = [(shift, count) for shift, count in reads if count is not None]
        if len(counted) < len(reads) or not all(s.is_static and int(s) >= 0 for s in strides):
            return None
        if int(strides[axis]) < 2:
            return None
        rows = StridedRows(emit, base, [int(s) for s in strides], axis, kept, counted)
        apart = {(rows.row(shift), rows._place(shift)) for shift, _ in counted}
        whole = sum(-(-(high - low + 1) // rows.lanes) for low, high in rows._spans.values())
        return rows if whole < len(apart) * rows.step else None

    def row(self, shift: Shift) -> int:
        """How far a row is from the first one."""
        return sum(self.strides[a] * shift[a] for a in self.far)

    def load(self, shift: Shift, count: int) -> Value:
        """The elements of a result's lanes for a tap; those that do not count are any."""
        row, step, lanes = self.row(shift), self.step, self.lanes
        first = self._place(shift) - self._spans[row][0]
        # Lanes that do not count read the first place: their own may lie past what is loaded.
        places = [first + (i if i < count else 0) * step for i in range(lanes)]
        number, last = first // lanes, max(places) // lanes
        taken = [place - number * lanes for place in places]
        two = self._part(row, number), self._part(row, min(number + 1, last))
        # A shuffle takes two vectors: lanes of later ones take any element here, theirs below.
        chosen = [place if place < 2 * lanes else 0 for place in taken]
        value = self.emit.b.shuffle_vector(*two, selection(*chosen))
        for part in range(2, last - number + 1):
            chosen = [
                lanes + place % lanes if place // lanes == part else lane
                for lane, place in enumerate(taken)
            ]
            value = self.emit.b.shuffle_vector(
                value, self._part(row, number + part), selection(*chosen)
            )
        return value

    def _place(self, shift: Shift) -> int:
        """How far an element is from the first one of its row."""
        whole = sum(stride * by for stride, by in zip(self.strides, shift, strict=True))
        return whole - self.row(shift)

    def _part(self, row: int, number: int) -> Value:
        """A vector of neighbours: what is between two elements that are read is there, too."""
        key = row, number
        if key not in self._parts:
            low, high = self._spans[row]
            ahead = number * self.lanes
            mask = self.emit.mask(high - low + 1 - ahead, self.lanes)
            at = self.emit.at(self.base, I64(row + low + ahead))
            self._parts[key] = self.emit.load(at, self.lanes, mask)
        return self._parts[key]


def count_of(mask: Value | None, lanes: int) -> int | None:
    """How many lanes a mask of the first ones leaves; None where the call decides."""
    if mask is None:
        return lanes
    return sum(on.constant for on in mask.constant) if isinstance(mask, ir.Constant) else None
