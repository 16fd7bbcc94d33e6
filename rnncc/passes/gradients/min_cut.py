"""The minimum cut of a network of capacities, by Dinic's algorithm (1970)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from itertools import chain, pairwise
from math import inf
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Residual = dict[int, dict[int, float]]


def sink_side(edges: Mapping[tuple[Node, Node], float], source: Node, sink: Node) -> set[Node]:
    """The nodes on the sink's side of a minimum cut: as few as there can be.

    Args:
        edges: from, to -> capacity; infinite ones are never cut, and do not lead from source to
            sink on their own.
    """
    names = list(dict.fromkeys((source, sink, *chain.from_iterable(edges))))
    numbers = {name: number for number, name in enumerate(names)}  # found faster than values are
    between = {(numbers[a], numbers[b]): capacity for (a, b), capacity in edges.items()}
    return {names[number] for number in _sink_side(between)}


def _sink_side(edges: Mapping[tuple[int, int], float]) -> set[int]:
    """The same for nodes of which 0 is the source and 1 the sink."""
    source, sink = 0, 1
    residual: Residual = defaultdict(dict)
    residual[source], residual[sink] = {}, {}
    for (a, b), capacity in edges.items():
        residual[a][b] = residual[a].get(b, 0.0) + capacity
        # The way back, on which a later path may undo some of the flow.
        residual[b].setdefault(a, 0.0)
    while sink in (levels := _levels(residual, source)):
        _fill(residual, levels, source, sink)
    side, work = {sink}, [sink]
    while work:
        node = work.pop()
        upstream = [a for a in residual[node] if a not in side and residual[a][node] > 0]
        side.update(upstream)
        work += upstream
    return side


def _levels(residual: Residual, source: int) -> dict[int, int]:
    """How many edges lead from the source to each node that it reaches."""
    levels, reached = {source: 0}, [source]
    for node in reached:
        for following, capacity in residual[node].items():
            if capacity > 0 and following not in levels:
                levels[following] = levels[node] + 1
                reached.append(following)
    return levels


def _fill(residual: Residual, levels: Mapping[int, int], source: int, sink: int) -> None:
    """Push flow along shortest paths until each has an edge that is full."""
    untried = {node: list(residual[node]) for node in levels}
    path = [source]
    while path:
        node = path[-1]
        if node == sink:
            # Go on from where the first full edge starts: what leads there has room left.
            del path[_push(residual, path) + 1 :]
        # A dead end: no later path of this phase comes here again, which bounds the phase.
        elif not untried[node]:
            path.pop()
            if path:
                untried[path[-1]].pop()
        else:
            following = untried[node][-1]
            further = levels.get(following) == levels[node] + 1
            if further and residual[node][following] > 0:
                path.append(following)
            else:
                untried[node].pop()


def _push(residual: Residual, path: list[int]) -> int:
    """Push what fits along a path; the place of the first edge that is full then."""
    steps = list(pairwise(path))
    flow = min(residual[a][b] for a, b in steps)
    assert flow < inf, "only infinite edges lead from source to sink"
    for a, b in steps:
        residual[a][b] -= flow
        residual[b][a] += flow
    return next(place for place, (a, b) in enumerate(steps) if residual[a][b] == 0)
