"""Examples that a Makefile builds and runs: a microcontroller in qemu, a program in Rust."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rnncc

ROOT = Path(__file__).parents[2]
NEEDED = {
    "microcontroller": ("make", "arm-none-eabi-gcc", "qemu-system-arm"),
    "rust": ("make", "rustc", "cc"),
}
STRICT = "CFLAGS=-O2 -std=c11 -Wall -Wextra -Wpedantic -Werror"


def made(example: str, folder: Path) -> list[str]:
    """What `make run` prints."""
    if missing := [program for program in NEEDED[example] if shutil.which(program) is None]:
        pytest.skip(f"no {', '.join(missing)} here")
    python = f"PYTHON={sys.executable}", f"RNNCC={sys.executable} -m rnncc"
    command = ["make", "-s", "-C", ROOT / "examples" / example, "run", f"BUILD={folder / example}"]
    done = subprocess.run(
        [*command, *python, STRICT],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_microcontroller(tmp_path: Path) -> None:
    *samples, status = made("microcontroller", tmp_path)
    got = np.array([int(text, 16) for text in samples], np.uint32).view(np.float32)
    t = np.arange(48)
    phase = t % 16
    x = (np.where(phase < 8, phase - 4, 12 - phase) / (8 + t)).astype(np.float32)
    net = ROOT / "examples/audio_plugin"
    model = rnncc.compile(net / "amp.pbtxt", net / "amp_init.pb")
    want = model.stream(batch=1).step({"x": x[:, None, None]})["y"]
    np.testing.assert_allclose(got, want[:, 0, 0], 1e-4, 1e-6)
    assert status == "no error"


def test_rust(tmp_path: Path) -> None:
    model = rnncc.compile(ROOT / "examples/lstm.pbtxt", ROOT / "examples/lstm_init.pbtxt")
    word = "HELLO, WORLD"
    x = np.eye(64, dtype=np.float32)[[ord(letter) - 32 for letter in word], None]
    told = model.stream(batch=1).step({"x": x})["probabilities"][:, 0]
    best = zip(word, told.argmax(-1), told.max(-1), strict=True)
    assert made("rust", tmp_path) == [f"{a} -> {chr(32 + b)} ({p:.4f})" for a, b, p in best]
