"""Contenders take turns, and what they took is summed up; no clock is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rnncc.driver.timing import Times, alternate


def test_times() -> None:
    times = Times.of([1.0, 5.0, 2.0, 3.0, 4.0])
    assert (times.low, times.median, times.high, times.rounds) == (2.0, 3.0, 4.0, 5)
    assert times.spread == pytest.approx(2 / 3)
    assert Times.of([2.0]).spread == 0


def test_contenders_take_turns() -> None:
    calls: list[tuple[str, int]] = []

    def timer(name: str, each: float) -> Callable[[int], float]:
        def run(count: int) -> float:
            calls.append((name, count))
            return each * count

        return run

    found = alternate({"a": timer("a", 0.001), "b": timer("b", 0.5)}, rounds=3, seconds=0.1)
    assert {name: times.median for name, times in found.items()} == pytest.approx(
        {"a": 0.001, "b": 0.5}
    )
    assert [name for name, _ in calls[-6:]] == ["a", "b"] * 3
    assert [count for _, count in calls[-6:]] == [100, 1] * 3


def test_a_clock_that_stands_still_ends() -> None:
    found = alternate({"a": lambda count: 0.0}, rounds=2, seconds=0.1)
    assert found["a"].median == 0
