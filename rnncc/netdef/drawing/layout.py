"""Places boxes in layers, arrows downwards: longest paths, barycentres, then least squares.

In: the boxes' sizes and the arrows of a graph without cycles. Out: centres, and a curve an arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from rnncc.netdef.drawing.columns import columns_of, kept_apart
from rnncc.netdef.drawing.order import ordered
from rnncc.records import record

BETWEEN = 22.0
"""Between neighbours in a layer."""
LEAST_GAP, MOST_GAP, SLOPE = 24.0, 72.0, 0.1
"""Between layers: the further an arrow goes sideways, the more."""
PORT, MARGIN = 28.0, 10.0
"""Between the ends of two arrows at a box, and from its corners."""
WIDE = 160.0
"""Half the width of boxes at which arrows end opposite to where they start."""
BEND = 4.0
"""The width that an arrow takes where it passes a layer."""

Point = tuple[float, float]
Size = tuple[float, float]
Edge = tuple[int, int]


@record
class Layout:
    """Where everything lies.

    Attributes:
        centres: of the boxes.
        curves: an arrow's points: a start, then three for each piece of cubic curve.
    """

    size: Size
    centres: list[Point]
    curves: list[list[Point]]


@record
class _NodeLayers:
    """The layers' tops and heights, and in which layer each node is."""

    ranks: list[int]
    tops: list[float]
    heights: list[float]

    def top(self, node: int) -> float:
        return self.tops[self.ranks[node]]

    def bottom(self, node: int) -> float:
        return self.top(node) + self.heights[self.ranks[node]]

    def centre(self, node: int) -> float:
        return (self.top(node) + self.bottom(node)) / 2


def place(sizes: Sequence[Size], edges: Sequence[Edge], forks: Collection[int] = ()) -> Layout:
    """Lay a graph out.

    Args:
        edges: (from, to); a node's number is above those of all that lead to it.
        forks: nodes whose arrows leave from one point.
    """
    if not sizes:
        return Layout((0.0, 0.0), [], [])
    ranks = _ranks(len(sizes), edges)
    paths = _bend(edges, ranks)
    widths = [width for width, _ in sizes] + [BEND] * (len(ranks) - len(sizes))
    links = sorted({link for path in paths for link in pairwise(path)})
    layers = ordered(ranks, links)
    x = columns_of(layers, widths, links, len(sizes), BETWEEN)
    rows = _rows(layers, ranks, sizes, x, links)
    starts = _ports(paths, x, sizes, 0, forks)
    ends = _ports(paths, x, sizes, -1, ())
    curves = [
        _curve([starts[k], *(x[n] for n in path[1:-1]), ends[k]], path, rows, sizes)
        for k, path in enumerate(paths)
    ]
    width = max(x[n] + w / 2 for n, w in enumerate(widths))
    centres = [(x[n], rows.centre(n)) for n in range(len(sizes))]
    return Layout((width, rows.tops[-1] + rows.heights[-1]), centres, curves)


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """Below all that leads to it; what nothing leads to just above the first that it leads to."""
    ranks = [0] * count
    lowest: dict[int, int] = {}
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    for source, target in edges:
        lowest[source] = min(lowest.get(source, ranks[target]), ranks[target])
    led_to = {target for _, target in edges}
    return [
        lowest[node] - 1 if node in lowest and node not in led_to else rank
        for node, rank in enumerate(ranks)
    ]


def _bend(edges: Sequence[Edge], ranks: list[int]) -> list[list[int]]:
    """Each arrow's way through the layers; what bends it there is added to `ranks`, and arrows
    from one node share it."""
    bends: dict[tuple[int, int], int] = {}
    paths: list[list[int]] = []
    for source, target in edges:
        path = [source]
        for rank in range(ranks[source] + 1, ranks[target]):
            if (source, rank) not in bends:
                bends[source, rank] = len(ranks)
                ranks.append(rank)
            path.append(bends[source, rank])
        paths.append([*path, target])
    return paths


def _rows(
    layers: Sequence[Sequence[int]],
    ranks: list[int],
    sizes: Sequence[Size],
    x: Sequence[float],
    links: Sequence[Edge],
) -> _NodeLayers:
    aside = [0.0] * len(layers)
    for source, target in links:
        aside[ranks[source]] = max(aside[ranks[source]], abs(x[source] - x[target]))
    heights = [max((sizes[n][1] for n in layer if n < len(sizes)), default=0.0) for layer in layers]
    tops, top = list[float](), 0.0
    for height, far in zip(heights, aside, strict=True):
        tops.append(top)
        top += height + min(LEAST_GAP + SLOPE * far, MOST_GAP)
    return _NodeLayers(ranks, tops, heights)


def _ports(
    paths: Sequence[Sequence[int]],
    x: Sequence[float],
    sizes: Sequence[Size],
    end: int,
    together: Collection[int],
) -> list[float]:
    """Where each arrow starts (`end` 0) or ends (-1): spread over the box in the order in which
    they come, so that they do not cross there."""
    towards = 1 if end == 0 else -2
    others: dict[int, set[int]] = {}
    for path in paths:
        others.setdefault(path[end], set()).add(path[towards])
    ports: dict[tuple[int, int], float] = {}
    for node, beside in others.items():
        order = sorted(beside, key=lambda other: (x[other], other))
        step = 0.0 if node in together else PORT
        half = sizes[node][0] / 2 - MARGIN
        offsets = _opposite([x[other] - x[node] for other in order], step, half)
        ports |= {(node, other): x[node] + offsets[k] for k, other in enumerate(order)}
    return [ports[path[end], path[towards]] for path in paths]


def _opposite(targets: Sequence[float], step: float, half: float) -> list[float]:
    """Offsets from a box's centre, `step` apart or as its width allows; where it is wide, near
    the wanted ones."""
    last = len(targets) - 1
    step = min(step, 2 * half / max(last, 1))
    if not step or half < max(WIDE, step * last):
        return [step * (k - last / 2) for k in range(last + 1)]
    bounded = [
        min(max(place, step * k - half), half - step * (last - k))
        for k, place in enumerate(targets)
    ]
    return kept_apart(bounded, [step * k for k in range(last + 1)])


def _curve(
    xs: Sequence[float], path: Sequence[int], rows: _NodeLayers, sizes: Sequence[Size]
) -> list[Point]:
    """Straight through layers, curved between them, so that arrows touch no box."""
    source, target = path[0], path[-1]
    points = [(xs[0], rows.centre(source) + sizes[source][1] / 2)]
    for (x, next_x), (node, following) in zip(pairwise(xs), pairwise(path), strict=True):
        bottom, top = rows.bottom(node), rows.top(following)
        _straight(points, (x, bottom))
        middle = (bottom + top) / 2
        points += [(x, middle), (next_x, middle), (next_x, top)]
    _straight(points, (xs[-1], rows.centre(target) - sizes[target][1] / 2))
    return points


def _straight(points: list[Point], end: Point) -> None:
    if points[-1] != end:
        points += [points[-1], end, end]
