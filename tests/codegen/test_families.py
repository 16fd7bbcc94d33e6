"""What code is sized by: figures of CPUs by name, and those measured of this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import cells
from rnncc.codegen.cpu import resolve
from rnncc.codegen.cpu.machine import measured
from rnncc.codegen.cpu.machine.cpus import CPUS
from rnncc.codegen.cpu.machine.families import (
    FAMILIES,
    FIRST_WITH_AMX,
    KIB,
    MIB,
    USUAL,
    Family,
    family_of,
    tuned_for,
)
from rnncc.codegen.cpu.resolve import resolve_target

HERE = resolve_target().cpu


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's."""
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_names_are_llvms() -> None:
    assert FAMILIES.keys() <= {*CPUS["x86_64"], *CPUS["aarch64"]}


def test_figures_make_sizes() -> None:
    assert Family(4, 4, 64 * KIB, 2 * MIB).chains == 16
    assert Family(1, 4, 32 * KIB, 1 * MIB).chains == 8
    nears = [Family(2, 4, 32 * KIB, l2).near for l2 in (256 * KIB, 1280 * KIB, 12 * MIB)]
    assert nears == [256 * KIB, 320 * KIB, 512 * KIB]


@pytest.mark.parametrize(
    ("triple", "cpu", "cache", "l1", "chains"),
    [
        ("x86_64-linux-gnu", "emeraldrapids", 512 * KIB, 48 * KIB, 8),
        ("x86_64-linux-gnu", "x86-64-v4", USUAL.near, USUAL.l1, USUAL.chains),
        ("aarch64-linux-gnu", "neoverse-v1", 256 * KIB, 64 * KIB, 16),
    ],
)
def test_machines_by_name(triple: str, cpu: str, cache: int, l1: int, chains: int) -> None:
    target = resolve_target(triple, cpu)
    assert (target.cache, target.l1, target.chains) == (cache, l1, chains)


@pytest.mark.parametrize(
    ("cpu", "has_amx", "tuned"),
    [
        ("rocketlake", False, ""),
        ("rocketlake", True, FIRST_WITH_AMX),
        ("graniterapids", True, ""),
        ("a CPU of tomorrow", True, FIRST_WITH_AMX),
    ],
)
def test_a_cpu_with_amx_is_a_server(cpu: str, has_amx: bool, tuned: str) -> None:
    assert tuned_for(cpu, has_amx) == tuned
    assert family_of(cpu, has_amx) is FAMILIES.get(tuned or cpu, USUAL)


@pytest.mark.parametrize(
    ("cpu", "weights", "rows"),
    [
        ("sapphirerapids", 768 * KIB, 60),
        ("sapphirerapids", 1 * MIB, 192),
        ("znver4", 2 * MIB, 24),
        ("znver4", 3 * MIB, 96),
    ],
)
def test_far_weights_are_worth_more_rows_at_a_time(cpu: str, weights: int, rows: int) -> None:
    assert resolve_target("x86_64-linux-gnu", cpu).rows_ahead(1024, weights) == rows


@pytest.mark.parametrize(("cpu", "quick"), [("znver4", True), ("sapphirerapids", False)])
def test_instructions_for_bf16_are_used_where_they_are_quick(cpu: str, quick: bool) -> None:
    assert resolve_target("x86_64-linux-gnu", cpu).bf16_dot is quick


def test_what_was_measured_is_of_this_machine_alone(folder: Path) -> None:
    measured.write(folder, HERE, 40 * KIB, 3 * MIB, None)
    native = resolve_target()
    assert (native.l1, native.cache) == (40 * KIB, 512 * KIB)
    usual = family_of(HERE)
    if HERE in CPUS["x86_64"]:
        assert resolve_target("x86_64-linux-gnu", HERE).l1 == usual.l1
    measured.write(folder, "another", 40 * KIB, 3 * MIB, None)
    assert resolve_target().l1 == usual.l1


def test_a_slow_instruction_is_left_out(folder: Path) -> None:
    for quick in (True, False):
        measured.write(folder, HERE, 40 * KIB, 3 * MIB, quick)
        assert measured.refined(HERE, replace(USUAL, quick_bf16=not quick)).quick_bf16 is quick


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * measured.MOST_BYTES,
        json.dumps({"cpu": HERE, "l1": 40960}),
        json.dumps({"cpu": HERE, "l1": 0, "l2": 1 << 20}),
        json.dumps({"cpu": HERE, "l1": 40960, "l2": 1e99}),
        json.dumps({"cpu": HERE, "l1": True, "l2": 1 << 20}),
        json.dumps({"cpu": HERE, "l1": 40960, "l2": 1 << 20, "more": "x" * 5000}),
    ],
)
def test_a_damaged_file_is_as_none(folder: Path, text: str) -> None:
    (folder / measured.NAME).write_text(text)
    assert measured.refined(HERE, USUAL) == USUAL


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(rnncc.CompileError, match=r"file/cache: cannot make it: Not a directory"):
        measured.write(tmp_path / "file/cache", HERE, 40 * KIB, 3 * MIB, None)


def test_bits_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((30, 4, 96), np.float32)
    net, results = cells.gru(96, 200), list[Any]()
    other = Family(4, 8, 8 * KIB, 64 * KIB, ahead=256, far=4 * KIB, far_rows=36)
    for family in (USUAL, other, Family(1, 1, 256 * KIB, 16 * MIB)):
        monkeypatch.setattr(resolve, "family_of", lambda *_, f=family: f)
        model = rnncc.compile(net, train=True)
        outputs, tape = model.forward({"x": x})
        gradients = model.backward(tape, {"y": np.cos(outputs["y"])})
        results.append({**outputs, **gradients})
    for other in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(other[name], array, err_msg=name)
