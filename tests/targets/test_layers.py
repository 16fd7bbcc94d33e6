"""Layers from plain numbers on each target that a machine without emulators runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model, TrainableModel

import rnncc
from tests.targets.running import ALWAYS, close, compiled_for, skip_without_hardware

LAYERS = {
    "lstm": lambda: rnncc.cells.lstm(5, 19, layer_norm=True, seed=1),
    "gru": lambda: rnncc.cells.gru(5, 19, seed=2),
}
X = np.random.default_rng(0).normal(size=(6, 3, 5)).astype(np.float32)


def on_target(layer: Any, name: str, **options: Any) -> Any:
    skip_without_hardware(name)
    return compiled_for(layer, None, name, **options)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ALWAYS)
def test_results_and_streams(name: str, layer: str) -> None:
    net = LAYERS[layer]()
    model = on_target(net, name)
    assert isinstance(model, Model)
    got = model.run({"x": X})
    close(got, rnncc.compile(net).run({"x": X}))
    stream = model.stream(batch=3)
    pieces = [stream.step({"x": X[first:last]})["y"] for first, last in ((0, 1), (1, 4), (4, 6))]
    np.testing.assert_array_equal(np.concatenate(pieces), got["y"])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ALWAYS)
def test_gradients(name: str, layer: str) -> None:
    net = LAYERS[layer]()
    model, here = on_target(net, name, train=True), rnncc.compile(net, train=True)
    assert isinstance(model, TrainableModel)
    outer = {"y": np.linspace(-1, 1, 6 * 3 * 19, dtype=np.float32).reshape(6, 3, 19)}
    got, want = (m.backward(m.forward({"x": X})[1], outer) for m in (model, here))
    close(got, want)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("name", [name for name in ALWAYS if name != "c99"])
def test_precision(name: str, precision: str) -> None:
    net = LAYERS["gru"]()
    model = on_target(net, name, precision=precision)
    close(model.run({"x": X}), rnncc.compile(net, precision=precision).run({"x": X}), 1e-2)
