"""`rnncc demo`: a small net, all the way from its operators to a timed run and a picture."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.commands.tables import bytes_text
from rnncc.driver.planning import report_of
from rnncc.driver.timing import time_text
from rnncc.errors import InternalError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef, parameters, save
from rnncc.options import Options
from rnncc.planning.drawing import draw
from rnncc.writing import write_file

CHARACTERS, UNITS, STEPS = 64, 128, 100
TOLERANCE = 1e-5
BAR = 44
"""Letters of the longest bar."""
NEXT = """
next      rnncc compile NET.onnx -o build        an ONNX model (docs/onnx.md)
          rnncc compile NET.pb --init INIT.pb    a Caffe2 net (docs/caffe2.md)
          import rnncc.torch                     a PyTorch cell or module (docs/torch.md)
          rnncc --help"""

T = TypeVar("T")
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def demo(out: Path | None) -> None:
    """Make, compile, run, compare and time a net, and tell each step.

    Args:
        out: a folder for the net, its init net, the built library and a picture of its memory;
            None writes nothing.
    """
    net, init = char_lstm(CHARACTERS, UNITS)
    weights = parameters(init)
    count = sum(array.size for array in weights.values())
    print(f"net       a character LSTM: {CHARACTERS} characters, {UNITS} units, {count:,} weights")
    seconds, model = _timed(lambda: rnncc.compile(net, init, name="lstm"))
    print(f"compile   in memory in {time_text(seconds)}, for {model.metadata['cpu']}")
    inputs = drawn()
    results = model.run(inputs)
    print(f"run       {STEPS} characters -> {', '.join(results)}")
    print(f"compare   at most {_difference(net, init, inputs, results):.1e} off the interpreter")
    own_seconds = _best(lambda: model.run(inputs, out=results), 50)
    print(f"time      {time_text(own_seconds / STEPS)} a character; {STEPS} of them take")
    _print_bars(
        {"rnncc": own_seconds, "NumPy": _best(lambda: loop(weights, inputs["x"][:, 0]), 50)}
    )
    if out is not None:
        _write(net, init, out)
    print(NEXT)


def loop(weights: Mapping[str, Array], x: Array) -> Array:
    """The net as one would write it in NumPy: x [T, V] -> probabilities [T, V]."""
    h = c = np.zeros(UNITS, np.float32)
    rows = list[Array]()
    projected = x @ weights["i2h_w"].T + weights["i2h_b"]
    one = np.float32(1)
    for row in projected:
        i, f, o, g = np.split(row + h @ weights["gates_w"].T + weights["gates_b"], 4)
        i, f, o = (one / (one + np.exp(-gate)) for gate in (i, f + one, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        rows.append(h)
    logits = np.stack(rows) @ weights["out_w"].T + weights["out_b"]
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def drawn() -> Arrays:
    """Random characters, one-hot, and states of zero."""
    x = np.zeros((STEPS, 1, CHARACTERS), np.float32)
    x[range(STEPS), 0, np.random.default_rng(0).integers(0, CHARACTERS, STEPS)] = 1
    zeros = np.zeros((1, 1, UNITS), np.float32)
    return {"x": x, "seq_lengths": np.array([STEPS], np.int32), "h0": zeros, "c0": zeros}


def _difference(net: NetDef, init: NetDef, inputs: Arrays, results: Arrays) -> float:
    """The largest distance of any output from the interpreter's."""
    expected = run(import_net(net, init), inputs)
    worst = max(float(np.abs(results[name] - expected[name]).max()) for name in results)
    if not worst <= TOLERANCE:
        raise InternalError(f"the compiled net is {worst} off the interpreter")
    return worst


def _print_bars(times: Mapping[str, float]) -> None:
    """A line of blocks for each time, the longest for the most."""
    most = max(times.values())
    block = "#" if (sys.stdout.encoding or "ascii").lower() in ("ascii", "us-ascii") else "█"
    for name, seconds in times.items():
        bar = block * max(1, round(BAR * seconds / most))
        print(f"          {name:<6} {bar} {time_text(seconds)}")


def _write(net: NetDef, init: NetDef, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    files = out / "lstm.pbtxt", out / "lstm_init.pbtxt"
    for message, path in zip((net, init), files, strict=True):
        save(message, path, text=True)
    for path in rnncc.build(net, init, out=out, name="lstm").paths:
        print(f"wrote     {path}, {bytes_text(path.stat().st_size)}")
    report = report_of(*files, Options(name="lstm"), f"{STEPS},1")
    write_file(out / "plan.html", draw(report))
    print(f"look at   {out / 'plan.html'}: where each buffer lies, and when")


def _best(work: Callable[[], object], times: int) -> float:
    return min(_timed(work)[0] for _ in range(times))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
