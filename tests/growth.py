"""How compile time and memory grow with a net: `python -m tests.growth --parts 50`.

Each kind of net is compiled with so many parts and with twice as many, in processes of their own.
Prints processor seconds and the most memory, and ends with 1 where twice the net took more than
three times as long, or failed. `--train` compiles gradients too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import rnncc
from tests.frontends.onnx.models import graph, info, model, node

MOST = 3.0
"""Times as long for twice the net: more than that is no noise."""
SHORT = 0.5
"""Seconds; what takes less is mostly what every net takes."""
WIDTH = 8
Kind = Callable[[int], Any]
"""Makes a net of so many parts."""


@dataclass
class Parts:
    """Nodes in order, and the constants that they read."""

    nodes: list[Any] = field(default_factory=list[Any])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    prefix: str = "v"

    def op(self, kind: str, inputs: str, results: int = 1, **attributes: Any) -> str:
        """Append a node; its results' names, with blanks between them."""
        stem = f"{self.prefix}{len(self.nodes)}"
        names = " ".join([stem, *(f"{stem}_{i}" for i in range(1, results))])
        self.nodes.append(node(kind, inputs, names, **attributes))
        return names

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weight(self, *shape: int) -> str:
        numbers = np.random.default_rng(len(self.constants)).standard_normal(shape)
        return self.constant((numbers * 0.3).astype(np.float32))

    def model(self, outputs: str, **inputs: Sequence[int | str]) -> Any:
        """A model of the nodes."""
        taken = [info(name, shape) for name, shape in inputs.items()]
        return model(
            self.nodes, taken, [info(y, None) for y in outputs.split()], self.constants, opset=18
        )


def stacked(layer: Callable[[Parts, str], str], **inputs: Sequence[int | str]) -> Kind:
    """Layers on each other, from x on."""

    def build(count: int) -> Any:
        parts, y = Parts(), "x"
        for _ in range(count):
            y = layer(parts, y)
        return parts.model(y, **(inputs or {"x": ("T", WIDTH)}))

    return build


def stepped(layer: Callable[[Parts, str], str]) -> Kind:
    """A loop over time with a long step: layers on each other, from the state on."""

    def build(count: int) -> Any:
        outer, inner, y = Parts(), Parts(), "h"
        for _ in range(count):
            y = layer(inner, y)
        last = inner.op("Add", f"{y} row")
        inner.nodes.append(node("Identity", last, "next"))
        shapes = info("h", (2, WIDTH)), info("row", (2, WIDTH))
        body = graph(
            inner.nodes, shapes, [info("next", (2, WIDTH)), info(last, None)], inner.constants
        )
        first = outer.weight(2, WIDTH)
        ys = outer.op("Scan", f"{first} x", 2, body=body, num_scan_inputs=1).split()[1]
        return outer.model(ys, x=("T", 2, WIDTH))

    return build


def side_by_side(part: Callable[[Parts, int], str], **inputs: Sequence[int | str]) -> Kind:
    """Parts that read x, each an output."""

    def build(count: int) -> Any:
        parts = Parts()
        names = [part(parts, number) for number in range(count)]
        return parts.model(" ".join(names), **(inputs or {"x": ("T", WIDTH)}))

    return build


def _functions(p: Parts, x: str) -> str:
    return p.op("Softplus", p.op("Mul", f"{x} {p.weight(WIDTH)}"))


def _lstm(p: Parts, x: str) -> str:
    weights = p.weight(1, 4 * WIDTH, WIDTH), p.weight(1, 4 * WIDTH, WIDTH)
    return p.op("Squeeze", f"{p.op('LSTM', ' '.join([x, *weights]), hidden_size=WIDTH)} {_one(p)}")


def _gru(p: Parts, number: int) -> str:
    weights = p.weight(1, 3 * WIDTH, WIDTH), p.weight(1, 3 * WIDTH, WIDTH)
    return p.op("GRU", " ".join(["x", *weights]), hidden_size=WIDTH)


def _attention(p: Parts, x: str) -> str:
    queries, keys = (p.op("MatMul", f"{x} {p.weight(WIDTH, WIDTH)}") for _ in range(2))
    scores = p.op("MatMul", f"{queries} {p.op('Transpose', keys, perm=[0, 2, 1])}")
    return p.op("MatMul", f"{p.op('Softmax', scores, axis=-1)} {x}")


def _normalised(p: Parts, x: str) -> str:
    product = p.op("MatMul", f"{x} {p.weight(WIDTH, WIDTH)}")
    scale = p.weight(WIDTH), p.weight(WIDTH)
    return p.op("Add", f"{x} {p.op('LayerNormalization', ' '.join([product, *scale]))}")


def _convolution(p: Parts, x: str) -> str:
    return p.op("Relu", p.op("Conv", f"{x} {p.weight(WIDTH, WIDTH, 3)}", pads=[1, 1]))


def _product(p: Parts, x: str) -> str:
    return p.op("Tanh", p.op("MatMul", f"{x} {p.weight(WIDTH, WIDTH)}"))


def _centred(p: Parts, x: str) -> str:
    return p.op("Sigmoid", p.op("Sub", f"{x} {p.op('ReduceMean', f'{x} {_one(p)}')}"))


def _choice(p: Parts, x: str) -> str:
    flag = p.op("Greater", f"{p.op('ReduceMax', x, keepdims=0)} {p.constant(np.float32(0))}")
    then, other = (
        graph([node(kind, x, f"{kind}{flag}")], [], [info(f"{kind}{flag}", None)])
        for kind in ("Tanh", "Neg")
    )
    return p.op("If", flag, then_branch=then, else_branch=other)


def _sorted(p: Parts, x: str) -> str:
    values = p.op("TopK", f"{x} {p.constant([WIDTH])}", 2).split()[0]
    return p.op("Add", f"{values} x")


def _turned(p: Parts, x: str) -> str:
    return p.op("Softmax", p.op("Transpose", x, perm=[1, 0]), axis=0)


def _running(p: Parts, x: str) -> str:
    return p.op("Tanh", p.op("CumSum", f"{x} {p.constant(0)}"))


def _one(p: Parts) -> str:
    return p.constant(np.array([1]))


def _row(p: Parts, number: int) -> str:
    return p.op("Tanh", p.op("Mul", f"x {p.weight(WIDTH)}"))


def states(count: int) -> Any:
    """A loop with so many states, each read by a neighbour."""
    outer, inner = Parts(), Parts(prefix="s")
    names = [f"h{i}" for i in range(count)]
    for index, name in enumerate(names):
        both = inner.op("Add", f"{name} {names[(index + 1) % count]}")
        inner.nodes.append(node("Mul", f"{inner.op('Tanh', both)} row", f"next_{name}"))
    inner.nodes.append(node("Identity", "next_h0", "y"))
    body = graph(
        inner.nodes,
        [info(name, (WIDTH,)) for name in (*names, "row")],
        [info(name, (WIDTH,)) for name in (*(f"next_{name}" for name in names), "y")],
    )
    firsts = " ".join(outer.weight(WIDTH) for _ in names)
    results = outer.op("Scan", f"{firsts} x", count + 1, body=body, num_scan_inputs=1)
    return outer.model(results.split()[-1], x=("T", WIDTH))


def joined(count: int) -> Any:
    """One operator with so many inputs, 40 for each part."""
    parts, names = Parts(), [f"x{i}" for i in range(40 * count)]
    y = parts.op("Concat", " ".join(names), axis=0)
    return parts.model(y, **dict.fromkeys(names, (1, WIDTH)))


def summed(count: int) -> Any:
    """As `joined`, of which each element of the result reads all."""
    parts, names = Parts(), [f"x{i}" for i in range(40 * count)]
    return parts.model(parts.op("Sum", " ".join(names)), **dict.fromkeys(names, (1, WIDTH)))


def divided(count: int) -> Any:
    """One operator with so many outputs, 40 for each part, which are the model's."""
    parts = Parts()
    y = parts.op("Split", "x", 40 * count, axis=1, num_outputs=40 * count)
    return parts.model(y, x=("T", 40 * count))


SEQUENCES: tuple[int | str, ...] = ("T", "N", WIDTH)
KINDS: Mapping[str, Kind] = {
    "functions": stacked(_functions),
    "functions in a loop": stepped(_functions),
    "outputs": side_by_side(_row),
    "LSTM layers": stacked(_lstm, x=SEQUENCES),
    "GRUs side by side": side_by_side(_gru, x=SEQUENCES),
    "attention": stacked(_attention, x=("N", "T", WIDTH)),
    "products and norms": stacked(_normalised),
    "products in a loop": stepped(_product),
    "means in a loop": stepped(_centred),
    "convolutions": stacked(_convolution, x=("N", WIDTH, "T")),
    "choices": stacked(_choice),
    "sorts": stacked(_sorted),
    "transposes": stacked(_turned, x=("T", "N")),
    "running sums": stacked(_running),
    "states": states,
    "joined inputs": joined,
    "summed inputs": summed,
    "outputs of one operator": divided,
}


def compiled(kind: str, count: int, train: bool) -> None:
    """Compile one net here; prints processor seconds, and the most memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(KINDS[kind](count), path)
        begin = time.process_time()
        rnncc.compile(path, train=train)
        seconds = time.process_time() - begin
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(kind: str, count: int, train: bool) -> tuple[float, float] | None:
    """Seconds and MB of a process that compiles one net; None where it failed."""
    words = ["-m", "tests.growth", "--one", kind, "--parts", str(count), *["--train"] * train]
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of: {', '.join(KINDS)}; all unless given")
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["RNNCC_CACHE"] = "0"
    if options.one:
        compiled(options.one, options.parts, options.train)
        return 0
    failed = 0
    print(f"{'parts':>24} {options.parts:>8} {2 * options.parts:>8}  times       MB")
    for kind in options.kinds or KINDS:
        once, twice = (measured(kind, n * options.parts, options.train) for n in (1, 2))
        if once is None or twice is None:
            print(f"{kind:>24} failed", flush=True)
            failed += 1
            continue
        times = twice[0] / once[0]
        failed += times > MOST and once[0] > SHORT
        print(
            f"{kind:>24} {once[0]:6.2f} s {twice[0]:6.2f} s {times:6.2f} {twice[1]:8.0f}",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
