"""The memory report: that library's formulas, and what the plan takes."""

from __future__ import annotations

from typing import Any

import pytest

import rnncc
from rnncc.cells import graves_lstm, gru, lstm, memory_report
from rnncc.driver import compiling
from rnncc.options import Options
from tests.cells.helpers import inputs_of

T, N, H = 10, 3, 16


@pytest.mark.parametrize(
    ("options", "factor", "back"),
    [
        ({}, 1, 9),
        ({"peepholes": False}, 1, 6),
        ({"direction": "both"}, 2, 9),
        ({"layers": 3, "direction": "both", "peepholes": False}, 6, 6),
    ],
)
def test_their_formulas(options: Any, factor: int, back: int) -> None:
    report = memory_report(graves_lstm(8, H, **options), steps=T, batch=N)
    unit = 4 * factor * T * N * H
    want = {
        "inference, working": 4 * unit,
        "training, cached": 6 * unit,
        "forward, working": None,
        "backward, working": back * unit,
    }
    assert {row.what: row.theirs for row in report.rows} == want


def test_ours_is_the_plan() -> None:
    layer, sizes = graves_lstm(8, H), {"T": T, "N": N}
    inference, training = (
        compiling.build_library(layer, None, Options(train=train)) for train in (False, True)
    )
    assert training.training is not None
    want: dict[str, Any] = {
        "inference, working": inference.workspace,
        "training, cached": training.training.tape,
        "forward, working": training.programs["forward"].workspace,
        "backward, working": training.programs["backward"].workspace,
    }
    for given in ([inference, training], None):
        for row in memory_report(layer, steps=T, batch=N, libraries=given).rows:
            assert (row.ours, row.formula) == (want[row.what].evaluate(sizes), str(want[row.what]))
    first, *others = memory_report(layer, steps=T, batch=N, libraries=[inference]).rows
    assert first.formula == str(inference.workspace)
    assert {(row.ours, row.formula) for row in others} == {(None, "")}


def test_the_tape_is_as_long_as_told() -> None:
    layer = graves_lstm(8, H)
    model: Any = rnncc.compile(layer, train=True)
    _, tape = model.forward(inputs_of(layer, T, N))
    assert memory_report(layer, steps=T, batch=N).rows[1].ours == tape.nbytes


def test_without_formulas() -> None:
    rows = memory_report(gru(8, H), steps=T).rows
    assert {row.theirs for row in rows} == {None}
    assert memory_report(lstm(8, H), steps=T).rows[0].theirs == 4 * 4 * T * H


def test_table() -> None:
    report = memory_report(lstm(8, H), steps=100, batch=2)
    ours = [f"{row.ours:>16,}  {row.formula}" for row in report.rows]
    assert str(report).splitlines() == [
        "lstm, T = 100, N = 2: bytes",
        "                          Deeplearning4j           rnncc  rnncc's formula",
        f"inference, working                51,200{ours[0]}",
        f"training, cached                  76,800{ours[1]}",
        f"forward, working                       -{ours[2]}",
        f"backward, working                 76,800{ours[3]}",
    ]
