"""Layers of many sizes: weights held in shared memory, tiles in registers, teams of blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import cells
from rnncc.cells import Layer
from rnncc.kern.library import Library
from tests.cells.helpers import inputs_of
from tests.frontends.onnx.models import graph, info, model, node
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.libcuda import Emulator
from tests.gpu.nets import check, quiet_emulator

KINDS: dict[str, Callable[[int, int], Layer]] = {
    "lstm": cells.lstm,
    "gru": cells.gru,
    "gru, reset before": lambda n_in, units: cells.gru(n_in, units, linear_before_reset=False),
    "layer norm": lambda n_in, units: cells.lstm(n_in, units, layer_norm=True),
    "elman": cells.elman,
    "three lstms": lambda n_in, units: cells.lstm(n_in, units, layers=3),
    "masked, both ways": lambda n_in, units: cells.gru(n_in, units, direction="both", masked=True),
    "two milstms": lambda n_in, units: cells.milstm(n_in, units, layers=2),
}
ROOMS = [48 << 10, 64 << 10, 100 << 10, 227 << 10]
"""Bytes of shared memory: what every chip has, and more."""


@dataclass(frozen=True)
class Draw:
    """A layer, sizes, and a GPU."""

    kind: str
    n_in: int
    units: int
    steps: int
    batch: int
    threads: int
    blocks: int
    room: int
    seed: int = 1
    train: bool = False


QUICK = [
    Draw("lstm", 5, 16, 5, 3, 256, 2, ROOMS[0]),
    Draw("lstm", 8, 40, 4, 17, 64, 5, ROOMS[0], seed=2),
    Draw("lstm", 8, 64, 6, 70, 256, 3, ROOMS[3], seed=3),
    Draw("gru", 1, 31, 5, 9, 256, 12, ROOMS[1], seed=4),
    Draw("gru, reset before", 8, 70, 5, 33, 128, 5, ROOMS[2], seed=5),
    Draw("layer norm", 5, 20, 4, 9, 256, 3, ROOMS[0], seed=6),
    Draw("lstm", 8, 40, 5, 33, 256, 3, ROOMS[1], seed=7, train=True),
    Draw("gru", 5, 9, 9, 17, 256, 5, ROOMS[3], seed=8, train=True),
    Draw("two milstms", 8, 20, 5, 5, 64, 3, ROOMS[3], seed=9, train=True),
    Draw("layer norm", 5, 64, 3, 9, 256, 3, ROOMS[3], seed=10, train=True),
    Draw("layer norm", 5, 40, 3, 5, 32, 3, ROOMS[0], seed=11, train=True),
]


def drawn(number: int) -> Draw:
    """One of many, the same in each run."""
    rng = random.Random(number)
    return Draw(
        rng.choice(list(KINDS)),
        rng.choice([1, 5, 8]),
        rng.choice([1, 7, 8, 9, 16, 20, 31, 40, 64, 70]),
        rng.choice([1, 3, 4, 5, 9]),
        rng.choice([1, 2, 3, 5, 9, 17, 33, 70, 129]),
        rng.choice([32, 64, 128, 256, 256]),
        rng.choice([1, 2, 3, 5, 8, 12]),
        rng.choice(ROOMS),
        rng.randrange(1, 1000),
        rng.random() < 0.3,
    )


MANY = [pytest.param(drawn(i), marks=pytest.mark.slow, id=f"draw {i}") for i in range(80)]


@pytest.fixture
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


@cache
def library(kind: str, n_in: int, units: int, train: bool) -> Library:
    return library_of(KINDS[kind](n_in, units), train=train)


@pytest.mark.parametrize("draw", [*(pytest.param(d, id=d.kind) for d in QUICK), *MANY])
def test_a_layer_has_the_bits_of_the_cpu(draw: Draw, cuda: Emulator) -> None:
    layer = KINDS[draw.kind](draw.n_in, draw.units)
    made = library(draw.kind, draw.n_in, draw.units, draw.train)
    net = DeviceNet(made, draw.threads, draw.blocks, draw.room)
    cpu: Any = rnncc.compile(layer, train=draw.train)
    inputs = inputs_of(layer, draw.steps, draw.batch, draw.seed)
    sizes = {"T": draw.steps, "N": draw.batch}
    cuda.configure(seed=draw.seed)
    if not draw.train:
        check(made, net.run(inputs, sizes), cpu.run(inputs))
        return
    want, tape = cpu.forward(inputs)
    rng = np.random.default_rng(draw.seed)
    outer = {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in want.items()}
    outputs, grads = net.train(inputs, cpu.parameters, outer, sizes)
    check(made, outputs, want)
    check(made, grads, cpu.backward(tape, outer))


@pytest.mark.parametrize("blocks", [3, 5])
def test_a_loop_holds_its_weights(blocks: int, cuda: Emulator) -> None:
    """The loop reads shared memory, if there is room and the loop is long enough."""
    net = DeviceNet(library("lstm", 8, 40, False), 64, blocks, ROOMS[1])
    used = list[int]()
    for steps in (1, 8):
        inputs = inputs_of(cells.lstm(8, 40), steps, 5)
        before = cuda.shared_accesses
        net.run(inputs, {"T": steps, "N": 5})
        used.append(cuda.shared_accesses - before)
    assert cuda.report == ""
    assert used[0] == 0 < used[1]


def stacked(widths: tuple[int, ...]) -> Any:
    """LSTMs in ONNX, one after another."""
    rng = np.random.default_rng(0)
    nodes, constants = list[Any](), dict[str, Any]({"axis": np.array([1])})
    before, depth = "x", 3
    for i, width in enumerate(widths):
        for name, shape in (("W", (1, 4 * width, depth)), ("R", (1, 4 * width, width))):
            constants[f"{name}{i}"] = rng.standard_normal(shape).astype(np.float32) / 4
        nodes.append(node("LSTM", f"{before} W{i} R{i}", f"all{i}", hidden_size=width))
        nodes.append(node("Squeeze", f"all{i} axis", f"y{i}"))
        before, depth = f"y{i}", width
    return model(nodes, [info("x", ["T", "N", 3])], [info(before, None)], constants)


@pytest.mark.parametrize("widths", [(8, 24), (24, 8, 40), (40, 8, 8)], ids=str)
def test_teams_of_different_sizes(widths: tuple[int, ...], cuda: Emulator) -> None:
    """One loop's blocks count their waits where another loop's did."""
    net = stacked(widths)
    made, compiled = library_of(net), rnncc.compile(net)
    x = np.random.default_rng(1).standard_normal((6, 3, 3)).astype(np.float32)
    want = compiled.run({"x": x})
    for shape in ((64, 2), (64, 3), (64, 6), (256, 3)):
        check(made, DeviceNet(made, *shape).run({"x": x}, {"T": 6, "N": 3}), want)


def within() -> Any:
    """A loop in a loop, each with a product: h = g(5), g(i + 1) = tanh(g(i) V + tanh(x + h W))."""
    rng = np.random.default_rng(2)
    weights = {n: rng.standard_normal((12, 12)).astype(np.float32) / 4 for n in "WV"}
    iteration = graph(
        [
            node("MatMul", "g V", "gv"),
            node("Add", "gv u", "sum"),
            node("Tanh", "sum", "next"),
            node("Identity", "on", "goes"),
        ],
        [info("i", [], "i64"), info("on", [], "i1"), info("g", None)],
        [info("goes", [], "i1"), info("next", None)],
    )
    step = graph(
        [
            node("MatMul", "h W", "hw"),
            node("Add", "hw xt", "hx"),
            node("Tanh", "hx", "u"),
            node("Loop", "times _ u", "last", body=iteration),
            node("Identity", "last", "y"),
        ],
        [info("h", None), info("xt", None)],
        [info("last", None), info("y", None)],
        {"times": np.array(5)},
    )
    nodes = [node("Scan", "h0 x", "hn ys", num_scan_inputs=1, body=step)]
    given = [info("x", ["T", "N", 12]), info("h0", ["N", 12])]
    return model(nodes, given, [info("ys", None)], weights)


@pytest.mark.parametrize("shape", [(64, 2), (256, 3)], ids=str)
def test_a_loop_in_a_loop(shape: tuple[int, int], cuda: Emulator) -> None:
    """The inner one's weights do not take the place of the outer one's."""
    net = within()
    made, compiled = library_of(net), rnncc.compile(net)
    rng = np.random.default_rng(3)
    inputs = {
        n: rng.standard_normal(s).astype(np.float32)
        for n, s in (("x", (6, 9, 12)), ("h0", (9, 12)))
    }
    check(made, DeviceNet(made, *shape).run(inputs, {"T": 6, "N": 9}), compiled.run(inputs))
