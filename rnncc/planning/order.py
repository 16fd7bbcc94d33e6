"""The order in which blocks of memory are stacked, chosen at sizes that nets have.

A block lies on all blocks before it that live when it does. Each order is a layout at every size;
how high it gets is compared with the most bytes alive at once, below which no layout gets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from rnncc.planning.lifetimes import Lifetime
from rnncc.sizes import BATCH, TIME

REFERENCE = (
    *((1, 1, 3), (5, 3, 4), (10, 8, 10), (50, 32, 50)),
    *(
        (20, 1, 20),
        (100, 1, 50),
        (1000, 32, 50),
        (3, 200, 5),
        (16, 24, 9),
        (12, 20, 8),
        (2000, 1, 12),
    ),
)
"""T, N and any other symbol: from one step of one row to large batches, long or short."""
FITTED = 6
"""At so many of them, the first, blocks are fitted into gaps."""
GOOD = 1.005
"""Of the least possible height: no better order is looked for."""
STEP = 0.01
"""What an unfulfilled wish counts as, in parts of the height; after each of the first columns the
aim is lowered by as much."""
MANY = 500
"""Of more blocks, as long unrolled nets have, one order is tried: time grows with the square."""
TRIES = 4
"""Fits by one rule; after each, the blocks that lie too high are placed earlier."""

Order = tuple[int, ...]
Layers = Sequence[int]
"""Of each block a number; no block with more lies below one with less."""
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def reference(symbols: Sequence[str]) -> list[dict[str, int]]:
    """The symbols' values at each of the sizes of reference."""
    return [dict.fromkeys(symbols, other) | {TIME: t, BATCH: n} for t, n, other in REFERENCE]


def _spans(lifetimes: Sequence[Lifetime]) -> list[slice]:
    """When each lives, as places in the list of all positions where a life begins."""
    begins = sorted({x.first for x in lifetimes})
    return [slice(bisect_left(begins, x.first), bisect_right(begins, x.last)) for x in lifetimes]


def least_heights(lifetimes: Sequence[Lifetime], sizes: Floats) -> Floats:
    """The largest sum of sizes alive at one position, for each column of sizes; at least 1."""
    spans = _spans(lifetimes)
    changes = np.zeros((len(sizes) + 1, sizes.shape[1]))
    np.add.at(changes, [span.start for span in spans], sizes)
    np.subtract.at(changes, [span.stop for span in spans], sizes)
    return np.maximum(changes.cumsum(axis=0).max(axis=0), 1)


def best_order(
    lifetimes: Sequence[Lifetime], sizes: Floats, wishes: Sequence[Layers]
) -> tuple[Order, Floats]:
    """The order with the least worst ratio of height to lower bound over the columns; its heights.

    Args:
        sizes: bytes, [blocks, sizes of reference].
        wishes: the dearest first; the last is always fulfilled.
    """
    search = _OrderSearch(lifetimes, sizes, wishes)
    columns = range(FITTED) if len(lifetimes) <= MANY else [FITTED - 1]
    for column, rule, smallest in product(columns, range(4), (False, True)):
        search.fit(column, rule, smallest)
        if search.score[0] <= GOOD + min(column, 3) * STEP or len(lifetimes) > MANY:
            break
    return search.best, search.ends(search.best).max(axis=0)


class _OrderSearch:
    """The best order so far."""

    def __init__(
        self, lifetimes: Sequence[Lifetime], sizes: Floats, wishes: Sequence[Layers]
    ) -> None:
        self.lifetimes, self.sizes, self.wishes = lifetimes, sizes, wishes
        self.lives = np.array([(life.first, life.last) for life in lifetimes]).T
        several = len(lifetimes) <= MANY  # else they are looked up, as all together are many
        self.near: list[list[int]] = [
            self._overlapping(i).tolist() for i in range(len(lifetimes)) if several
        ]
        self.stack = np.zeros_like(sizes)
        """How high the stack is, at each position where a block's life begins."""
        self.places = [self.stack[span] for span in _spans(lifetimes)]
        self.least = least_heights(lifetimes, sizes)
        self.best: Order = ()
        self.score = (np.inf, np.inf)

    def fit(self, column: int, rule: int, smallest: bool) -> None:
        """Try orders from fits at one column, in the lowest gap or in the smallest."""
        sizes: list[float] = self.sizes[:, column].tolist()
        keys = [_keys(*block)[rule] for block in zip(sizes, self.lifetimes, strict=True)]
        placed = sorted(range(len(keys)), key=keys.__getitem__)
        for _ in range(TRIES):
            starts = self._fit(placed, sizes, smallest)
            # Only who lies on whom is kept of a fit: starts at one size mean nothing at another.
            order = sorted(starts, key=lambda i: (starts[i], self.lifetimes[i].first))
            ends = self._tried(order)
            worst = int((ends.max(axis=0) / self.least).argmax())
            high = {int(i) for i in np.flatnonzero(ends[:, worst] > self.least[worst])}
            if not high or self.score[0] <= GOOD:
                return
            # What ends too high was placed late, when the low gaps were gone.
            placed = _earlier(placed, [i for i in placed if i in high])

    def _tried(self, order: Sequence[int]) -> Floats:
        """Keep an order, changed as wished, if it is the best; where its blocks end.

        Dearer wishes are left alone where the least of them costs too much already.
        """
        ends_of: list[Floats] = []
        for unfulfilled, layers in reversed(list(enumerate(self.wishes))):
            changed = tuple(sorted(order, key=layers.__getitem__))
            ends_of.append(self.ends(changed))
            ratios = ends_of[-1].max(axis=0) / self.least
            if ratios.max() > self.score[0]:
                break
            score = (float(ratios.max()) + unfulfilled * STEP, float(ratios.mean()))
            if score < self.score:
                self.best, self.score = changed, score
        return ends_of[0]

    def ends(self, order: Order) -> Floats:
        """Where each block ends in the stack, for each column of sizes."""
        ends = np.empty_like(self.sizes)
        self.stack.fill(0)
        for i in order:
            place = self.places[i]
            place[:] = ends[i] = self.sizes[i] + np.maximum.reduce(place)
        return ends

    def _overlapping(self, i: int) -> Indices:
        """The other blocks that live when one does."""
        first, last = self.lives
        overlaps = (first <= last[i]) & (last >= first[i])
        overlaps[i] = False
        return np.flatnonzero(overlaps)

    def _fit(
        self, order: Sequence[int], sizes: Sequence[float], smallest: bool
    ) -> Mapping[int, float]:
        """Starts: each block in the lowest gap that holds it, or in the smallest."""
        if not self.near:
            return self._fit_many(order, sizes)
        starts = dict[int, float]()
        taken: list[tuple[float, float] | None] = [None] * len(order)
        for i in order:
            occupied = [span for j in self.near[i] if (span := taken[j]) is not None]
            occupied.sort()
            start = starts[i] = _gap(occupied, sizes[i], smallest)
            taken[i] = start, start + sizes[i]
        return starts

    def _fit_many(self, order: Sequence[int], sizes: Sequence[float]) -> Mapping[int, float]:
        """As `_fit`, in the lowest gap, with arrays in place of loops."""
        starts, taken = dict[int, float](), np.full((len(order), 2), -1.0)
        for i in order:
            near = taken[self._overlapping(i)]
            near = near[near[:, 0] >= 0]
            begins, ends = near[near[:, 0].argsort()].T
            # From the end of all that begin before it to where the next one begins.
            tops = np.concatenate([[0.0], np.maximum.accumulate(ends)])
            gaps = np.flatnonzero(begins - tops[:-1] >= sizes[i])
            starts[i] = float(tops[gaps[0] if len(gaps) else -1])
            taken[i] = starts[i], starts[i] + sizes[i]
        return starts


def _keys(size: float, life: Lifetime) -> Sequence[tuple[float, float]]:
    """The rules by which blocks are placed: by death, length of life, birth or size."""
    length = life.last - life.first
    return (-life.last, -size), (-length, -size), (life.first, -size), (-size, life.first)


def _earlier(order: Sequence[int], moved: Sequence[int]) -> list[int]:
    """An order with some blocks moved ahead by a quarter of it."""
    result, by = list(order), max(len(order) // 4, 3)
    for i in moved:
        at = result.index(i)
        result.insert(max(at - by, 0), result.pop(at))
    return result


def _gap(occupied: Sequence[tuple[float, float]], size: float, smallest: bool) -> float:
    """The start of the lowest or the smallest gap that holds a size; behind all if none does."""
    gaps, end = list[tuple[float, float]](), 0.0
    for start, stop in occupied:
        if start - end >= size:
            if not smallest:
                return end
            gaps.append((start - end, end))
        if stop > end:  # `max` would take a third of the whole search
            end = stop
    return min(gaps)[1] if gaps else end
