"""The order of the nodes in each layer: barycentres up and down, while fewer arrows cross."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

SWEEPS, LEAST, EFFORT = 12, 2, 200_000
"""How often the layers are gone through: less often where nodes and links, gone through so often,
are more than `EFFORT`."""

Edge = tuple[int, int]
Layers = list[list[int]]


def ordered(ranks: Sequence[int], links: Sequence[Edge]) -> Layers:
    """The nodes of every layer in an order in which few links between neighbours cross.

    Args:
        links: pairs of nodes in a layer and the next one.
    """
    above, below = _neighbours(len(ranks), links)
    layers = _first(ranks, above, below)
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(max(LEAST, min(SWEEPS, EFFORT // (len(ranks) + len(links) + 1)))):
        if not fewest:
            break
        layers = _swept(layers, above if sweep % 2 == 0 else below, down=sweep % 2 == 0)
        count = _crossings(layers, below)
        if count < fewest:
            best, fewest = layers, count
    return best


def _neighbours(count: int, links: Sequence[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in links:
        below[source].append(target)
        above[target].append(source)
    return above, below


def _first(ranks: Sequence[int], above: list[list[int]], below: list[list[int]]) -> Layers:
    """Connected nodes beside each other: depth first, from the first node on."""
    layers: Layers = [[] for _ in range(max(ranks, default=-1) + 1)]
    seen = [False] * len(ranks)
    for start in range(len(ranks)):
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if not seen[node]:
                seen[node] = True
                layers[ranks[node]].append(node)
                waiting += [*reversed(below[node]), *reversed(above[node])]
    return layers


def _swept(layers: Layers, beside: list[list[int]], down: bool) -> Layers:
    """Each layer by the mean places of its nodes' neighbours in the one before; nodes without any
    stay where they are."""
    swept = [list(layer) for layer in layers]
    places: dict[int, float] = {}
    for layer in swept if down else reversed(swept):
        own = {node: float(place) for place, node in enumerate(layer)}
        layer.sort(key=lambda node: _mean(beside[node], places, own[node]))
        places |= {node: float(place) for place, node in enumerate(layer)}
    return swept


def _mean(nodes: Sequence[int], places: Mapping[int, float], otherwise: float) -> float:
    return sum(places[node] for node in nodes) / len(nodes) if nodes else otherwise


def _crossings(layers: Layers, below: list[list[int]]) -> int:
    """How many pairs of links between neighbouring layers cross."""
    count = 0
    for layer, following in pairwise(layers):
        place = {node: i for i, node in enumerate(following)}
        passed: list[int] = []
        for node in layer:
            ends = [place[target] for target in below[node]]
            count += sum(len(passed) - bisect_left(passed, end + 1) for end in ends)
            for end in ends:
                insort(passed, end)
    return count
