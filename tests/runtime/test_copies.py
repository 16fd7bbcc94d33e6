"""Copies and pickles of models and streams: the code goes along, and what is held is apart."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, LoadError, Model, TrainableModel

import rnncc
from rnncc.codegen.targets import resolve
from rnncc.driver.loading import load_again
from tests.golden import Arrays
from tests.training.models import assert_same_bits

C, H, T, N = 3, 4, 5, 2
COPIERS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda held: pickle.loads(pickle.dumps(held)),
    lambda held: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(held)))),
]


def draw(t: int = T) -> Arrays:
    rng = np.random.default_rng(t)
    return {"x": rng.standard_normal((t, N, C)).astype(np.float32)}


def made(folder: Path, in_memory: bool, train: bool = False) -> Any:
    net = rnncc.cells.gru(C, H)
    if in_memory:
        return rnncc.compile(net, train=train)
    library = rnncc.build(net, out=folder, name="gru", train=train).library
    assert library is not None
    return rnncc_runtime.load(library, train=train) if train else rnncc_runtime.load(library)


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("in_memory", [False, True])
def test_models(tmp_path: Path, in_memory: bool, copier: Any) -> None:
    model: Model = made(tmp_path, in_memory)
    other: Model = copier(model)
    assert other.inputs == model.inputs
    assert_same_bits(other.run(draw()), model.run(draw()), "a copy")


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("in_memory", [False, True])
def test_models_for_training(tmp_path: Path, in_memory: bool, copier: Any) -> None:
    """A copy has the parameters as they are, and its own from then on."""
    model: TrainableModel = made(tmp_path, in_memory, train=True)
    for array in model.parameters.values():
        array += 0.25
    other: TrainableModel = copier(model)
    assert_same_bits(other.parameters, model.parameters, "parameters")
    before = model.forward(draw())[0]
    assert_same_bits(other.forward(draw())[0], before, "a copy")
    for array in other.parameters.values():
        array[...] = 0
    assert_same_bits(model.forward(draw())[0], before, "the model")
    name = next(iter(model.parameters))
    model.parameters[name] = np.zeros(1)
    with pytest.raises(ArrayError, match=f"parameter {name} is float64"):
        copier(model)  # the copy had its number in all elements


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("batch", [None, N])
def test_streams(tmp_path: Path, in_memory: bool, copier: Any, batch: int | None) -> None:
    """A copy goes on where the stream was, and leaves it there."""
    stream = made(tmp_path, in_memory).stream(batch)
    copier(stream).step(draw())
    stream.step(draw(3))
    other = copier(stream)
    want = other.step(draw(2))
    assert_same_bits(stream.step(draw(2)), want, "the stream")


@pytest.mark.parametrize("in_memory", [False, True])
def test_another_process(tmp_path: Path, in_memory: bool) -> None:
    model = made(tmp_path, in_memory)
    (tmp_path / "model").write_bytes(pickle.dumps((model, draw(), model.run(draw()))))
    text = f"""
import pickle
with open({str(tmp_path / "model")!r}, "rb") as file:
    model, given, want = pickle.load(file)
(made,) = model.run(given).values() if len(want) == 1 else (None,)
for name, array in model.run(given).items():
    assert array.tobytes() == want[name].tobytes(), name
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_many_libraries_of_one_name(tmp_path: Path) -> None:
    """Descriptors come back, under which the loader knows the library that was there before."""
    pickles = []
    for units in range(2, 6):
        rnncc.build(rnncc.cells.gru(C, units), out=tmp_path, name="gru")
        pickles.append(pickle.dumps(rnncc_runtime.load(tmp_path / "libgru.so")))
    for _ in range(2):
        for units, content in enumerate(pickles, 2):
            found = pickle.loads(content).run(draw())
            assert units in {array.shape[-1] for array in found.values()}


def test_a_file_that_changed(tmp_path: Path) -> None:
    model = made(tmp_path, False)
    library = tmp_path / "libgru.so"
    content = library.read_bytes()
    library.unlink()  # the process has it mapped
    library.write_bytes(content)
    with pytest.raises(LoadError, match="changed since it was loaded"):
        pickle.dumps(model)
    library.unlink()
    with pytest.raises(LoadError, match="No such file"):
        copy.copy(model)


def test_pickles_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Code of a library that is cut off, of another CPU, and an image that is damaged."""
    load, (content, *names) = made(tmp_path, False).__reduce__()
    with pytest.raises(LoadError):
        load(content[: len(content) // 2], *names)
    _, (image, target) = made(tmp_path, True).__reduce__()
    with pytest.raises(LoadError):
        load_again(image[:-1], target)
    other = resolve("aarch64-linux-gnu")
    with pytest.raises(LoadError, match="does not run on this machine"):
        load_again(image, other)
