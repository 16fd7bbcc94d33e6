"""Trains the page's net, which says how much of each band of a sound is voice, and writes it here.

python -m examples.web.make_denoiser

Voices and noises are made up: pulses of a pitch through three formants, in syllables; noise of any
colour. For a net that hears real voices, put recordings into `voices()` and `noises()`. The page
computes `bands()` in denoiser.js.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rnncc
from examples.learning import Adam, fills, lstm_net
from rnncc.netdef import NetDef, save

SAMPLE_RATE, WINDOW, HOP, BANDS, UNITS = 16000, 512, 128, 32, 48
FRAMES, POOL, BATCH, UPDATES, RATE = 250, 128, 24, 1200, 0.004
FORMANTS = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480]])
"""Of the vowels a, i, u, e, in Hz."""

Array = np.ndarray[Any, Any]


def net() -> list[NetDef]:
    """gains [T, N, BANDS] from 0 to 1, of x of that shape."""
    return lstm_net("denoiser", BANDS, UNITS, "Sigmoid", [], "gains")


def edges() -> Array:
    """The first bin of each band, and the end: as wide as the ear's, at least one bin."""
    starts = [1]
    for band in range(1, BANDS + 1):
        hertz = 700 * (np.exp(np.log(1 + SAMPLE_RATE / 2 / 700) * band / BANDS) - 1)
        starts.append(max(starts[-1] + 1, round(hertz * WINDOW / SAMPLE_RATE)))
    return np.array(starts)


def spectra(sound: Array) -> Array:
    """Powers [frames, ..., bins] of a sound [..., samples]."""
    count = (sound.shape[-1] - WINDOW) // HOP + 1
    window = np.sqrt(np.hanning(WINDOW + 1)[:-1])
    frames = [sound[..., i * HOP : i * HOP + WINDOW] * window for i in range(count)]
    return np.abs(np.fft.rfft(np.stack(frames))) ** 2


def bands(powers: Array) -> Array:
    """The power of each band."""
    return np.add.reduceat(powers, edges()[:-1], -1)


def features(energies: Array) -> Array:
    """What the net reads."""
    return (np.log10(energies + 1e-4) / 3).astype(np.float32)


def voices(rng: np.random.Generator, samples: int) -> Array:
    """One voice: syllables with pauses between them."""
    t = np.arange(samples) / SAMPLE_RATE
    envelope, vowels = np.zeros(samples), np.zeros((samples, 3))
    start = int(rng.uniform(0, 0.4) * SAMPLE_RATE)
    while start < samples:
        length = int(rng.uniform(0.1, 0.35) * SAMPLE_RATE)
        rows = slice(start, min(start + length, samples))
        shape = np.sin(np.pi * np.arange(length) / length) ** 0.5
        envelope[rows] = rng.uniform(0.4, 1) * shape[: rows.stop - start]
        vowels[rows] = FORMANTS[rng.integers(4)] * rng.uniform(0.85, 1.2)
        start += length + int(rng.choice([0.03, 0.08, 0.5]) * SAMPLE_RATE)
    pitch = rng.uniform(90, 260) * (1 + 0.08 * np.sin(2 * np.pi * rng.uniform(0.4, 1.5) * t))
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    sound = np.zeros(samples)
    for harmonic in range(1, 24):
        hertz = harmonic * pitch
        loud = np.exp(-(((hertz[:, None] - vowels) / 180) ** 2)) @ np.array([1, 0.5, 0.25])
        sound += (loud + 0.02) * np.sin(harmonic * phase) * (hertz < SAMPLE_RATE / 2)
    return envelope * sound / 4


def noises(rng: np.random.Generator, samples: int) -> Array:
    """Noise of some colour, with a hum now and then."""
    spectrum = np.fft.rfft(rng.normal(size=samples))
    spectrum *= (1 + np.arange(len(spectrum)) * 100 / len(spectrum)) ** -rng.uniform(0, 1.2)
    sound = np.fft.irfft(spectrum, samples)
    hum = np.sin(2 * np.pi * rng.uniform(50, 400) * np.arange(samples) / SAMPLE_RATE)
    return sound / sound.std() + rng.choice([0, 0, 1]) * hum


def mixtures(rng: np.random.Generator, voice: Array, noise: Array) -> tuple[Array, Array]:
    """What the net reads, and the gains that it should give."""
    count = len(voice)
    loud = np.stack([voice[i] * rng.uniform(0.2, 1) for i in rng.integers(count, size=BATCH)])
    level = 10 ** rng.uniform(-3, -1, (BATCH, 1))
    faint = noise[rng.integers(count, size=BATCH)] * level
    clean, noisy = bands(spectra(loud)), bands(spectra(loud + faint))
    gains = np.sqrt(np.clip(clean / (noisy + 1e-9), 0, 1))
    return features(noisy), gains.astype(np.float32)


def train(updates: int = UPDATES) -> tuple[dict[str, Array], list[float]]:
    """The parameters and the losses."""
    rng, samples = np.random.default_rng(0), HOP * (FRAMES - 1) + WINDOW
    voice = np.stack([voices(rng, samples) for _ in range(POOL)])
    noise = np.stack([noises(rng, samples) for _ in range(POOL)])
    model = rnncc.compile(*net(), train=True)
    zeros = np.zeros((1, BATCH, UNITS), np.float32)
    fixed = {"seq_lengths": np.full(BATCH, FRAMES, np.int32), "h0": zeros, "c0": zeros}
    adam, losses = Adam(model.parameters, RATE, updates), list[float]()
    for _ in range(updates):
        x, target = mixtures(rng, voice, noise)
        outputs, tape = model.forward({"x": x, **fixed})
        error = outputs["gains"] - target
        losses.append(float((error**2).mean()))
        adam.step(model.backward(tape, {"gains": error * np.float32(2 / BATCH / FRAMES)}))
    return dict(model.parameters), losses


def main(folder: Path) -> None:
    """Write denoiser.pbtxt and denoiser_init.pb."""
    parameters, losses = train()
    save(net()[0], folder / "denoiser.pbtxt", text=True)
    save(fills("denoiser_init", parameters), folder / "denoiser_init.pb")
    print(f"mean squared error of gains {np.mean(losses[-50:]):.4f}")


if __name__ == "__main__":
    main(Path(__file__).parent)
