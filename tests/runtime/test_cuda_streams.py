"""Streams of models on a GPU, on the emulated one: pieces, states, steps of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import StreamError
from rnncc_runtime.cuda import CudaModel, DeviceArray

from tests.golden import Arrays
from tests.runtime import on_gpu
from tests.runtime.lent_arrays import TRAINED, stream
from tests.runtime.on_gpu import cpu, inputs, there, without_complaint


@pytest.fixture(scope="module")
def model() -> CudaModel:
    return on_gpu.model()


def starts(model: CudaModel) -> Arrays:
    names = model.metadata["stream"]["starts"]
    return {name: array for name, array in inputs().items() if name in names}


@pytest.mark.parametrize("kind", [dict, there])
def test_pieces_give_the_bits_of_the_whole(model: CudaModel, kind: Callable[..., Any]) -> None:
    x, whole = inputs()["x"], cpu().run(inputs())[TRAINED]
    with without_complaint():
        stream = model.stream(inputs=kind(starts(model)))
        found = list[Any]()
        for piece in (x[:2], x[2:3], x[3:3], x[3:]):
            out = stream.step(kind({"x": np.ascontiguousarray(piece)}))[TRAINED]
            found.append(out.numpy() if isinstance(out, DeviceArray) else out)
        np.testing.assert_array_equal(np.concatenate(found), whole)


def test_a_state_is_saved_and_set(model: CudaModel) -> None:
    x, whole = inputs()["x"], cpu().run(inputs())[TRAINED]
    with without_complaint():
        first = model.stream(inputs=starts(model))
        first.step({"x": x[:4]})
        saved = first.state
        near = cpu().stream(inputs=starts(model))
        near.step({"x": x[:4]})
        assert near.state == saved  # and a state may move from the GPU to the CPU
        second = model.stream()
        second.state = saved
        np.testing.assert_array_equal(second.step({"x": x[4:]})[TRAINED], whole[4:])
        with pytest.raises(StreamError, match="damaged"):
            second.state = saved[:-1]


def test_single_steps_into_the_same_arrays(model: CudaModel) -> None:
    x, whole = inputs()["x"], cpu().run(inputs())[TRAINED]
    given, out = there({"x": x[0]}), there({TRAINED: whole[0]})
    with without_complaint():
        stream = model.stream(inputs=starts(model))
        for i, row in enumerate(x):
            given["x"].assign(row)
            stream.step(given, out=out)
            np.testing.assert_array_equal(out[TRAINED].numpy(), whole[i])


def test_steps_on_a_stream_are_not_waited_for(model: CudaModel) -> None:
    x, whole = inputs()["x"], cpu().run(inputs())[TRAINED]
    with without_complaint() as emulator, stream(emulator) as handle:
        pieces = model.stream(inputs=starts(model), on=handle)
        found = [pieces.step(there({"x": row[None]}))[TRAINED] for row in x]
        model.check(handle)
        got = np.concatenate([array.numpy() for array in found])
        np.testing.assert_array_equal(got, whole)
        assert len(pieces.state) > 0


def test_steps_of_all_kinds_in_turn(model: CudaModel) -> None:
    x, whole = inputs()["x"], cpu().run(inputs())[TRAINED]
    with without_complaint() as emulator, stream(emulator) as handle:
        pieces = model.stream(inputs=starts(model), on=handle)
        for _ in range(2):
            found = [pieces.step(there({"x": x[:2]}))[TRAINED]]
            near = pieces.step({"x": x[2:4]})[TRAINED]
            found.append(pieces.step(there({"x": x[4:]}))[TRAINED])
            first, last = (array.numpy() for array in found)
            np.testing.assert_array_equal(np.concatenate([first, near, last]), whole)
            pieces.step(there({"x": x}))
            pieces.reset(starts(model))
