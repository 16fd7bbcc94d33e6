"""What a step of a stream costs above the code: `taskset -c 1 python -m benchmarks.streaming`

One step of one sequence; the least of many short runs, so that what else runs does not count.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rnncc_runtime import Stream

import rnncc

NETS = Path(__file__).parent / "nets"
CALLS, RUNS = 40, 1500


def least(call: Callable[[], object]) -> float:
    """Seconds a call."""
    return min(timeit.repeat(call, number=CALLS, repeat=RUNS)) / CALLS


def measure(stream: Stream, units: int) -> dict[str, float]:
    """Seconds a step; the code alone first."""
    rows = np.zeros((64, 1, 1, units), np.float32)
    views = list(rows)
    turn = iter(range(10**9))
    inputs = {"x": views[0]}
    out = {name: np.empty_like(array) for name, array in stream.step(inputs).items()}
    stream.step(inputs, out=out)
    last = stream._last
    assert last is not None
    return {
        "code": least(lambda: stream._step(*last.arguments)),
        "same arrays": least(lambda: stream.step(inputs, out=out)),
        "other inputs": least(lambda: stream.step({"x": views[next(turn) % 64]}, out=out)),
        "new outputs": least(lambda: stream.step(inputs)),
    }


def main() -> None:
    """Measure a small LSTM."""
    for units in (64, 128):
        net, init = (NETS / f"lstm_{units}{end}" for end in (".pb", ".init.pb"))
        seconds = measure(rnncc.compile(net, init).stream(batch=1), units)
        code = seconds.pop("code")
        print(f"lstm {units}: code {code * 1e6:.2f} us, and above it:")
        for name, whole in seconds.items():
            print(f"  {name:<15}{(whole - code) * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
