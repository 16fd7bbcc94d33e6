"""Removes noise from speech, block by block, with the two nets of DTLN.

python examples/dtln.py dtln_1.onnx dtln_2.onnx noisy.wav clean.wav

Every 8 ms the newest 128 of 512 samples come in. The first net (Westhausen and Meyer, 2020) says
how much of each frequency of the block is speech, the second one works on the samples; blocks that
overlap are added up. Both nets keep their states from block to block. The models are published at
github.com/breizhn/DTLN, the sound is 16 kHz, mono, 16 bits. It needs rnncc:
pip install 'rnncc[onnx]'.
"""

from __future__ import annotations

import argparse
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np

import rnncc

RATE, BLOCK, SHIFT = 16000, 512, 128

Samples = np.ndarray[Any, np.dtype[np.float32]]


class Denoiser:
    """A stream of samples, `SHIFT` at a time; what comes out is `BLOCK - SHIFT` samples late.

    Args:
        first, second: the files of the two nets.
    """

    def __init__(self, first: Path, second: Path) -> None:
        self._masks = rnncc.compile(first, state={"input_3": "tf_op_layer_stack_2"}).stream()
        self._sounds = rnncc.compile(second, state={"input_5": "tf_op_layer_stack_5"}).stream()
        self._heard = np.zeros(BLOCK, np.float32)
        self._made = np.zeros(BLOCK, np.float32)

    def step(self, samples: Samples) -> Samples:
        """The next samples without their noise."""
        self._heard = np.concatenate([self._heard[SHIFT:], samples])
        spectrum = np.fft.rfft(self._heard)
        sizes = np.abs(spectrum).astype(np.float32)
        mask = self._masks.step({"input_2": sizes.reshape(1, 1, -1)})["activation_2"]
        block = np.fft.irfft(spectrum * mask.reshape(-1)).astype(np.float32)
        sound = self._sounds.step({"input_4": block.reshape(1, 1, -1)})["conv1d_3"]
        self._made = np.concatenate([self._made[SHIFT:], np.zeros(SHIFT, np.float32)])
        self._made += sound.reshape(-1)
        return self._made[:SHIFT].copy()


def read(path: Path) -> Samples:
    """The samples of a file, within -1 and 1; ends the program if it is of another kind."""
    with wave.open(str(path)) as file:
        kind = file.getframerate(), file.getnchannels(), file.getsampwidth()
        if kind != (RATE, 1, 2):
            raise SystemExit(f"{path}: {kind[0]} Hz, {kind[1]} channels, expected {RATE} Hz, 1")
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return data.astype(np.float32) / np.float32(32768)


def write(path: Path, samples: Samples) -> None:
    """A file of these samples."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def denoise(denoiser: Denoiser, noisy: Samples) -> Samples:
    """All of a sound, as long as it was and in time with it."""
    late = BLOCK - SHIFT
    padded = np.concatenate([noisy, np.zeros(late + -len(noisy) % SHIFT, np.float32)])
    blocks = padded[: len(padded) // SHIFT * SHIFT].reshape(-1, SHIFT)
    return np.concatenate([denoiser.step(block) for block in blocks])[late:][: len(noisy)]


def main() -> None:
    """Read, denoise, write, and say how long a block took."""
    parser = argparse.ArgumentParser(description="Remove noise from speech.")
    for name in ("first", "second", "noisy", "clean"):
        parser.add_argument(name, type=Path)
    chosen = parser.parse_args()
    noisy, denoiser = read(chosen.noisy), Denoiser(chosen.first, chosen.second)
    begun = time.perf_counter()
    write(chosen.clean, denoise(denoiser, noisy))
    spent = (time.perf_counter() - begun) / max(1, len(noisy) // SHIFT)
    print(f"{chosen.clean}: {len(noisy) / RATE:.1f} s, {spent * 1e6:.0f} us for each 8 ms")


if __name__ == "__main__":
    main()
