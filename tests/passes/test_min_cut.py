"""The least cut against another implementation, on random networks."""

from __future__ import annotations

import random
from collections.abc import Hashable
from math import inf
from typing import Any

import networkx
import pytest

from rnncc.passes.gradients.min_cut import sink_side

nx: Any = networkx


@pytest.mark.parametrize("seed", range(60))
def test_random_networks(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 30)
    edges: dict[tuple[Hashable, Hashable], float] = {}
    for _ in range(rng.randint(1, 4 * count)):
        a, b = rng.randrange(count), rng.randrange(count)
        if a != b:
            endless = rng.random() < 0.2 and (a, b) != (0, 1) and a > 0
            edges[a, b] = inf if endless else float(rng.randint(0, 9))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    for (a, b), capacity in edges.items():
        graph.add_edge(a, b, **({} if capacity == inf else {"capacity": capacity}))
    value, (_, expected) = nx.minimum_cut(graph, 0, 1)
    side = sink_side(edges, 0, 1)
    cut = sum(c for (a, b), c in edges.items() if a not in side and b in side)
    assert cut == value
    assert side == expected


def test_the_smallest_side_is_taken() -> None:
    edges: dict[tuple[Hashable, Hashable], float]
    edges = {("source", "a"): 2.0, ("a", "b"): 2.0, ("b", "sink"): 2.0}
    assert sink_side(edges, "source", "sink") == {"sink"}


def test_no_way() -> None:
    assert sink_side({("source", "a"): 1.0}, "source", "sink") == {"sink"}
    with pytest.raises(AssertionError, match="infinite"):
        sink_side({("source", "sink"): inf}, "source", "sink")
