"""A library for training, from C: the header, a program that trains, and its errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.netdef import parameters
from tests.golden import CASES
from tests.sanitizers import sanitizers

HERE = Path(__file__).parent
INCLUDE = Path(rnncc_runtime.__file__).parent / "include"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STEPS, STEP_SIZE = 4, np.float32(0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    kinds = ("so", "a", "h", "py")
    rnncc.build(*char_lstm(5, 6), out=folder, name="tiny", products=kinds, train=True)
    return folder


@pytest.mark.parametrize(
    ("library", "checked"), [("-ltiny", False), ("-l:libtiny.a", False), ("-ltiny", True)]
)
def test_a_program_trains_as_python_does(
    folder: Path, tmp_path: Path, library: str, checked: bool
) -> None:
    if checked and not sanitizers():
        pytest.skip("no sanitizers here")
    program = tmp_path / "train"
    flags = ["-std=c11", "-O2", "-ffp-contract=off", *STRICT, f"-I{folder}", f"-I{INCLUDE}"]
    flags += sanitizers().split() if checked else []
    link = [f"-L{folder}", library, f"-Wl,-rpath,{folder}", "-lm"]
    subprocess.run(["cc", *flags, HERE / "train.c", *link, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, check=True)
    assert done.stderr == b"1111211 6610616\n"
    trained = train()
    order = ["i2h_w", "gates_w", "out_w", "i2h_b", "gates_b", "out_b"]
    assert done.stdout == b"".join(trained[name].tobytes() for name in order)


def train() -> dict[str, np.ndarray]:
    """What tests/training/train.c does."""
    model = rnncc.compile(*char_lstm(5, 6), train=True)
    x = np.zeros((6, 2, 5), np.float32)
    x.reshape(12, 5)[range(12), [i * i % 5 for i in range(12)]] = 1
    zeros = np.zeros((1, 2, 6), np.float32)
    inputs = {"x": x, "seq_lengths": np.array([6, 4], np.int32), "h0": zeros, "c0": zeros}
    before = {name: array.copy() for name, array in model.parameters.items()}
    for _ in range(STEPS):
        outputs, tape = model.forward(inputs)
        grads = model.backward(tape, {"probabilities": outputs["probabilities"] - x})
        for name, array in model.parameters.items():
            array -= STEP_SIZE * grads[name]
    assert all((before[name] != array).any() for name, array in model.parameters.items())
    return model.parameters


@pytest.mark.parametrize("standard", ["c99", "c17", "c++11", "c++20"])
def test_header_is_clean(folder: Path, standard: str) -> None:
    language = "c++" if "+" in standard else "c"
    flags = [f"-std={standard}", *STRICT, "-x", language, "-fsyntax-only", f"-I{folder}"]
    subprocess.run(["cc", *flags, "-"], input='#include "tiny.h"\n' * 2, text=True, check=True)


def test_header_says_what_must_stay(folder: Path) -> None:
    text = (folder / "tiny.h").read_text()
    metadata = rnncc_runtime.load(folder / "libtiny.so", train=True).metadata
    assert metadata["kept"] == ["probabilities"]
    assert "float *probabilities; /* probabilities [T, N, 5] (kept) */" in text
    assert "float *hidden_last; /* hidden_last [1, N, 6] */" in text
    assert f"Bytes of the tape: {metadata['tape']};" in text
    assert "tiny_run" not in text


def test_python_module(folder: Path) -> None:
    code = "import tiny; print(*tiny.parameters, tiny.forward, tiny.backward, sep='\\n')"
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["i2h_w", "gates_w"]
    told = subprocess.run(
        [sys.executable, folder / "tiny.py"], capture_output=True, text=True, check=True
    ).stdout
    assert "Parameters:\n    i2h_w: float32 [24, 5]" in told
    assert "Tape, one for each forward pass: " in told


def test_what_the_library_needs(tmp_path: Path) -> None:
    """Nothing from elsewhere but libc, no writable memory, the interface alone."""
    from rnncc.packaging.elf import Elf

    case = CASES[0]
    made = rnncc.build(case / "net.pb", case / "init.pb", out=tmp_path, name="net", train=True)
    assert made.library is not None
    elf = Elf(made.library.read_bytes())
    defined = {symbol.name for symbol in elf.dynamic_symbols if symbol.is_defined}
    functions = ["forward", "backward", "init_parameters", "tape_bytes", "workspace_bytes"]
    functions += ["metadata", "supported", "missing_feature"]
    assert defined == {f"net_{name}" for name in functions}
    assert {s.name for s in elf.dynamic_symbols if not s.is_defined} <= {"memcpy"}
    assert not {section.name for section in elf.sections} & {".data", ".bss", ".init_array"}


def test_parameters_are_those_of_the_init_net() -> None:
    net, init = char_lstm(5, 6)
    model = rnncc.compile(net, init, train=True, seed=3)
    given = parameters(init, seed=3)
    assert model.parameters.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(model.parameters[name], array)
