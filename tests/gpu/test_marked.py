"""Rows of a sequence that blocks hand on without a wait: whoever reads one waits for its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.gpu.nets import bits, check, quiet_emulator

UNITS = 16
LAYERS: dict[str, Callable[[], Layer]] = {
    "lstm": lambda: cells.lstm(5, UNITS),
    "gru": lambda: cells.gru(5, UNITS),
    "backwards": lambda: cells.elman(5, UNITS, direction="backward"),
    "layer norm": lambda: cells.lstm(5, UNITS, layer_norm=True),
    "no fours": lambda: cells.lstm(5, 18),
}
MARKED = {
    "lstm": ["run", "forward", "backward"],
    "gru": ["run", "forward", "backward"],
    "backwards": ["run", "forward", "backward"],
}
SIZES = {"T": 7, "N": 5}
POSTS = 'call void @"emu_post_word"'
GRIDS = [(256, 2), (64, 3), (128, 7)]


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


@cache
def library(kind: str, train: bool = False) -> Library:
    return library_of(LAYERS[kind](), train=train)


def code_of(net: DeviceNet, name: str) -> str:
    text = net.code.text
    return text[text.index(f'@"net_{name}"') :].partition("\n}\n")[0]


@pytest.mark.parametrize("kind", LAYERS)
def test_which_loops_mark_rows(kind: str) -> None:
    """Those of one product, and of a map and its product."""
    whole, trained = DeviceNet(library(kind)), DeviceNet(library(kind, train=True))
    programs = {name: code_of(trained, name) for name in ("forward", "backward")}
    programs = {"run": whole.code.text, **programs}
    found = [name for name, text in programs.items() if POSTS in text]
    assert found == MARKED.get(kind, [])


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("kind", sorted(MARKED))
def test_any_schedule_gives_the_same_bits(kind: str, grid: tuple[int, int], cuda: Emulator) -> None:
    net, cpu = DeviceNet(library(kind), *grid), rnncc.compile(LAYERS[kind]())
    inputs = inputs_of(LAYERS[kind](), SIZES["T"], SIZES["N"], 1)
    want = cpu.run(inputs)
    for seed in (1, 2, 3):
        cuda.configure(seed=seed)
        check(net.library, net.run(inputs, SIZES), want)


def run_at(net: DeviceNet, inputs: dict[str, Any], places: Callable[[int], int]) -> Any:
    """The outputs, each of which lies where `places` moves it; 0 is nowhere."""
    sources, targets = net.library.ports
    with net._session(SIZES) as session:
        session.give("inputs", sources, inputs)
        session.room("outputs", targets)
        session.block("outputs.0", targets[0].bytes.evaluate(SIZES) + 16)
        session.pointers["outputs.0"] = places(session.pointers["outputs.0"])
        session.call("run")
        taken = targets[1:] if session.pointers["outputs.0"] == 0 else targets
        session.pointers |= {
            f"taken.{i}": session.pointers[f"outputs.{targets.index(t)}"]
            for i, t in enumerate(taken)
        }
        return session.taken("taken", taken)


@pytest.mark.parametrize(
    "places", [lambda at: 0, lambda at: at + 4, lambda at: at + 16], ids=["none", "odd", "moved"]
)
def test_wherever_an_output_lies(places: Callable[[int], int], cuda: Emulator) -> None:
    """A sequence that nobody wants is one row; one at no multiple of 16 bytes is not marked."""
    net, inputs = DeviceNet(library("lstm"), 64, 3), inputs_of(LAYERS["lstm"](), 7, 5, 1)
    want = rnncc.compile(LAYERS["lstm"]()).run(inputs)
    for name, array in run_at(net, inputs, places).items():
        np.testing.assert_array_equal(bits(array), bits(want[name]), err_msg=name)
    assert cuda.report == ""


def choosing() -> Any:
    """h = x where x is not a number, else tanh(h W + x): what no sum has made is handed on."""
    rng = np.random.default_rng(0)
    body = graph(
        [
            node("MatMul", "h W", "hw"),
            node("Add", "hw x", "sum"),
            node("Tanh", "sum", "new"),
            node("IsNaN", "x", "odd"),
            node("Where", "odd x new", "next"),
            node("Identity", "next", "y"),
        ],
        [info("h", None), info("x", None)],
        [info("next", None), info("y", None)],
        {"W": (rng.standard_normal((UNITS, UNITS)) / 4).astype(np.float32)},
    )
    scan = node("Scan", "h0 xs", "last ys", num_scan_inputs=1, body=body)
    given = [info("xs", ["T", "N", UNITS]), info("h0", ["N", UNITS])]
    return model([scan], given, [info("ys", None)])


def test_the_mark_itself_is_handed_on_as_another_nan(cuda: Emulator) -> None:
    """Else whoever reads it would wait for ever."""
    net, rng = choosing(), np.random.default_rng(1)
    made, cpu = library_of(net), rnncc.compile(net)
    xs = rng.standard_normal((7, 5, UNITS)).astype(np.float32)
    xs.view(np.uint32)[2, 3, 4] = 0xFFFFFFFF
    inputs = {"xs": xs, "h0": np.full((5, UNITS), 0xFFFFFFFF, np.uint32).view(np.float32)}
    device = DeviceNet(made, 64, 3)
    assert POSTS in device.code.text
    got, want = device.run(inputs, SIZES)["ys"], cpu.run(inputs)["ys"]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(want[2, 3, 4])
    assert cuda.report == ""
