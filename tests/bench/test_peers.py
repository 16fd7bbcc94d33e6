"""Contenders compute what rnncc computes, in processes of their own."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cells
from benchmarks.peers import PEERS
from benchmarks.suites import CUSTOM, STANDARD
from rnncc.bench import own_full
from rnncc.bench.cases import Case
from rnncc.bench.contenders import Array, Contender, Setup, own_contenders, padded
from rnncc.bench.own import make
from rnncc.bench.processes import LeftOut, Process, Processes
from rnncc.bench.running import Effort, cores, run
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run as interpret
from tests.frontends.caffe2.nets import net, op

SMALL = Effort(cores(), rounds=2, seconds=0.001)
QUICK = [peer for peer in PEERS if not peer.slow and peer.device == "cpu"]
RTNEURAL = Path(__file__).parent / "rtneural"


def expected(case: Case) -> Array:
    """Y of a case, by the interpreter."""
    return interpret(cells.build(case), cells.inputs(case))["y"]


@pytest.mark.parametrize("cell", [*STANDARD, *CUSTOM])
def test_own_results(cell: str) -> None:
    case = Case(cell, 8, 2, 3)
    for mode in ("run", "train"):
        call = make(replace(case, mode=mode))
        assert call is not None and call.result is not None
        np.testing.assert_allclose(call.result(), expected(case), atol=1e-5)


@pytest.mark.parametrize("cell", [*STANDARD, *CUSTOM])
def test_rows_end_with_their_sequences(cell: str) -> None:
    case = Case(cell, 8, 5, 7, ragged=True, lengths=True)
    call = make(case)
    assert call is not None and call.result is not None
    got, lengths = call.result(), cells.inputs(case)["lengths"]
    whole = expected(replace(case, lengths=False))
    inside = np.arange(7)[:, None] < lengths
    assert not inside.all()
    np.testing.assert_allclose(got, np.where(inside[..., None], whole, 0.0), atol=1e-5)


def test_padded_is_timed_beside_ragged_alone() -> None:
    case = Case("lstm", 8, 2, 3, lengths=True)
    assert own_full.make(case) is None
    assert own_full.make(replace(case, ragged=True)) is not None
    assert [one.name for one in padded(own_contenders("fp32"))] == ["rnncc padded"]


@pytest.mark.parametrize("cell", STANDARD)
def test_own_steps_from_c(cell: str) -> None:
    case = Case(cell, 8, 1, 1, "step")
    call, again = make(case), make(case)
    assert call is not None and again is not None and call.result and again.result
    first, second = (again.result().copy() for _ in range(2))
    call.repeat(1)
    np.testing.assert_array_equal(call.result(), second)
    assert (first != second).any()


@pytest.mark.peers
@pytest.mark.parametrize("peer", QUICK, ids=lambda peer: peer.name)
def test_peers_compute_the_same(peer: Contender) -> None:
    if not peer.installed:
        pytest.skip(f"{peer.name} is not installed")
    module = import_module(peer.module)
    cases = [Case(cell, 8, 2, 3, m) for cell in (*STANDARD, *CUSTOM) for m in ("run", "train")]
    cases += [Case(cell, 8, 1, 1, "step") for cell in STANDARD]
    cases += [Case(cell, 8, 5, 7, ragged=True, lengths=True) for cell in STANDARD]
    compared = 0
    for case in cases:
        call = module.make(case, Setup(peer.precision))
        if call is not None:
            tolerance = 1e-5 if peer.precision == "fp32" else 0.03
            np.testing.assert_allclose(call.result(), expected(case), atol=tolerance)
            compared += 1
    assert compared >= 2


def test_rtneural_from_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers of the same interface stand for RTNeural's: a layer whose output is a sum."""
    from benchmarks.peers import rtneural

    monkeypatch.setenv("RTNEURAL_DIR", str(RTNEURAL))
    assert next(p for p in PEERS if p.name == "RTNeural").installed
    for cell in STANDARD:
        case = Case(cell, 4, 1, 1, "step")
        call = rtneural.make(case)
        assert call is not None and call.result is not None
        p, x = cells.parameters(case), cells.inputs(case)["x"][0, 0]
        order = [0, 1, 2, 3] if cell == "lstm" else [1, 0, 2]
        w = np.split(p["W"], len(order), 1)[order[0]][0]
        bias = np.split(p["b"], len(order))[order[0]]
        np.testing.assert_allclose(call.result()[0, 0], w * x[0] + bias, rtol=1e-5)
        call.repeat(3)
    assert np.float32(1e-38) * np.float32(0.1) > 0  # it left denormals alone
    assert rtneural.make(Case("lstm", 4, 2, 1, "step")) is None
    assert rtneural.make(Case("milstm", 4, 1, 1, "step")) is None


def test_rtneural_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told is the error, not where it was included from."""
    from benchmarks.peers import rtneural

    folder = tmp_path / "RTNeural"
    folder.mkdir()
    (folder / "RTNeural.h").write_text('#include "inner.h"\n')
    (folder / "inner.h").write_text("#warning old\n#error alignments of 16 alone\n")
    monkeypatch.setenv("RTNEURAL_DIR", str(tmp_path))
    with pytest.raises(ImportError, match=r"error: .*alignments of 16 alone"):
        rtneural.make(Case("lstm", 4, 1, 1, "step"))


def test_run_times_cases_in_processes() -> None:
    told: list[str] = []
    cases = [Case("lstm", 4, 1, 2), Case("gru", 4, 1, 1, "step")]
    results = list(run(cases, own_contenders("fp32,bf16"), SMALL, told.append))
    assert [result.case for result in results] == cases
    assert all(list(result.times) == ["rnncc", "rnncc bf16"] for result in results)
    assert all(times.median > 0 for result in results for times in result.times.values())
    assert any("gru H=4" in what for what in told)


def test_a_refused_net_is_the_user_s_error(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(b"no net")
    case = Case("net", net=str(tmp_path / "a.pb"))
    with pytest.raises(CompileError, match=r"a\.pb"):
        list(run([case], own_contenders("fp32"), SMALL, lambda what: None))


def test_who_cannot_is_left_out() -> None:
    missing = Contender("Nobody", "nobody", "nobody")
    case = Case("lstm", 4, 1, 2)
    (result,) = run([case], [*own_contenders("fp32"), missing], SMALL, lambda what: None)
    assert list(result.times) == ["rnncc"]
    assert "nobody" in result.left["Nobody"]
    with pytest.raises(CompileError, match="nothing computes it"):
        list(run([case], [missing], SMALL, lambda what: None))


def test_a_process_that_ends_is_left_out() -> None:
    with Processes(own_contenders("fp32"), SMALL.cores) as processes:
        (process,) = processes.all
        process.make(Case("lstm", 4, 1, 2))
        assert process.alive
        _kill(process)
        with pytest.raises(LeftOut, match="ended"):
            process.time(1)
        assert not process.alive


def test_a_process_whose_call_fails_is_left_out(tmp_path: Path) -> None:
    """It ends by itself, and is not to be made to stand still on its way."""
    made = net([op("PackSegments", "l x", "y", max_length=4)], "l x", "y")
    (tmp_path / "a.pb").write_bytes(made.SerializeToString())
    options = json.dumps({"shapes": {"l": "N", "x": "S,3"}})
    case = Case("net", net=str(tmp_path / "a.pb"), sizes=(("N", 3), ("S", 5)), options=options)
    with Processes(own_contenders("fp32"), SMALL.cores) as processes:
        (process,) = processes.all
        process.make(case)
        with pytest.raises(LeftOut, match="outside of its table"):
            process.time(1)
        assert not process.alive


def _kill(process: Process) -> None:
    inner = process._process
    assert inner is not None
    inner.kill()
    inner.wait()


def test_processes_run_on_the_core_asked_for() -> None:
    with Processes(own_contenders("fp32"), SMALL.cores) as processes:
        (process,) = processes.all
        process.make(Case("lstm", 4, 1, 2))
        inner = process._process
        assert inner is not None
        assert os.sched_getaffinity(inner.pid) == {SMALL.cores[0]}


def test_processes_stand_still_between_requests() -> None:
    with Processes(own_contenders("fp32"), SMALL.cores) as processes:
        (process,) = processes.all
        process.make(Case("lstm", 4, 1, 2))
        inner = process._process
        assert inner is not None
        _, status = os.waitpid(inner.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert process.time(3) > 0


@pytest.mark.skipif(len(SMALL.cores) < 2, reason="there is one core")
def test_two_threads_have_two_cores() -> None:
    contenders = [one.on(threads) for threads in (1, 2) for one in own_contenders("fp32")]
    with Processes(contenders, SMALL.cores) as processes:
        for process, count in zip(processes.all, (1, 2), strict=True):
            process.make(Case("lstm", 4, 8, 2))
            assert process.time(2) > 0
            inner = process._process
            assert inner is not None
            assert os.sched_getaffinity(inner.pid) == set(SMALL.cores[:count])
        with pytest.raises(LeftOut):
            processes.all[1].make(Case("lstm", 4, 1, 1, "step"))
