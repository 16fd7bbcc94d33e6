"""How far to the right each node lies: near its neighbours, in the order of its layer.

Each layer in turn is the solution of a least-squares problem, with a distance between neighbours
that is kept exactly (isotonic regression, by pooling what would come too close).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

SWEEPS, LEAST, EFFORT = 40, 6, 300_000
"""How often the layers are gone through: the last quarter with the neighbours on both sides in
mind, less often where nodes and links, gone through so often, are more than `EFFORT`."""
STRAIGHT, LOOSE, WEAK = 8.0, 0.05, 0.02
"""How much a bend of an arrow wants to lie in line with its neighbours, and a node with arrows on
one side only, where others want it by 1; and how much the latter pulls at its neighbours, and a
box at a bend, where others pull by 1."""
NARROW = 160.0
"""Half the width of boxes whose middle counts."""

Edge = tuple[int, int]


def columns_of(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    links: Sequence[Edge],
    boxes: int,
    between: float,
) -> list[float]:
    """The nodes' centres, the leftmost box's edge being at 0.

    Args:
        boxes: nodes from this one on are bends of arrows.
    """
    columns = _Columns(widths, links, boxes, between)
    for layer in layers:
        columns.centre(layer)
    sweeps = max(LEAST, min(SWEEPS, EFFORT // (len(widths) + len(links) + 1)))
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        both = sweep >= sweeps - sweeps // 4
        for layer in layers if down else reversed(layers):
            columns.move(layer, above=down or both, below=not down or both)
    left = min((x - w / 2 for x, w in zip(columns.x, widths, strict=True)), default=0.0)
    return [x - left for x in columns.x]


class _Columns:
    """The nodes' centres, which come nearer to their neighbours' move by move."""

    def __init__(
        self, widths: Sequence[float], links: Sequence[Edge], boxes: int, between: float
    ) -> None:
        self.x = [0.0] * len(widths)
        self._widths, self._boxes, self._between = widths, boxes, between
        self._above: list[list[int]] = [[] for _ in widths]
        self._below: list[list[int]] = [[] for _ in widths]
        for source, target in links:
            self._below[source].append(target)
            self._above[target].append(source)

    def centre(self, layer: Sequence[int]) -> None:
        """Put the middle of a layer to 0."""
        offsets = self._offsets(layer)
        for node, offset in zip(layer, offsets, strict=True):
            self.x[node] = offset - offsets[-1] / 2

    def move(self, layer: Sequence[int], above: bool, below: bool) -> None:
        """Move a layer's nodes towards their neighbours, as far as their widths allow."""
        targets, weights = list[float](), list[float]()
        for node in layer:
            near = [*(self._above[node] if above else ()), *(self._below[node] if below else ())]
            pulls = [self._pull(node, other) for other in near]
            aside = (pull * self._aside(node, o) for pull, o in zip(pulls, near, strict=True))
            targets.append(self.x[node] + (sum(aside) / sum(pulls) if near else 0.0))
            weights.append(self._weight(node) if near else WEAK)
        for node, x in zip(layer, kept_apart(targets, self._offsets(layer), weights), strict=True):
            self.x[node] = x

    def _offsets(self, layer: Sequence[int]) -> list[float]:
        """Where nodes lie that are as near to each other as can be."""
        offsets = [0.0]
        for node, following in pairwise(layer):
            room = (self._widths[node] + self._widths[following]) / 2
            offsets.append(offsets[-1] + room + self._between)
        return offsets

    def _is_end(self, node: int) -> bool:
        return not (self._above[node] and self._below[node])

    def _weight(self, node: int) -> float:
        if node >= self._boxes:
            return STRAIGHT
        return LOOSE if self._is_end(node) else 1.0

    def _pull(self, node: int, other: int) -> float:
        if self._is_end(other) or (node >= self._boxes and other < self._boxes):
            return WEAK
        return 1.0

    def _aside(self, node: int, other: int) -> float:
        """How far a node is from being in line with another: opposite to a wide box is in line."""
        distance = self.x[other] - self.x[node]
        slack = max(0.0, max(self._widths[node], self._widths[other]) / 2 - NARROW)
        return max(distance - slack, 0.0) if distance > 0 else min(distance + slack, 0.0)


def kept_apart(
    targets: Sequence[float], offsets: Sequence[float], weights: Sequence[float] = ()
) -> list[float]:
    """The places nearest to the wanted ones, in weighted least squares, at which the differences
    of neighbours are at least those of their offsets."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of places
    for k, (target, offset) in enumerate(zip(targets, offsets, strict=True)):
        mean, mass, count = target - offset, weights[k] if weights else 1.0, 1
        while pools and pools[-1][0] > mean:
            other, other_mass, other_count = pools.pop()
            mean = (mean * mass + other * other_mass) / (mass + other_mass)
            mass, count = mass + other_mass, count + other_count
        pools.append((mean, mass, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
