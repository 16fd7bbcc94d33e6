"""Drop-connect: which weights a seed drops, in NumPy and machine code; its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.cells import Layer, elman, graves_lstm, gru, lstm, milstm
from rnncc.ir.ops.random import philox
from tests.cells.helpers import assert_all_close, compiled, exact, gradients, inputs_of

IN, H, P = 7, 5, 0.3
each_cell = pytest.mark.parametrize(
    "build", [graves_lstm, lstm, gru, elman, milstm], ids=lambda f: f.__name__
)


def kept(seed: int, shape: tuple[int, ...], stream: int = 0) -> Any:
    """Which weights stay: those whose number is not below P."""
    index = np.arange(shape[0] * shape[1], dtype=np.uint64)
    key = np.full_like(index, seed % 2**32)
    word, _ = philox((index, np.full_like(index, stream)), key)
    return ((word >> 8) * 2.0**-24 >= np.float32(P)).reshape(shape)


def without(layer: Layer, **changed: Any) -> Layer:
    """The Graves LSTM of the same parameters, some of them changed, for inference."""
    direction = layer.settings.direction
    return graves_lstm(parameters={**layer.parameters, **changed}, direction=direction)


@each_cell
def test_code_and_numpy_drop_the_same(build: Any) -> None:
    layer = build(IN, H, drop_connect=P)
    inputs = inputs_of(layer)
    model = rnncc.compile(layer)
    for seed in (0, 5, -1):
        inputs["seed"] = np.array(seed, np.int32)
        dropped = build(
            parameters={
                **layer.parameters,
                "W": layer.parameters["W"] * kept(seed, layer.parameters["W"].shape),
            }
        )
        want = exact(dropped, {"x": inputs["x"]})
        assert_all_close(exact(layer, inputs), want, 1e-12, 1e-12)
        assert_all_close(model.run(inputs), want)


def test_a_seed_says_it_all() -> None:
    layer = graves_lstm(IN, H, drop_connect=P)
    model, inputs = rnncc.compile(layer), inputs_of(layer)
    first = model.run(inputs)["y"]
    np.testing.assert_array_equal(model.run(inputs)["y"], first)
    assert (model.run({**inputs, "seed": np.array(6, np.int32)})["y"] != first).any()


def test_how_many() -> None:
    shares = [kept(seed, (50, 80)).mean() for seed in range(20)]
    np.testing.assert_allclose(np.mean(shares), 1 - P, atol=4 * (P * (1 - P) / 80000) ** 0.5)


def test_directions_and_layers_drop_apart() -> None:
    layer = graves_lstm(IN, H, drop_connect=P, direction="both")
    inputs, p = inputs_of(layer), layer.parameters
    masks = [kept(5, p["WF"].shape, stream) for stream in (0, 1)]
    assert (masks[0] != masks[1]).any()
    dropped = without(layer, WF=p["WF"] * masks[0], WB=p["WB"] * masks[1])
    assert_all_close(exact(layer, inputs), exact(dropped, {"x": inputs["x"]}), 1e-12, 1e-12)
    stack = lstm(IN, H, drop_connect=P, layers=2)
    inputs, p = inputs_of(stack), stack.parameters
    for number in (0, 1):
        p[f"layer{number}/W"] *= kept(5, p[f"layer{number}/W"].shape, number)
    want = exact(lstm(IN, parameters=p, n_out=H, layers=2), {"x": inputs["x"]})
    assert_all_close(exact(stack, inputs), want, 1e-12, 1e-12)


def test_kept_weights_grown() -> None:
    layer = graves_lstm(IN, H, drop_connect=P, rescale=True)
    inputs, w = inputs_of(layer), layer.parameters["W"]
    dropped = without(layer, W=w * kept(5, w.shape) / (1 - P))
    assert_all_close(compiled(layer, inputs), exact(dropped, {"x": inputs["x"]}))


def test_gradients() -> None:
    """Of a weight that was dropped: none; of all others as if they alone were there."""
    layer = graves_lstm(IN, H, drop_connect=P)
    inputs, w = inputs_of(layer), layer.parameters["W"]
    weights = {"y": np.random.default_rng(1).standard_normal((3, H, 5))}
    mask = kept(5, w.shape)
    got = gradients(layer, inputs, weights)
    want = gradients(without(layer, W=w * mask), {"x": inputs["x"]}, weights)
    want["W"] = want["W"] * mask
    assert_all_close(got, want, 1e-9, 1e-9)
    assert (got["W"][~mask] == 0).all()


def test_without_it_there_is_no_seed() -> None:
    layer = graves_lstm(IN, H, drop_connect=P)
    assert list(without(layer).net.inputs) == ["x"]
