"""Layers a step or a chunk at a time: `Model.stream` on the library's own layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError, StreamError

import rnncc
from rnncc.cells import elman, graves_lstm, gru, lstm, milstm
from tests.cells.helpers import inputs_of


@pytest.mark.parametrize("build", [graves_lstm, lstm, gru, elman, milstm], ids=lambda f: f.__name__)
def test_chunks_give_the_bits_of_the_whole(build: Any) -> None:
    layer = build(3, 5, layout="NCT", masked=True, initial_state=True, tbptt=2)
    inputs, model = inputs_of(layer, steps=9), rnncc.compile(layer)
    want = model.run(inputs)
    timed = {name: inputs.pop(name) for name in ("x", "mask")}
    stream = model.stream(inputs=inputs)
    ys: list[Any] = []
    got: dict[str, Any] = {}
    for k in (slice(0, 1), slice(1, 2), slice(2, 6), slice(6, 9)):
        got = stream.step({name: array[..., k] for name, array in timed.items()})
        ys.append(got.pop("y"))
    np.testing.assert_array_equal(np.concatenate(ys, 2), want.pop("y"))
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_another_batch() -> None:
    stream = rnncc.compile(graves_lstm(3, 5)).stream(batch=2)
    with pytest.raises(ArrayError, match="N is 2 in the stream but 3 in x"):
        stream.step({"x": np.zeros((3, 3, 1), np.float32)})


def test_backwards_there_is_no_stream() -> None:
    model = rnncc.compile(elman(3, 5, direction="backward"))
    with pytest.raises(StreamError, match="goes backwards in time"):
        model.stream(batch=1)
