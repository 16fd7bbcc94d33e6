"""examples/dtln.py: noise goes, block by block as in one go of ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from examples import dtln

MODELS = Path(__file__).parents[3] / "shared/models"
PATHS = MODELS / "dtln_1.onnx", MODELS / "dtln_2.onnx"
pytestmark = pytest.mark.skipif(not MODELS.exists(), reason="the published models are not here")


def noise(count: int) -> Any:
    return np.random.default_rng(0).normal(0, 0.05, count).astype(np.float32)


def by_onnxruntime(noisy: Any) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    first, second = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in PATHS
    )
    states = [np.zeros((1, 2, 128, 2), np.float32) for _ in PATHS]
    out = np.zeros(len(noisy), np.float32)
    for end in range(dtln.BLOCK, len(noisy) + 1, dtln.SHIFT):
        place = slice(end - dtln.BLOCK, end)
        spectrum = np.fft.rfft(noisy[place])
        sizes = np.abs(spectrum).astype(np.float32).reshape(1, 1, -1)
        mask, states[0] = first.run(None, {"input_2": sizes, "input_3": states[0]})
        block = np.fft.irfft(spectrum * mask.reshape(-1)).astype(np.float32).reshape(1, 1, -1)
        sound, states[1] = second.run(None, {"input_4": block, "input_5": states[1]})
        out[place] += sound.reshape(-1)
    return out


@pytest.mark.peers
def test_blocks_are_those_of_onnxruntime() -> None:
    noisy = noise(40 * dtln.SHIFT)
    before = np.zeros(dtln.BLOCK - dtln.SHIFT, np.float32)  # the first block holds one shift
    want = by_onnxruntime(np.concatenate([before, noisy]))[len(before) :]
    got = dtln.denoise(dtln.Denoiser(*PATHS), noisy)
    whole = len(noisy) - dtln.BLOCK  # later ones lack blocks that begin past the end
    np.testing.assert_allclose(got[:whole], want[:whole], 1e-3, 1e-5)


def test_noise_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = noise(2 * dtln.RATE + 77)
    files = tmp_path / "noisy.wav", tmp_path / "clean.wav"
    dtln.write(files[0], noisy)
    monkeypatch.setattr(sys, "argv", ["dtln.py", *map(str, (*PATHS, *files))])
    dtln.main()
    clean = dtln.read(files[1])
    assert len(clean) == len(noisy)
    assert np.square(clean[dtln.RATE :]).mean() < 0.1 * np.square(noisy[dtln.RATE :]).mean()
    assert "us for each 8 ms" in capsys.readouterr().out
