"""Times several ways of computing one thing, in turn, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 9
SECONDS = 0.08
"""How long one contender runs in one round."""


def medians(contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds a call; the contenders take turns, so that all see the same machine."""
    counts = {name: _count(call) for name, call in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            begun = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - begun) / counts[name])
    return {name: statistics.median(found) for name, found in times.items()}


def _count(call: Callable[[], object]) -> int:
    """How many calls fill a round, after a warm-up."""
    call()
    begun = time.perf_counter()
    call()
    return max(1, int(SECONDS / (time.perf_counter() - begun)))
