"""What is refused, and how it is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.cells import graves_lstm, gru, memory_report
from rnncc.errors import CompileError
from tests.cells.helpers import inputs_of

W, RW, B = np.zeros((3, 20)), np.zeros((5, 23)), np.zeros(20)
GOOD = {"W": W, "RW": RW, "b": B}


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        (
            (4, 5),
            {"parameters": GOOD},
            "graves_lstm: W is 3 x 20, expected 4 x 20 by n_in and n_out",
        ),
        (
            (3, 6),
            {"parameters": GOOD},
            "graves_lstm: W is 3 x 20, expected 3 x 24 by n_in and n_out",
        ),
        (
            (3, 5),
            {"parameters": GOOD, "peepholes": False},
            "graves_lstm: RW is 5 x 23, expected 5 x 20 by n_in and n_out",
        ),
        (
            (3, 5),
            {"parameters": {"W": W, "RW": RW, "c": B}},
            "graves_lstm: parameter 'b' is missing; no parameter is named 'c' (it has W, RW, b)",
        ),
        (
            (3, 5),
            {"parameters": {**GOOD, "b": np.array(["a"])}},
            "graves_lstm: b holds <U1, expected numbers",
        ),
        ((), {}, "graves_lstm: n_in is not given, nor a matrix W that shows it"),
        (
            (3,),
            {"direction": "both", "parameters": GOOD},
            "graves_lstm: n_out is not given, nor a matrix RWF that shows it",
        ),
        ((0, 5), {}, "graves_lstm: n_in is 0, expected a number from 1 up"),
        ((3, 2.5), {}, "graves_lstm: n_out is 2.5, expected a number from 1 up"),
        (
            (3, 5),
            {"direction": "sideways"},
            "direction is 'sideways', expected forward, backward, both",
        ),
        ((3, 5), {"layout": "CNT"}, "layout is 'CNT', expected NCT, NTC, TNC, NC"),
        ((3, 5), {"merge": "max"}, "merge is 'max', expected add, multiply, average, concatenate"),
        ((3, 5), {"layers": 0}, "layers is 0, expected a number from 1 up"),
        ((3, 5), {"tbptt": 0}, "tbptt is 0, expected a number from 1 up"),
        ((3, 5), {"drop_connect": 1.0}, "drop_connect is 1.0, expected from 0 up and below 1"),
        ((3, 5), {"seed": -1}, "seed is -1, expected a number from 0 up"),
        ((3, 5), {"name": "a b"}, "name is 'a b', expected a C identifier"),
    ],
)
def test_refusals(sizes: Any, options: Any, message: str) -> None:
    with pytest.raises(CompileError) as error:
        graves_lstm(*sizes, **options)
    assert str(error.value) == message


def test_unknown_option() -> None:
    options: Any = {"bidirectional": True}
    with pytest.raises(TypeError, match="bidirectional"):
        gru(3, 5, **options)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("x", (2, 4, 4), "x has shape [2, 4, 4]: axis 1 is 4, expected 3"),
        ("h0", (3, 5), "N is 2 in x but 3 in h0"),
        ("mask", (2, 3), "T is 4 in x but 3 in mask"),
    ],
)
def test_arrays_that_do_not_fit(name: str, shape: tuple[int, ...], message: str) -> None:
    layer = graves_lstm(3, 5, initial_state=True, masked=True)
    inputs = inputs_of(layer, steps=4, batch=2)
    inputs[name] = np.zeros(shape, np.float32)
    with pytest.raises(ArrayError) as error:
        rnncc.compile(layer).run(inputs)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("init", "options", "what"),
    [(b"", {}, "an init net"), (None, {"shapes": {"x": "1"}}, "shapes")],
)
def test_what_a_layer_has_itself(init: bytes | None, options: Any, what: str) -> None:
    with pytest.raises(CompileError) as error:
        rnncc.compile(graves_lstm(3, 5), init, **options)
    assert str(error.value) == f"graves_lstm: {what} given for a net that has its own"


def test_memory_of_nothing() -> None:
    with pytest.raises(CompileError, match="steps = 0, batch = 1: expected at least 1"):
        memory_report(graves_lstm(3, 5), steps=0)
