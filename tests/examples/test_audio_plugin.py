"""examples/audio_plugin: the core in C++ and its LV2 plug-in, driven as a host drives it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc

EXAMPLE = Path(__file__).parents[2] / "examples/audio_plugin"
NET = EXAMPLE / "amp.pbtxt", EXAMPLE / "amp_init.pb"
RATE = 48000
FLAGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
PRINTED = """\
left   0.183 -> 0.191
right  0.183 -> 0.188
again  the same bits
"""


class Descriptor(Structure):
    """LV2_Descriptor."""

    _fields_ = (
        ("uri", c_char_p),
        ("instantiate", CFUNCTYPE(c_void_p, c_void_p, c_double, c_char_p, c_void_p)),
        ("connect_port", CFUNCTYPE(None, c_void_p, c_uint32, c_void_p)),
        ("activate", CFUNCTYPE(None, c_void_p)),
        ("run", CFUNCTYPE(None, c_void_p, c_uint32)),
        ("deactivate", c_void_p),
        ("cleanup", CFUNCTYPE(None, c_void_p)),
        ("extension_data", c_void_p),
    )


class Host:
    """One instance of a plug-in."""

    def __init__(self, path: Path) -> None:
        find = ctypes.CDLL(str(path)).lv2_descriptor
        find.restype = POINTER(Descriptor)
        assert not find(1)
        self.plugin: Any = find(0).contents
        self.handle = self.plugin.instantiate(None, RATE, b"", None)
        assert self.handle
        self.plugin.activate(self.handle)

    def play(self, sound: Any, block: int) -> Any:
        out = np.empty_like(sound)
        for start in range(0, len(sound), block):
            rows = slice(start, min(start + block, len(sound)))
            for port, array in enumerate((sound, out)):
                self.plugin.connect_port(self.handle, port, array[rows].ctypes.data)
            self.plugin.run(self.handle, rows.stop - rows.start)
        return out

    def close(self) -> None:
        self.plugin.cleanup(self.handle)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    if shutil.which("c++") is None or shutil.which("make") is None:
        pytest.skip("no C++ compiler, or no make")
    folder = tmp_path_factory.mktemp("amp")

    def run(target: str) -> str:
        python = f"PYTHON={sys.executable}", f"RNNCC={sys.executable} -m rnncc"
        command = ["make", "-s", "-C", EXAMPLE, target, f"BUILD={folder}", f"CXXFLAGS={FLAGS}"]
        done = subprocess.run(
            [*command, *python],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout if target == "run" else str(folder / "amp.lv2/amp.so")

    return run


def test_program(make: Callable[..., str]) -> None:
    assert make("run") == PRINTED


@cache
def model() -> Any:
    return rnncc.compile(*NET, flush_denormals=True)


def by_model(sound: Any) -> Any:
    return model().stream(batch=1).step({"x": sound[:, None, None]})["y"][:, 0, 0]


@pytest.fixture
def host(make: Callable[..., str]) -> Any:
    if not Path("/usr/include/lv2/core/lv2.h").exists():
        pytest.skip("no headers of LV2: apt-get install lv2-dev")
    made = Host(Path(make("lv2")))
    yield made
    made.close()


@pytest.mark.parametrize("block", [1, 257])
def test_plugin_has_the_nets_bits(host: Host, block: int) -> None:
    sound = np.sin(np.arange(3000) * 0.1, dtype=np.float32)
    assert np.array_equal(host.play(sound, block), by_model(sound))


def test_nan_is_silence(host: Host) -> None:
    sound = np.sin(np.arange(600) * 0.1, dtype=np.float32)
    damaged = sound.copy()
    damaged[[3, 400]] = np.nan, -np.inf
    sound[[3, 400]] = 0
    assert np.array_equal(host.play(damaged, 100), by_model(sound))


def test_it_sounds_as_it_was_taught() -> None:
    """The net against the formula that it was trained on."""
    t = np.arange(4000)
    sound = np.float32(0.5) * np.sin(t * 0.05, dtype=np.float32) * (t < 3000)
    body = sound - filtered(sound, 0.02)
    want = 0.6 * filtered(np.tanh(2.5 * body + 0.3 * np.abs(body)), 0.45)
    error = (by_model(sound.astype(np.float32)) - want)[100:]
    assert np.square(error).sum() < 0.01 * np.square(want[100:]).sum()


def filtered(x: Any, pole: float) -> Any:
    y, state = np.empty_like(x), 0.0
    for i, value in enumerate(x):
        state += pole * (value - state)
        y[i] = state
    return y
