"""Layers compiled for training: gradients in machine code against the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.cells import Layer, elman, graves_lstm, gru, lstm, milstm
from tests.cells.helpers import assert_all_close, exact, gradients, inputs_of

EVERYTHING: dict[str, Any] = {
    "direction": "both",
    "merge": "concatenate",
    "masked": True,
    "initial_state": True,
    "tbptt": 3,
    "drop_connect": 0.4,
    "rescale": True,
}
LAYERS = {
    "lstm, layer norm": lambda: lstm(3, 5, layer_norm=True),
    "gru": lambda: gru(3, 5, initial_state=True),
    "gru, reset first, layer norm": lambda: gru(3, 5, linear_before_reset=False, layer_norm=True),
    "elman": lambda: elman(3, 5, activation="softplus", layers=2),
    "milstm, layer norm": lambda: milstm(3, 5, layer_norm=True),
    "one step": lambda: graves_lstm(3, 5, layout="NC", initial_state=True),
    "everything": lambda: graves_lstm(3, 5, **EVERYTHING),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str) -> None:
    layer: Layer = LAYERS[name]()
    model = rnncc.compile(layer, train=True)
    for steps in (5, 1):
        inputs = inputs_of(layer, steps)
        rng = np.random.default_rng(1)
        want = exact(layer, inputs)
        weights = {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in want.items()}
        outputs, tape = model.forward(inputs)
        assert_all_close(outputs, want)
        assert_all_close(model.backward(tape, weights), gradients(layer, inputs, weights))


def test_parameters_are_the_layers() -> None:
    layer = gru(3, 5)
    model = rnncc.compile(layer, train=True)
    assert model.parameters.keys() == layer.parameters.keys()
    for name, array in model.parameters.items():
        np.testing.assert_array_equal(array, layer.parameters[name])
        array *= 2
    trained = gru(parameters=model.parameters)
    inputs = inputs_of(layer)
    assert_all_close(rnncc.compile(trained).run(inputs), model.forward(inputs)[0])
