"""Offsets for blocks of memory whose sizes are formulas and whose lifetimes are known.

A block lies on those below it, whichever of them ends highest, so an offset is the largest of
several formulas, and blocks alive at once never overlap, whatever the symbols' values. A formula
is held as one coefficient a monomial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import add, le

import numpy as np

from rnncc.ir.dims import Dim
from rnncc.ir.monomials import Monomial
from rnncc.kern.largest import Largest
from rnncc.planning.lifetimes import Lifetime
from rnncc.planning.order import (
    Floats,
    Layers,
    Order,
    best_order,
    least_heights,
    reference,
)
from rnncc.platforms import LINE
from rnncc.records import record

Vector = tuple[int, ...]

LITTLE = 4
"""Coefficients of so many lines are rounded up to lines: that adds less than a quarter."""
NONE, COARSE, ALL = range(3)
"""Starts at lines: nowhere, where that adds little to a coefficient, for constants too."""
COSTLY = 1.02
"""Starts at lines may take at most so many times the memory that would do without."""
FORMULAS = 24
"""The most formulas that an offset is the largest of: the header spells the workspace's out, and
each block above starts from all of them."""
SLACK, SLACK_OF_ALL = 0.0005, 0.005
"""Memory that may be given up for one formula less, as a part of the least: in an offset, on which
others add up, less than in the size of all."""


@record
class PlannedBlock:
    """Bytes, when they must be the block's own, and how many each of its elements takes."""

    size: Dim
    lifetime: Lifetime
    item: int


def place(blocks: Sequence[PlannedBlock]) -> tuple[list[Largest], Largest]:
    """An offset for each block, and the bytes that all of them take.

    Each starts at a multiple of its elements' size; one whose rows fill lines of the cache at a
    line, unless that costs more than a little.
    """
    if not blocks:
        return [], Largest()
    used = {m for block in blocks for m, _ in block.size.terms}
    monomials = sorted(used, key=lambda m: (-len(m), m))
    stack = _Stack(blocks, monomials)
    lifetimes = [b.lifetime for b in blocks]
    # The order is found with numbers, at some sizes of reference; the offsets are formulas that
    # hold at all sizes.
    order, heights = best_order(lifetimes, stack.at_reference, stack.wishes())
    starts, top = stack.of(order, ALL)
    for care in (COARSE, NONE):  # less alignment, while it costs too much
        if (stack.heights(top) <= COSTLY * heights).all():
            break
        starts, top = stack.of(order, care)
    return [_largest(monomials, start) for start in starts], _largest(monomials, top)


class _Stack:
    """Blocks to be stacked, with all that is the same for every order."""

    def __init__(self, blocks: Sequence[PlannedBlock], monomials: Sequence[Monomial]) -> None:
        self.monomials = monomials
        self.sizes = [tuple(max(b.size.coefficient(m), 0) for m in monomials) for b in blocks]
        self.grains = [(b.item, LINE if _fills_lines(b.size) else b.item) for b in blocks]
        self.lives = np.array([(b.lifetime.first, b.lifetime.last) for b in blocks])
        symbols = sorted({symbol for block in blocks for symbol in block.size.symbols})
        values = reference(symbols)
        scales = [[Dim([(m, 1)]).evaluate(v) for v in values] for m in monomials]
        self.scales = np.array(scales, float).reshape(len(monomials), len(values))
        self.at_reference = np.array(self.sizes, float) @ self.scales
        self.least = least_heights([b.lifetime for b in blocks], self.at_reference)

    def wishes(self) -> list[Layers]:
        """What starts at lines lies below what does not, or at least coarse grain below fine.

        Else a start would be rounded up in each of its coefficients.
        """
        return [[-preferred for _, preferred in self.grains], [-item for item, _ in self.grains]]

    def heights(self, top: Sequence[Vector]) -> Floats:
        """A stack's height at each of the sizes of reference."""
        return (np.array(top, float) @ self.scales).max(axis=0)

    def of(self, order: Order, care: int) -> tuple[list[Sequence[Vector]], Sequence[Vector]]:
        """The starts in the blocks' own order, and the whole stack's height."""
        starts: list[Sequence[Vector]] = [()] * len(order)
        ends: list[Sequence[Vector]] = [()] * len(order)
        for i, supports in zip(order, self._supports(order), strict=True):
            below = {v for j in supports for v in ends[j]}
            below = {self._aligned(v, i, care) for v in below}
            starts[i] = self._fewer(below or {(0,) * len(self.sizes[i])}, SLACK)
            ends[i] = [_sum(start, self.sizes[i]) for start in starts[i]]
        return starts, self._fewer({v for end in ends for v in end}, SLACK_OF_ALL)

    def _supports(self, order: Order) -> Iterator[Sequence[int]]:
        """In order, the blocks on which each lies directly: not those under others of them."""
        first, last = self.lives[list(order)].T
        under: list[int] = []  # sets of places, a bit each: all that are below, through others too
        for place in range(len(order)):
            meets = (first[:place] <= last[place]) & (last[:place] >= first[place])
            near = int.from_bytes(np.packbits(meets, bitorder="little").tobytes(), "little")
            supports, below = list[int](), 0
            # From the top down: what lies under a block that is found already needs no formula of
            # its own.
            while left := near & ~below:
                top = left.bit_length() - 1
                supports.append(order[top])
                below |= under[top] | 1 << top
            under.append(below)
            yield supports

    def _aligned(self, start: Vector, i: int, care: int) -> Vector:
        """Up to a multiple of the preferred grain where that is cheap enough, else of the least."""
        least, preferred = self.grains[i]
        cheap = {NONE: inf, COARSE: preferred * LITTLE, ALL: preferred * LITTLE}[care]
        pairs = zip(self.monomials, start, strict=True)
        return tuple(
            _up(c, preferred if c >= cheap or (care == ALL and not monomial) else least)
            for monomial, c in pairs
        )

    def _fewer(self, heights: Iterable[Vector], slack: float) -> Sequence[Vector]:
        """Those that may be the highest; pairs are joined where that costs next to nothing.

        Of too many those are joined for which it costs least.
        """
        candidates = _highest(heights)
        while len(candidates) > 1:
            vectors = np.array(candidates, float)
            joined = np.maximum(vectors[:, None], vectors) @ self.scales
            costs = ((joined - (vectors @ self.scales).max(axis=0)) / self.least).max(axis=-1)
            costs[np.diag_indices_from(costs)] = np.inf
            i, j = divmod(int(costs.argmin()), len(candidates))
            if len(candidates) <= FORMULAS and costs[i, j] > slack:
                break
            pair = (candidates[i], candidates[j])
            candidates = _highest([_join(*pair), *(v for v in candidates if v not in pair)])
        return candidates


def _fills_lines(size: Dim) -> bool:
    """Whether all rows do, whatever is added to them."""
    return all(factor % LINE == 0 for monomial, factor in size.terms if monomial)


def _highest(heights: Iterable[Vector]) -> list[Vector]:
    """The maximal heights: those that no other exceeds in every coefficient."""
    highest: list[Vector] = []
    for height in sorted(set(heights), key=lambda v: (sum(v), v), reverse=True):
        # Coefficients and sizes are never negative: a formula with no larger coefficient is nowhere
        # the largest.
        if not any(_below(height, other) for other in highest):
            highest.append(height)
    return highest


def _below(a: Vector, b: Vector) -> bool:
    return all(map(le, a, b))


def _sum(a: Vector, b: Vector) -> Vector:
    return tuple(map(add, a, b))


def _join(a: Vector, b: Vector) -> Vector:
    return tuple(map(max, a, b))


def _up(value: int, grain: int) -> int:
    return -(-value // grain) * grain


def _largest(monomials: Sequence[Monomial], heights: Sequence[Vector]) -> Largest:
    return Largest(Dim(zip(monomials, height, strict=True)) for height in heights)
