"""When each buffer is alive: the first and last position at which its memory must be its own.

A buffer whose every read in a turn of a loop finds what that same turn wrote lives only inside
the turn; any other is alive for the whole of the loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rnncc.ir.dims import Dim
from rnncc.ir.kern import Buffer, For
from rnncc.ir.ops.base import get_dim
from rnncc.planning.uses import Footprint, Timeline, Use


@dataclass(frozen=True)
class Lifetime:
    """Positions, both ends included."""

    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last

    def joined(self, other: Lifetime) -> Lifetime:
        """The shortest lifetime that holds both."""
        return Lifetime(min(self.first, other.first), max(self.last, other.last))


def lifetimes(line: Timeline) -> dict[Buffer, Lifetime]:
    """The lifetime of every buffer that is used at all."""
    return {buffer: _lifetime(uses, line.spans) for buffer, uses in line.uses.items()}


def _lifetime(uses: Sequence[Use], spans: dict[For, tuple[int, int]]) -> Lifetime:
    """Within the innermost loop whose turns hand nothing of the buffer on to the next."""
    depth = min(_shared(uses[0].loops, use.loops) for use in uses)
    while depth and not _turns_are_independent(uses, depth):
        depth -= 1
    extents = [_extent(use, depth, spans) for use in uses]
    return Lifetime(min(first for first, _ in extents), max(last for _, last in extents))


def _shared(a: Sequence[For], b: Sequence[For]) -> int:
    """How many loops two ops have around both of them."""
    same = [x is y for x, y in zip(a, b, strict=False)]
    return same.index(False) if False in same else len(same)


def _extent(use: Use, depth: int, spans: dict[For, tuple[int, int]]) -> tuple[int, int]:
    """The positions of a use, seen from inside `depth` loops: a loop further in counts whole."""
    return (use.position, use.position) if len(use.loops) == depth else spans[use.loops[depth]]


def _turns_are_independent(uses: Sequence[Use], depth: int) -> bool:
    """Whether each read finds only what was written in its own turn of the loop at `depth`."""
    writes = [use for use in uses if use.writes]
    return all(use.writes or _is_covered(use, writes, depth) for use in uses)


def _is_covered(read: Use, writes: Sequence[Use], depth: int) -> bool:
    """Whether earlier writes of the same turn, of one loop or another around, fill the read."""
    for level in range(depth, len(read.loops) + 1):
        earlier = [
            _range(w, level)
            for w in writes
            if w.position < read.position and _shared(w.loops, read.loops) == level
        ]
        filled = [r for r in earlier if r is not None and r.gapless]
        wanted = _range(read, level)
        if wanted is not None and _fills(filled, wanted):
            return True
    return False


@dataclass(frozen=True)
class _Range:
    """Elements from `start` below `end`; whether all of them, once each."""

    start: Dim
    end: Dim
    gapless: bool


def _fills(written: Sequence[_Range], wanted: _Range) -> bool:
    """Whether ranges, laid end to end in any order, cover the wanted one at every size."""
    reach, left = wanted.start, list(written)
    while not _at_most(wanted.end, reach):
        following = [r for r in left if _at_most(r.start, reach) and _at_most(reach, r.end)]
        if not following:
            return False
        left.remove(following[0])
        reach = following[0].end
    return True


def _at_most(a: Dim, b: Dim) -> bool:
    """Whether a ≤ b for sure, every symbol being zero or more."""
    return all(factor >= 0 for _, factor in (b - a).terms)


def _range(use: Use, level: int) -> _Range | None:
    """The elements of a use over all turns of its loops beyond `level`; None where not known."""
    footprint = use.footprint
    for loop in reversed(use.loops[level:]):
        if footprint is None:
            return None
        footprint = _over_turns(footprint, loop)
    if footprint is None or any(not _at_most(Dim.of(0), s) for _, s in footprint.axes):
        return None
    end = footprint.offset + 1
    for size, stride in footprint.axes:
        end = end + (size - 1) * stride
    return _Range(footprint.offset, end, _is_gapless(footprint))


def _over_turns(footprint: Footprint, loop: For) -> Footprint | None:
    """The elements of all turns together: the loop's index becomes an axis."""
    names = {loop.index.data} | ({loop.extent.data} if loop.extent is not None else set[str]())
    if any(names & (size.symbols | stride.symbols) for size, stride in footprint.axes):
        return None
    if not names & footprint.offset.symbols:
        return footprint
    if loop.chunk is not None:
        return None
    index, start = loop.index.data, get_dim(loop.start)
    first, second, third = (footprint.offset.substitute({index: start + i}) for i in range(3))
    if third - second != second - first:
        return None
    return Footprint(first, (*footprint.axes, (get_dim(loop.count), second - first)))


def _is_gapless(footprint: Footprint) -> bool:
    """Whether the axes nest without gaps: each strides over all that the ones inside it span."""
    span, left = Dim.of(1), list(footprint.axes)
    while left:
        inner = next((axis for axis in left if axis[1] == span), None)
        if inner is None:
            return False
        left.remove(inner)
        span = span * inner[0]
    return True
