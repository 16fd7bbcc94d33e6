"""`rnncc demo`: a small net, all the way from its operators to a timed run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.commands.tables import bytes_text
from rnncc.errors import InternalError
from rnncc.netdef import NetDef, parameters, save

CHARACTERS, UNITS, STEPS = 64, 128, 100
TOLERANCE = 1e-5

T = TypeVar("T")
Arrays = dict[str, np.ndarray[Any, Any]]


def demo(out: Path | None) -> None:
    """Make, compile, run, compare and time a net, and tell each step.

    Args:
        out: a folder for the net, its init net and the built library; None writes nothing.
    """
    net, init = char_lstm(CHARACTERS, UNITS)
    count = sum(array.size for array in parameters(init).values())
    print(f"net       a character LSTM: {CHARACTERS} characters, {UNITS} units, {count:,} weights")
    seconds, model = _timed(lambda: rnncc.compile(net, init, name="lstm"))
    told = f"for {model.metadata['cpu']}, workspace {model.metadata['workspace']} bytes"
    print(f"compile   in memory in {seconds:.2f} s, {told}")
    inputs = _inputs()
    results = model.run(inputs)
    print(f"run       {STEPS} characters -> {', '.join(results)}")
    print(f"compare   at most {_difference(net, init, inputs, results):.1e} off the interpreter")
    best = min(_timed(lambda: model.run(inputs, out=results))[0] for _ in range(50))
    print(f"time      {best * 1e6:.0f} µs, {best / STEPS * 1e6:.2f} µs a character")
    if out is not None:
        _write(net, init, out)


def _inputs() -> Arrays:
    """Random characters, one-hot, and states of zero."""
    x = np.zeros((STEPS, 1, CHARACTERS), np.float32)
    x[range(STEPS), 0, np.random.default_rng(0).integers(0, CHARACTERS, STEPS)] = 1
    zeros = np.zeros((1, 1, UNITS), np.float32)
    return {"x": x, "seq_lengths": np.array([STEPS], np.int32), "h0": zeros, "c0": zeros}


def _difference(net: NetDef, init: NetDef, inputs: Arrays, results: Arrays) -> float:
    """The largest distance of any output from the interpreter's."""
    from rnncc.frontends.caffe2 import import_net
    from rnncc.ir.interpreter import run

    expected = run(import_net(net, init), inputs)
    worst = max(float(np.abs(results[name] - expected[name]).max()) for name in results)
    if not worst <= TOLERANCE:
        raise InternalError(f"the compiled net is {worst} off the interpreter")
    return worst


def _write(net: NetDef, init: NetDef, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    save(net, out / "lstm.pbtxt", text=True)
    save(init, out / "lstm_init.pbtxt", text=True)
    for path in rnncc.build(net, init, out=out, name="lstm").paths:
        print(f"wrote     {path}, {bytes_text(path.stat().st_size)}")


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
