"""Which vectors of a panel's sums are added up together, and whose slots they hold.

A panel's units stand side by side, slot behind slot. Where they do not fill their vectors, vectors
run on from slot to slot, so that the four gates of six units are two vectors of sixteen, not four.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import undefined
from rnncc.codegen.llvm.values import I64, Value, selection
from rnncc.records import record


@record
class SumsRun:
    """Vectors of sums that registers hold at a time.

    Attributes:
        offsets: the first units of these vectors, over a panel's slots.
        starts: units of the run where vectors of one slot start; None where all are such vectors.
    """

    offsets: list[Value]
    starts: list[int] | None = None

    @property
    def vectors(self) -> int:
        """Of one slot each."""
        return len(self.offsets if self.starts is None else self.starts)

    def apart(self, b: ir.IRBuilder, sums: list[Value]) -> list[Value]:
        """As vectors of one slot each, whose units are their first lanes; others mean nothing."""
        return sums if self.starts is None else [_from(b, sums, start) for start in self.starts]


def _from(b: ir.IRBuilder, sums: list[Value], start: int) -> Value:
    """The vector that begins in one vector and ends in the next one."""
    lanes = sums[0].type.count
    number, lane = divmod(start, lanes)
    if lane == 0:
        return sums[number]
    after = sums[number + 1] if number + 1 < len(sums) else undefined(sums[0].type)
    return b.shuffle_vector(sums[number], after, selection(*range(lane, lane + lanes)))


def narrow_runs(slots: int, units: int, lanes: int, most: int) -> list[SumsRun] | None:
    """Runs of a panel, of at most so many vectors; None where slot by slot there are no more."""
    together = min(most * lanes // units, slots)
    if together == 0:
        return None
    runs = [
        _run(first * units, min(together, slots - first) * units, units, lanes)
        for first in range(0, slots, together)
    ]
    fewer = sum(len(run.offsets) for run in runs) < slots * -(-units // lanes)
    return runs if fewer else None


def _run(first: int, size: int, units: int, lanes: int) -> SumsRun:
    starts = [s + unit for s in range(0, size, units) for unit in range(0, units, lanes)]
    return SumsRun([I64(first + at) for at in range(0, size, lanes)], starts)
