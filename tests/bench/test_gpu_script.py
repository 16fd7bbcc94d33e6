"""benchmarks/gpu.py without a GPU: its sections on the CPU's copy of all, and its processes."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.cuda import bars, sections, table

SLEEPS = """
import os, sys, time


def cases():
    return [{"what": what} for what in ("one", "raises", "dies", "two", "hangs", "three")]


def run(case):
    if case["what"] == "raises":
        raise ValueError("no such cell\\nand more")
    if case["what"] == "dies":
        print("out of words", file=sys.stderr)
        os._exit(7)
    if case["what"] == "hangs":
        time.sleep(60)
    return {"us": {"rnncc": 1.0}}


def prepare(case):
    if case["what"] == "dies":
        os._exit(7)
    if case["what"] == "hangs":
        time.sleep(60)
    return lambda: run(case)
"""


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sections.Section:
    """A section whose cases go wrong in every way."""
    module = tmp_path / "benchmarks_cuda_sleeps.py"
    module.write_text(SLEEPS)
    start = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import benchmarks_cuda_sleeps
sys.modules["benchmarks.cuda.sleeps"] = benchmarks_cuda_sleeps
from benchmarks.cuda import worker
sys.argv = ["worker", *sys.argv[1:]]
worker.main()
"""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} -c "$CODE" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CODE", start)
    monkeypatch.setattr(sections.sys, "executable", str(program))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "benchmarks.cuda.sleeps", __import__("benchmarks_cuda_sleeps"))
    monkeypatch.setattr(sections, "START", 3.0)
    return sections.Section("sleeps", "Sleeps", 30, 2.0, workers=2)


def test_a_case_that_goes_wrong_takes_no_other_with_it(section: sections.Section) -> None:
    told: list[str] = []
    rows = sections.run_section(section, time.monotonic() + 30, told.append)
    found = {row["what"]: row for row in rows}
    for what in ("one", "two", "three"):
        assert found[what] == {"what": what, "us": {"rnncc": 1.0}}
    assert found["raises"]["error"] == "ValueError: no such cell"
    assert found["dies"]["error"] == "exit code 7: out of words"
    assert found["hangs"]["error"].startswith("took more than")
    assert len(told) == len(rows)


def test_what_no_time_is_left_for_says_so(section: sections.Section) -> None:
    rows = sections.run_section(section, time.monotonic() - 1, lambda text: None)
    assert {row["error"] for row in rows} == {"no time was left"}


def test_prepared_cases_wait_for_their_turn(section: sections.Section) -> None:
    prepared = sections.Prepared(section)
    deadline = time.monotonic() + 4
    prepared.wait(deadline, lambda text: None)
    hangs = next(t for t in prepared._talks if t.process.poll() is None)
    with prepared.stopped():
        assert state_of(hangs.process.pid) == "T"
    assert state_of(hangs.process.pid) != "T"
    found = {row["what"]: row for row in prepared.run(deadline + 10, lambda text: None)}
    prepared.end()
    assert found["one"] == {"what": "one", "us": {"rnncc": 1.0}}
    assert found["dies"]["error"].startswith("exit code 7")
    assert found["raises"]["error"] == "ValueError: no such cell"
    assert "was not compiled after" in found["hangs"]["error"]


def state_of(process: int) -> str:
    """As the kernel tells it, once a signal has come through."""
    time.sleep(0.2)
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


class FakeModel:
    """A model for the CPU behind the interface of one for a GPU."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def run(self, inputs: Any, out: Any = None, stream: int | None = None) -> Any:
        arrays = {name: getattr(a, "numpy", lambda a=a: a)() for name, a in inputs.items()}
        into = None if out is None else {name: a.numpy() for name, a in out.items()}
        return self.model.run(arrays, out=into)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call or two are timed: what they take is not asked here."""
    pytest.importorskip("torch")
    from benchmarks.cuda import clock

    for name in ("ROUNDS", "LEAST", "MOST"):
        monkeypatch.setattr(clock, name, 1)


@pytest.fixture
def on_cpu(hasty: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch whose device "cuda" is the CPU."""
    torch: Any = pytest.importorskip("torch")
    import rnncc

    def moved(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("device") == "cuda":
                del kwargs["device"]
            return function(*(a for a in args if a != "cuda" or not isinstance(a, str)), **kwargs)

        return call

    for name in ("randn", "full"):
        monkeypatch.setattr(torch, name, moved(getattr(torch, name)))
    monkeypatch.setattr(torch.nn.Module, "to", moved(torch.nn.Module.to))
    monkeypatch.setattr(torch.nn.Module, "cuda", lambda self: self)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))

    class Event:
        def __init__(self, **options: bool) -> None:
            self.at = 0.0

        def record(self) -> None:
            self.at = time.perf_counter()

        def elapsed_time(self, other: Any) -> float:
            return (other.at - self.at) * 1e3

    monkeypatch.setattr(torch.cuda, "Event", Event)
    compile_for_cpu: Any = rnncc.compile

    def compiled(net: Any, **options: Any) -> Any:
        if options.pop("device", None) is None:
            return compile_for_cpu(net, **options)
        return FakeModel(compile_for_cpu(net, **options))

    monkeypatch.setattr(rnncc, "compile", compiled)
    return torch


@pytest.mark.peers
def test_forward(on_cpu: Any) -> None:
    from benchmarks.cuda import forward

    case: dict[str, Any] = {"cell": "lstm", "units": 24, "batch": 3, "steps": 7}
    row = {**case, **forward.run(case)}
    assert row["us"].keys() >= {"fp32", "bf16", "cudnn fp32", "cudnn tf32", "cudnn bf16"}
    assert row["cpu_bits"] is True
    assert "tf32" in row["errors"]["tf32"]  # what the CPU does not have is told, not left out
    assert row["off"]["fp32"] < 1e-6 < row["off"]["bf16"]
    assert "| LSTM | 24 | 3 | 7 |" in table.markdown(results({"forward": [row]}))
    json.dumps(row)
    alone = forward.run({**case, "cell": "gru"})
    assert alone["us"].keys() == {"fp32", "cudnn fp32"}


@pytest.mark.peers
def test_training(on_cpu: Any) -> None:
    from benchmarks.cuda import training

    case: dict[str, Any] = {"units": 16, "batch": 3, "steps": 7}
    row = {**case, **training.run(case)}
    assert row["us"].keys() == {"rnncc", "fp32", "bf16"}
    assert row["errors"].keys() == {"rnncc bf16"}, row["errors"]
    assert "on a GPU" in row["errors"]["rnncc bf16"]
    assert max(row["off"]["rnncc"]) < 1e-5
    assert "| 16 | 3 | 7 |" in table.markdown(results({"training": [row]}))


COPIES = [pytest.param(cell, marks=pytest.mark.slow) for cell in ("milstm", "layernorm_lstm")]
CELLS = ["own", *COPIES]


@pytest.mark.peers
@pytest.mark.parametrize("cell", CELLS)
def test_custom(on_cpu: Any, cell: str) -> None:
    from benchmarks.cuda import custom

    case: dict[str, Any] = {"cell": cell, "units": 16, "batch": 3, "steps": 5}
    row = {**case, **custom.run(case)}
    assert {name for way in row["us"].values() for name in way} == {"rnncc", "eager"}
    assert max(row["off"]["rnncc"]) < 1e-5
    assert "on a GPU" in row["errors"].pop(custom.LOW)
    assert all("in a graph" in name for name in row["errors"])
    peer = {**case, "peer": "JAX", "us": {"both": 2.0}, "compile_s": 1.0}
    text = table.markdown(results({"custom": [row], "compiled": [peer]}))
    assert "custom cells, with gradients, beside JAX | >= 3 times | " in text


@pytest.mark.peers
@pytest.mark.parametrize("cell", CELLS)
def test_compiled_by_torch(on_cpu: Any, cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One graph, and no other way back to Python within."""
    from benchmarks.cuda import compiled

    traced = partial(on_cpu.compile, backend="aot_eager", fullgraph=True)
    monkeypatch.setattr(on_cpu, "compile", traced)
    case = {"peer": "torch.compile", "cell": cell, "units": 16, "batch": 3, "steps": 5}
    row = compiled.prepare(case)()
    assert row["us"].keys() == {"both"}
    assert row["errors"].keys() == {"both in a graph"}
    assert row["compile_s"] > 0


@pytest.mark.peers
def test_warm(on_cpu: Any) -> None:
    """What is compiled ahead is what the sections that are timed load."""
    from benchmarks.cuda import warm

    least = {"units": 8, "batch": 2, "kind": "rnncc"}
    cases = [
        {**least, "of": "custom", "cell": "own"},
        {**least, "of": "training"},
        {"of": "forward", "cell": "gru", "units": 8, "kind": "fp32"},
    ]
    rows = [warm.run(case) for case in cases]
    assert all(row["seconds"] > 0 for row in rows)
    assert "3 of 4 libraries" in table.markdown(results({"warm": [*rows, {"error": "no"}]}))
    named = [tuple(case.values()) for case in warm.cases()]
    assert len(set(named)) == len(named)
    assert {case["of"] for case in warm.cases()} == {"custom", "training", "forward"}


def test_all_cases_of_the_issue() -> None:
    pytest.importorskip("torch")
    counts = {name: len(sections.cases_of(name)) for name in sections.SECTIONS}
    assert counts["forward"] == 2 * 3 * 3 * 2 + 1
    assert counts["training"] == 3 * 3 * 2 + 1
    assert (counts["custom"], counts["compiled"]) == (6, 12)
    assert counts["golden"] >= 10


def results(rows: dict[str, Any]) -> dict[str, Any]:
    return {"device": "none", "date": "", "versions": {}, "seconds": 0.0, "rows": rows}


def forward_row(units: int, ours: float, theirs: float) -> dict[str, Any]:
    times = {"fp32": ours, "cudnn fp32": theirs}
    return {"cell": "lstm", "units": units, "batch": 1, "steps": 100, "us": times, "errors": {}}


def test_bars_are_met_by_every_case_or_not_at_all() -> None:
    def found(rows: list[dict[str, Any]]) -> tuple[str, ...]:
        return bars.bars({"forward": rows})[0]

    assert found([forward_row(256, 1, 4), forward_row(512, 1, 1)])[2:] == (
        "2.00, 1.00 to 4.00; 2 of 2 cases",
        "met",
    )
    assert found([forward_row(256, 1, 8), forward_row(512, 1, 0.9)])[3] == "not met"
    wrong = {**forward_row(512, 1, 9), "errors": {"fp32": "y is off by 1e-1"}}
    assert found([forward_row(256, 1, 4), wrong])[2:] == (
        "4.00, 4.00 to 4.00; 1 of 2 cases",
        "not met",
    )
    assert found([{**wrong, "us": {}}])[3] == "not measured"
