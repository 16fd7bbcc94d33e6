"""Ceilings: between measured points, by level; and that measuring gives figures at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rnncc_runtime.memory import Memory

from rnncc.bench.machine import Ceilings, Measuring, block_sizes, find_caches, measure
from rnncc.bench.probes import block_bytes, probes
from rnncc.bench.running import cores
from rnncc.codegen.cpu.resolve import resolve_target

CEILINGS = Ceilings(
    8,
    {"L1": 1 << 15, "L2": 1 << 20},
    {"f32": 2e11},
    [(1 << 13, 4e11), (1 << 15, 4e11), (1 << 17, 1e11), (1 << 25, 1e10)],
)


def test_bandwidth_between_points() -> None:
    assert CEILINGS.bandwidth(100) == CEILINGS.bandwidth(1 << 13) == 4e11
    assert CEILINGS.bandwidth(1 << 16) == pytest.approx(2e11)
    assert CEILINGS.bandwidth(1 << 30) == 1e10


def test_levels() -> None:
    assert [CEILINGS.level(size) for size in (1, 1 << 15, (1 << 15) + 1, 1 << 21)] == [
        *("L1", "L1", "L2", "memory")
    ]
    assert CEILINGS.levels["L1"] == pytest.approx(4e11)
    assert CEILINGS.levels["memory"] == 1e10
    assert list(CEILINGS.levels) == ["L1", "L2", "memory"]


def test_rate_of_what_has_no_own() -> None:
    assert CEILINGS.rate("bf16") == 2e11


def test_an_instruction_that_is_slower_sets_no_ceiling() -> None:
    slow = replace(CEILINGS, flops={"f32": 2e11, "bf16": 1e11})
    assert (slow.rate("bf16"), slow.quick_bf16) == (2e11, False)
    assert replace(slow, flops={"f32": 1e11, "bf16": 2e11}).quick_bf16
    assert CEILINGS.quick_bf16 is None


def test_block_sizes() -> None:
    assert block_sizes(1 << 15) == [8192, 12288, 16384, 24576, 32768]


def test_caches_grow() -> None:
    sizes = list(find_caches().values())
    assert sizes == sorted(sizes) and sizes[0] >= 4096


def test_measuring_a_little() -> None:
    how = Measuring(seconds=1e-4, rounds=1, memory=1 << 14)
    ceilings = measure(cores()[:1], how)
    assert set(ceilings.flops) == set(probes(resolve_target()).arithmetic) >= {"f32"}
    assert all(rate > 0 for rate in ceilings.flops.values())
    assert [size for size, _ in ceilings.reads] == [8192, 12288, 16384]
    assert all(rate > 0 for _, rate in ceilings.reads)


def test_probes_read_what_they_say() -> None:
    """Sums show that all of a block was read, as often as asked."""
    target = resolve_target()
    code, size = probes(target), 8 * block_bytes(resolve_target())
    block = Memory(size)
    block.bytes[:] = 0
    for read, sweeps in ((code.read, 1), (code.there_and_back, 2)):
        for place in (0, size // 8 - 1, size // 4 - 1):
            block.bytes.view("f4")[:] = 0
            block.bytes.view("f4")[place] = 1
            assert read(block.address, 8, 3) == 3 * sweeps
