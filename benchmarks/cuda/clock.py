# pyright: reportMissingImports=false
"""Times on the device: events around calls that take turns, and around replays of CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import torch

Work = Callable[[], Any]
ROUNDS = 3
LEAST, MOST = 3, 20
"""Calls in a round."""


def alternate(ways: Mapping[str, Sequence[Work]], seconds: float) -> dict[str, float]:
    """Microseconds of a call of each way, the median of all rounds; the ways take turns.

    Args:
        ways: name -> the same call on different inputs, which come in turn: no cache holds what
            a call reads from the call before.
        seconds: that one way takes, in all rounds.
    """
    counts = {name: _count(calls, seconds / ROUNDS) for name, calls in ways.items()}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, calls in ways.items():
            spent[name] += _timed(calls, counts[name])
    return {name: median(times) for name, times in spent.items()}


def _count(calls: Sequence[Work], seconds: float) -> int:
    """How often to call in a round; everything is warm then."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    calls[0]()
    torch.cuda.synchronize()
    return max(LEAST, min(MOST, int(seconds / (time.perf_counter() - begun))))


def _timed(calls: Sequence[Work], count: int) -> list[float]:
    calls[0]()
    marks = [(_event(), _event()) for _ in range(count)]
    for turn, (begun, ended) in enumerate(marks):
        begun.record()
        calls[turn % len(calls)]()
        ended.record()
    torch.cuda.synchronize()
    return [begun.elapsed_time(ended) * 1e3 for begun, ended in marks]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def as_graph(call: Work) -> Work:
    """The same work as a CUDA graph, which costs the host one launch."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay() -> Any:
        graph.replay()
        return kept

    return replay


def graph_times(
    ways: Mapping[str, Work], seconds: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Microseconds of each way as a graph; and why one cannot be one."""
    graphs: dict[str, Sequence[Work]] = {}
    refused: dict[str, str] = {}
    for name, call in ways.items():
        try:
            graphs[name] = [as_graph(call)]
        except Exception as error:
            torch.cuda.synchronize()  # raises where the device is lost
            refused[name] = one_line(error)
    return (alternate(graphs, seconds) if graphs else {}), refused


def one_line(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:160] if lines else type(error).__name__
