"""Trains the plug-in's net, an LSTM that sounds like an overdriven amplifier, and writes it here.

python -m examples.audio_plugin.make_amp

What it learns from is a formula: a soft clipper that bends one way more than the other, between two
filters of first order. To learn from recordings, put them into `examples()`: the dry sound as `x`,
the amplifier's as `y`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rnncc
from examples.learning import Adam, fills, lstm_net
from rnncc.netdef import NetDef, save

UNITS, RATE, UPDATES = 12, 0.01, 1500
BATCH, STEPS, WARM = 24, 384, 64
"""Of an update: sequences, samples of each, and those at its start that the loss leaves out."""

Array = np.ndarray[Any, Any]


def net() -> list[NetDef]:
    """y = x + a line through the states of an LSTM; and how training starts."""
    return lstm_net("amp", 1, UNITS, "Sum", ["x"], "y")


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


def train(updates: int = UPDATES) -> tuple[dict[str, Array], list[float]]:
    """The parameters, by Adam, and the losses: error over sound, both squared."""
    model = rnncc.compile(*net(), train=True)
    zeros = np.zeros((1, BATCH, UNITS), np.float32)
    fixed = {"seq_lengths": np.full(BATCH, STEPS, np.int32), "h0": zeros, "c0": zeros}
    rng, losses = np.random.default_rng(0), list[float]()
    adam = Adam(model.parameters, RATE, updates)
    for _ in range(updates):
        x, target = examples(rng)
        outputs, tape = model.forward({"x": x, **fixed})
        error = outputs["y"] - target
        error[:WARM] = 0
        scale = float((target[WARM:] ** 2).sum())
        losses.append(float((error**2).sum()) / scale)
        adam.step(model.backward(tape, {"y": error * np.float32(2 / scale)}))
    return dict(model.parameters), losses


def main(folder: Path) -> None:
    """Write amp.pbtxt and amp_init.pb."""
    parameters, losses = train()
    save(net()[0], folder / "amp.pbtxt", text=True)
    save(fills("amp_init", parameters), folder / "amp_init.pb")
    print(f"error to signal {np.mean(losses[-50:]):.4f}")


if __name__ == "__main__":
    main(Path(__file__).parent)
