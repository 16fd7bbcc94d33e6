"""Cells that no peer has, once more in NumPy: layer norm, MI-LSTM, the reset before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rnncc.cells import Layer, elman, graves_lstm, gru, lstm, milstm
from tests.cells.helpers import assert_all_close, compiled, exact, inputs_of
from tests.golden import Arrays
from tests.passes.gradients import check_gradients

IN, H = 3, 4
Array = np.ndarray[Any, Any]
States = tuple[Array, ...]
Step = Callable[[Arrays, Array, States], States]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def plain(z: Array, p: Arrays) -> Array:
    return z + p["b"]


def normed(z: Array, p: Arrays, part: slice = slice(None)) -> Array:
    mean, variance = z.mean(-1, keepdims=True), z.var(-1, keepdims=True)
    return (z - mean) / np.sqrt(variance + 1e-5) * p["gain"][part] + p["b"][part]


def lstm_step(sums: Callable[[Array, Array, Arrays], Array], order: str = "ifgo") -> Step:
    """`order`: what the blocks of z are, in the letters of PyTorch."""

    def step(p: Arrays, x: Array, states: States) -> States:
        h, c = states
        z = dict(zip(order, np.split(sums(x @ p["W"], h @ p["RW"], p), 4, -1), strict=True))
        c = sigmoid(z["f"]) * c + sigmoid(z["i"]) * np.tanh(z["g"])
        return sigmoid(z["o"]) * np.tanh(c), c

    return step


def multiplied(u: Array, v: Array, p: Arrays) -> Array:
    return p["alpha"] * u * v + p["beta_x"] * u + p["beta_h"] * v


def gru_step(linear: bool, norm: bool) -> Step:
    rz, n = slice(0, 2 * H), slice(2 * H, 3 * H)

    def sums(z: Array, p: Arrays, part: slice) -> Array:
        return normed(z, p, part) if norm else z + p["b"][part]

    def step(p: Arrays, x: Array, states: States) -> States:
        (h,), u, w = states, x @ p["W"], p["RW"]
        r, z = np.split(sigmoid(sums(u[:, rz] + h @ w[:, rz], p, rz)), 2, -1)
        new = r * (h @ w[:, n] + p["rb"]) if linear else (r * h) @ w[:, n]
        return ((1 - z) * np.tanh(sums(u[:, n] + new, p, n)) + z * h,)

    return step


CASES: dict[str, tuple[Callable[..., Layer], dict[str, Any], Step]] = {
    "lstm": (lstm, {}, lstm_step(lambda u, v, p: plain(u + v, p))),
    "lstm, layer norm": (lstm, {"layer_norm": True}, lstm_step(lambda u, v, p: normed(u + v, p))),
    "graves_lstm, layer norm": (
        graves_lstm,
        {"layer_norm": True, "peepholes": False, "layout": "TNC"},
        lstm_step(lambda u, v, p: normed(u + v, p), "gfoi"),
    ),
    "milstm": (milstm, {}, lstm_step(lambda u, v, p: plain(multiplied(u, v, p), p))),
    "milstm, layer norm": (
        milstm,
        {"layer_norm": True},
        lstm_step(lambda u, v, p: normed(multiplied(u, v, p), p)),
    ),
    "elman, layer norm": (
        elman,
        {"layer_norm": True},
        lambda p, x, s: (np.tanh(normed(x @ p["W"] + s[0] @ p["RW"], p)),),
    ),
    "gru": (gru, {}, gru_step(True, False)),
    "gru, reset first": (gru, {"linear_before_reset": False}, gru_step(False, False)),
    "gru, layer norm": (gru, {"layer_norm": True}, gru_step(True, True)),
    "gru, reset first, layer norm": (
        gru,
        {"linear_before_reset": False, "layer_norm": True},
        gru_step(False, True),
    ),
}


def layer_of(name: str) -> Layer:
    """A layer whose parameters are all random, so that none can be taken for another."""
    build, options, _ = CASES[name]
    rng = np.random.default_rng(2)
    shapes = {n: a.shape for n, a in build(IN, H, **options).parameters.items()}
    drawn = {n: rng.uniform(-1, 1, shape) for n, shape in shapes.items()}
    return build(parameters=drawn, initial_state=True, **options)


@pytest.mark.parametrize("name", CASES)
def test_outputs(name: str) -> None:
    layer, step = layer_of(name), CASES[name][2]
    inputs = inputs_of(layer)
    p = {n: a.astype(np.float64) for n, a in layer.parameters.items()}
    states = tuple(inputs[n].astype(np.float64) for n in ("h0", "c0") if n in inputs)
    y: list[Array] = []
    for x in inputs["x"].astype(np.float64):
        states = step(p, x, states)
        y.append(states[0])
    want = {"y": np.stack(y), **dict(zip(("h_last", "c_last"), states, strict=False))}
    assert_all_close(exact(layer, inputs), want, 1e-9, 1e-9)
    assert_all_close(compiled(layer, inputs), want)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    check_gradients(layer_of(name), {"T": 4, "N": 3})
