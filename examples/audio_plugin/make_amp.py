"""Trains the plug-in's net, an LSTM that sounds like an overdriven amplifier, and writes it here.

python examples/audio_plugin/make_amp.py

What it learns from is a formula: a soft clipper that bends one way more than the other, between two
filters of first order. To learn from recordings, put them into `examples()`: the dry sound as `x`,
the amplifier's as `y`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.netdef import NetDef, save

UNITS, RATE, UPDATES = 12, 0.01, 1500
BATCH, STEPS, WARM = 24, 384, 64
"""Of an update: sequences, samples of each, and those at its start that the loss leaves out."""

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def net() -> tuple[NetDef, NetDef]:
    """y = x + a line through the states of an LSTM; and how training starts."""
    made, init = char_lstm(1, UNITS)
    made.name = "amp"
    last = made.op[-1]
    last.Clear()
    last.type = "Sum"
    last.input.extend(["logits", "x"])
    last.output.append("y")
    del made.external_output[:]
    made.external_output.append("y")
    return made, init


def filtered(x: Array, pole: float) -> Array:
    """One pole, along the first axis."""
    y, state = np.empty_like(x), np.zeros_like(x[0])
    for t, row in enumerate(x):
        state = state + pole * (row - state)
        y[t] = state
    return y


def amplifier(x: Array) -> Array:
    """The sound to learn."""
    body = x - filtered(x, 0.02)
    driven = np.tanh(2.5 * body + 0.3 * np.abs(body))
    return 0.6 * filtered(driven, 0.45)


def examples(rng: np.random.Generator) -> tuple[Array, Array]:
    """Tones, noise, and silences; float32 [STEPS, BATCH, 1]."""
    t = np.arange(STEPS)[:, None]
    tones = sum(
        rng.uniform(0, 0.6, BATCH) * np.sin(t * rng.uniform(0.01, 0.8, BATCH)) for _ in range(3)
    )
    x = tones + rng.uniform(0, 0.2, BATCH) * rng.normal(size=(STEPS, BATCH))
    x = x * (t < rng.integers(STEPS // 2, 3 * STEPS // 2, BATCH))
    return x[..., None].astype(np.float32), amplifier(x)[..., None].astype(np.float32)


def train(updates: int = UPDATES) -> tuple[Arrays, list[float]]:
    """The parameters, by Adam, and the losses: error over sound, both squared."""
    model = rnncc.compile(*net(), train=True)
    zeros = np.zeros((1, BATCH, UNITS), np.float32)
    fixed = {"seq_lengths": np.full(BATCH, STEPS, np.int32), "h0": zeros, "c0": zeros}
    rng, losses, moments = np.random.default_rng(0), list[float](), dict[str, Arrays]()
    for update in range(1, updates + 1):
        x, want = examples(rng)
        outputs, tape = model.forward({"x": x, **fixed})
        error = outputs["y"] - want
        error[:WARM] = 0
        scale = float((want[WARM:] ** 2).sum())
        losses.append(float((error**2).sum()) / scale)
        grads = model.backward(tape, {"y": error * np.float32(2 / scale)})
        rate = RATE * min(1, 3 * (1 - update / (updates + 1)))
        for name, array in model.parameters.items():
            slope = grads[name]
            m = moments.setdefault(name, {"1": np.zeros_like(array), "2": np.zeros_like(array)})
            m["1"] += 0.1 * (slope - m["1"])
            m["2"] += 0.001 * (slope**2 - m["2"])
            step = m["1"] / (1 - 0.9**update)
            array -= rate * step / (np.sqrt(m["2"] / (1 - 0.999**update)) + 1e-8)
    return dict(model.parameters), losses


def fills(parameters: Arrays) -> NetDef:
    """The net that fills the parameters."""
    init = NetDef(name="amp_init")
    for name, array in parameters.items():
        op = init.op.add(type="GivenTensorFill", output=[name])
        op.arg.add(name="shape", ints=array.shape)
        op.arg.add(name="values", floats=array.ravel().tolist())
    return init


def main(folder: Path) -> None:
    """Write amp.pbtxt and amp_init.pb."""
    parameters, losses = train()
    save(net()[0], folder / "amp.pbtxt", text=True)
    save(fills(parameters), folder / "amp_init.pb")
    print(f"error to signal {np.mean(losses[-50:]):.4f}")


if __name__ == "__main__":
    main(Path(__file__).parent)
