"""`--tune`: settings of the code generator that are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from click.testing import CliRunner
from rnncc_runtime import Model, TrainableModel

import rnncc
from rnncc import cells
from rnncc.cli import cli
from rnncc.driver import compiling, tuning
from rnncc.driver.timing import Times
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.options import Options

SETTINGS = [{n: v} for n, values in tuning.CANDIDATES.items() for v in values]
X = np.random.default_rng(0).standard_normal((40, 5, 70), np.float32)


def layer() -> Program:
    return cells.lstm(70, 90)


def passes(model: TrainableModel) -> dict[str, Any]:
    outputs, tape = model.forward({"x": X})
    return {**outputs, **model.backward(tape, {"y": outputs["y"]})}


def results(settings: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        precision: rnncc.compile(layer(), precision=precision, tuning=settings).run({"x": X})["y"]
        for precision in ("fp32", "bf16", "int8")
    }
    return found | passes(rnncc.compile(layer(), train=True, tuning=settings))


@cache
def usual_results() -> dict[str, Any]:
    return results({})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_bits_do_not_depend_on_settings(settings: Mapping[str, int]) -> None:
    got = results(settings)
    for name, array in usual_results().items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_change_the_code(settings: Mapping[str, int]) -> None:
    """Of a net that is large enough; else there would be nothing to choose from. The machine is one
    that has none of these by itself."""
    machine = {"target": "x86_64-linux-gnu", "cpu": "x86-64-v4"}
    options = [Options.of(None, {**machine, "tuning": s}) for s in ({}, settings)]
    made = [compiling.emit(cells.gru(300, 300), None, o, "obj").content for o in options]
    assert made[0] != made[1]


def timed(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[str], float]) -> list[str]:
    """Replace the clock: what candidates take, by their settings; returns what was timed."""
    seen: list[str] = []

    def alternate(timers: Mapping[str, Any], rounds: int, each: float) -> dict[str, Times]:
        seen.extend(timers)
        assert all(timer(2) > 0 for timer in timers.values())  # they can be run
        return {name: Times.of([seconds(name)]) for name in timers}

    monkeypatch.setattr(tuning, "alternate", alternate)
    return seen


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer candidates: each is compiled."""
    monkeypatch.setattr(tuning, "CANDIDATES", {"vectors": tuning.CANDIDATES["vectors"]})


@pytest.mark.parametrize("train", [False, True])
def test_the_fastest_is_taken(train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = timed(monkeypatch, lambda name: 0.5 if '"vectors": 8' in name else 1.0)
    options = Options.of(None, {"tune": True, "train": train, "plan_for": "4,2"})
    chosen = compiling.with_tuning(layer(), None, options)
    assert (dict(chosen.tuning), chosen.tune) == ({"vectors": 8}, False)
    assert len(seen) >= 4


def test_what_gains_little_is_not_taken(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda name: 1.0 if name == "{}" else 0.99)
    assert not compiling.with_tuning(layer(), None, Options.of(None, {"tune": True})).tuning


def test_what_was_found_is_remembered(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path))
    seen = timed(monkeypatch, lambda name: 0.5 if '"vectors": 8' in name else 1.0)
    for _ in range(2):
        model = rnncc.compile(layer(), tune=True, plan_for={"T": 3, "N": 1})
        assert isinstance(model, Model)
    measured = len(seen)
    rnncc.compile(layer(), tune=True, plan_for={"T": 4, "N": 1})  # other sizes
    assert len(seen) == 2 * measured


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"[]",
        b"3",
        b"\xff",
        b'{"vectors": 0}',
        b'{"vectors": "8"}',
        b'{"other": 8}',
        b"[" * 10**5,
    ],
    ids=lambda entry: str(entry[:20]),
)
def test_junk_is_measured_anew(entry: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.cache, "find", lambda key: entry)
    monkeypatch.setattr(tuning, "_measured", lambda *_: {"vectors": 8})
    options = compiling.with_tuning(layer(), None, Options.of(None, {"tune": True}))
    assert options.tuning == {"vectors": 8}


def test_from_the_command_line(few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = timed(monkeypatch, lambda name: 1.0)
    words = ["compile", "examples/lstm.pbtxt", "--init", "examples/lstm_init.pbtxt", "--tune"]
    done = CliRunner().invoke(cli, [*words, "-v", "-o", str(tmp_path), "--plan-for", "3,2"])
    assert done.exit_code == 0, done.output
    assert "tuned" in done.output
    assert seen
    assert isinstance(rnncc_runtime.load(tmp_path / "liblstm.so"), Model)


def indexed() -> Program:
    b = Builder.net("rows")
    table, index = b.input("table", [3, 300]), b.input("index", ["T"], "i32")
    w = b.param("w", (300, 300))
    arrays = {"w": np.zeros((300, 300), np.float32)}
    return b.finish({"y": b.matmul(b.gather(table, index, 0), w)}, arrays, "rows")


@pytest.mark.parametrize(
    ("net", "options", "message"),
    [
        (layer, {"target": "aarch64-linux-gnu"}, "does not run on this machine"),
        (layer, {"plan_for": "Q=3"}, "the net has no Q"),
        (indexed, {"plan_for": "T=9"}, "random arrays do not suit the net"),
        (layer, {"tuning": {"speed": 9}}, "no setting is named speed"),
        (layer, {"tuning": {"cache": 0}}, "cache 0 is not a number from 1 up"),
    ],
)
def test_refusals(net: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.build(net(), out=tmp_path, tune=True, **options)
