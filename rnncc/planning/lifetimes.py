"""When each buffer is alive: the first and last position at which its memory must be its own.

A buffer whose every read in an iteration of a loop finds what that same iteration wrote lives only
inside the iteration; any other is alive for the whole of the loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.kern.dialect import Buffer, For
from rnncc.planning.footprint import Footprint, covered
from rnncc.planning.uses import Timeline, Use
from rnncc.records import record


@record
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
    """Within the innermost loop whose iterations hand nothing of the buffer on to the next."""
    depth = min(_shared(uses[0].loops, use.loops) for use in uses)
    # Where an iteration reads what an earlier one wrote, the memory must stay its own through the
    # whole loop.
    while depth and not _iterations_are_independent(uses, depth):
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


def _iterations_are_independent(uses: Sequence[Use], depth: int) -> bool:
    """Whether each read finds only what was written in its own iteration of the loop at `depth`."""
    writes = [use for use in uses if use.writes]
    return all(use.writes or _is_covered(use, writes, depth) for use in uses)


def _is_covered(read: Use, writes: Sequence[Use], depth: int) -> bool:
    """Whether earlier writes of the same iteration, of any loop around, fill the read."""
    for level in range(depth, len(read.loops) + 1):
        earlier = [
            _footprint(write, level)
            for write in writes
            if write.position < read.position and _shared(write.loops, read.loops) == level
        ]
        needed = _footprint(read, level)
        if needed is not None and covered(needed, [w for w in earlier if w is not None]):
            return True
    return False


def _footprint(use: Use, level: int) -> Footprint | None:
    """The elements of a use over all iterations of its loops beyond `level`; None if unknown."""
    footprint = use.footprint
    for loop in reversed(use.loops[level:]):
        footprint = footprint and footprint.over_iterations(loop)
    return footprint
