"""Suites build, cases survive a way through JSON, and their nets compile."""

from __future__ import annotations

import json

import pytest

from benchmarks import cells
from benchmarks.peers import PEERS
from benchmarks.suites import CUSTOM, STANDARD, SUITES
from rnncc.bench.cases import Case
from rnncc.bench.contenders import own_contenders
from rnncc.bench.repository import cases_of, chosen_peers
from rnncc.errors import CompileError


@pytest.mark.parametrize("suite", SUITES)
def test_cases_have_names_of_their_own(suite: str) -> None:
    cases = cases_of(suite)
    assert len({case.name for case in cases}) == len(cases) > 0
    assert all(case.cell in (*STANDARD, *CUSTOM) for case in cases)
    assert [Case.from_dict(json.loads(json.dumps(case.to_dict()))) for case in cases] == cases


def test_suites_have_the_sizes_that_are_asked_for() -> None:
    assert len(cases_of("deepbench-server")) == 69
    assert Case("lstm", 1024, 1, 100) in cases_of("standard")
    assert Case("attention_lstm", 256, 32, 50) in cases_of("custom")
    assert Case("gru", 256, 1, 1, "step") in cases_of("streaming")
    assert {(case.cell, case.batch) for case in cases_of("batches")} >= {("gru", 2), ("lstm", 16)}
    assert {case.units for case in cases_of("rtneural")} == {4, 8, 16, 32, 64}
    assert all(case.mode == "train" for case in cases_of("training"))
    assert all(case.lengths and case.ragged for case in cases_of("ragged"))
    assert Case("lstm", 256, 32, 50, ragged=True, lengths=True) in cases_of("ragged")


def test_only_takes_words_of_the_name() -> None:
    assert [case.units for case in cases_of("standard", "gru H=64")] == [64]
    with pytest.raises(CompileError, match="no case of standard"):
        cases_of("standard", "H=65")


@pytest.mark.parametrize("cell", [*STANDARD, *CUSTOM])
def test_nets_take_the_inputs_of_peers(cell: str) -> None:
    case = Case(cell, 5, 2, 3)
    program = cells.build(case)
    assert list(program.net.inputs) == list(cells.inputs(case))
    assert next(iter(program.net.outputs)) == "y"
    lengths = cells.inputs(Case(cell, 5, 40, 30, ragged=True, lengths=True))["lengths"]
    assert 1 <= lengths.min() < lengths.max() <= 30
    biases = [array for array in cells.parameters(case).values() if array.ndim == 1]
    assert biases and all(array.std() > 0 for array in biases)


def test_contenders_are_chosen_by_name() -> None:
    assert [one.precision for one in own_contenders("fp32, int8")] == ["fp32", "int8"]
    assert chosen_peers("none") == []
    assert not [peer for peer in chosen_peers(None) if peer.slow or peer.precision != "fp32"]
    for names in ("Caffe9", "PyTorch,ONNX"):
        with pytest.raises(CompileError, match="no peer is named"):
            chosen_peers(names)
    with pytest.raises(CompileError, match="fp8"):
        own_contenders("fp8")
    missing = next((peer for peer in PEERS if not peer.installed), None)
    if missing is not None:
        hint = rf"needs {missing.needs}; pip install 'rnncc\[peers\]'"
        with pytest.raises(CompileError, match=f"not installed .*{hint}"):
            chosen_peers(missing.name, device=missing.device)


def test_peers_are_those_of_the_device() -> None:
    assert [one.module for one in own_contenders("fp32,bf16", "cuda")] == [
        "rnncc.bench.own_cuda"
    ] * 2
    assert all(one.own and one.device == "cuda" for one in own_contenders("fp32", "cuda"))
    modules = {peer.module for peer in chosen_peers("all", device="cuda")}
    assert modules <= {f"benchmarks.peers.{name}" for name in ("torch_cuda", "jax_cuda")}
    with pytest.raises(CompileError, match="no peer is named 'RTNeural'") as refused:
        chosen_peers("RTNeural", device="cuda")
    assert refused.value.hint == "PyTorch, PyTorch bf16, JAX, all, none"
