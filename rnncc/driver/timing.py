"""Times several ways of computing one thing, alternating, so that all see the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from rnncc.records import record

Timer = Callable[[int], float]
"""Seconds that so many calls take."""

MOST_CALLS = 1_000_000


@record
class Times:
    """Seconds a call: the median of all rounds, and the quartiles around it."""

    median: float
    low: float
    high: float
    rounds: int

    @staticmethod
    def of(seconds: list[float]) -> Times:
        """Of one figure a round."""
        if len(seconds) < 2:
            return Times(seconds[0], seconds[0], seconds[0], 1)
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return Times(median, low, high, len(seconds))

    @property
    def spread(self) -> float:
        """How far the quartiles are apart, as a part of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "median": self.median,
            "low": self.low,
            "high": self.high,
            "rounds": self.rounds,
        }


def alternate(timers: Mapping[str, Timer], rounds: int, seconds: float) -> dict[str, Times]:
    """Times by name: each round runs each contender for about so many seconds, one after another.

    A machine that is slower for a while is so for all of them, and the median drops such rounds.
    """
    counts = {name: _count(timer, seconds) for name, timer in timers.items()}
    samples: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            samples[name].append(timer(counts[name]) / counts[name])
    return {name: Times.of(measured) for name, measured in samples.items()}


def _count(timer: Timer, seconds: float) -> int:
    """How many calls fill a round, after a warm-up."""
    timer(1)
    count, elapsed = 1, timer(1)
    while elapsed < seconds / 4 and count < MOST_CALLS:
        count = min(MOST_CALLS, max(2 * count, int(count * seconds / max(elapsed, 1e-7) / 2)))
        elapsed = timer(count)
    return max(1, min(MOST_CALLS, round(count * seconds / max(elapsed, 1e-9))))


def time_text(seconds: float) -> str:
    """`418 µs`, `1.15 s`: three digits, as more are seldom measured."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * scale:
            return f"{_three(seconds / scale)} {unit}"
    return f"{_three(seconds * 1e9)} ns"


def _three(value: float) -> str:
    """Three significant digits, without an exponent."""
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"
