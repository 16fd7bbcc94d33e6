"""Arithmetic and bytes of nets, against the formulas that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rnncc.bench.cases import Case
from rnncc.bench.machine import Ceilings
from rnncc.bench.op_counts import Phase, phases, product_flops
from rnncc.bench.roofline import bound, bounds, least, library_of
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import compiling
from rnncc.ir.builder import Builder
from rnncc.options import Options

GATES = {"lstm": 4, "gru": 3, "milstm": 4, "layernorm_lstm": 4, "peephole_lstm": 4}
UNITS, BATCH, STEPS = 48, 3, 250
CEILINGS = Ceilings(16, {"L1": 32 << 10, "L2": 1 << 20}, {"f32": 1e11}, [(1 << 15, 1e11)])


def found(case: Case, precision: str = "fp32") -> list[Phase]:
    library, target = library_of(case, precision), resolve_target()
    return [p for one in library.programs.values() for p in phases(one, case.dims, target)]


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("mode", ["run", "train"])
def test_products_of_a_cell(cell: str, mode: str) -> None:
    """2·T·N·k·H·(D + H), three times with gradients."""
    case = Case(cell, UNITS, BATCH, STEPS, "train" if mode == "train" else "run")
    times = 3 if mode == "train" else 1
    once = 2 * STEPS * BATCH * GATES[cell] * UNITS * 2 * UNITS
    assert product_flops(found(case)) == times * once


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_step_reads_its_recurrent_weights_once(cell: str) -> None:
    (step,) = (p for p in found(Case(cell, UNITS, BATCH, STEPS)) if p.looped)
    weights = 4 * GATES[cell] * UNITS * UNITS
    assert step.times == STEPS
    assert step.weights == weights
    assert step.all_flops == 2 * BATCH * GATES[cell] * UNITS * UNITS
    rows = 4 * BATCH * UNITS
    projected = GATES[cell] * rows
    assert weights + projected + rows < step.read < weights + 1.2 * (projected + 2 * rows)
    assert step.footprint >= weights + projected + 2 * rows


def test_smaller_weights_are_fewer_bytes() -> None:
    steps = [
        next(p for p in found(Case("lstm", 64, 1, 10), precision) if p.looped)
        for precision in ("fp32", "bf16", "int8")
    ]
    whole, half, quarter = (step.weights for step in steps)
    assert (half, quarter) == (whole // 2, whole // 4)
    assert [set(step.flops) - {"f32"} for step in steps[:2]] == [set(), {"bf16"}]


def test_elementwise_work_grows_with_the_batch() -> None:
    small, large = (found(Case("lstm", 64, batch, 10)) for batch in (8, 16))
    counts: list[Callable[[Phase], int]] = [lambda p: p.vectors, lambda p: p.multiplied]
    for count in counts:
        few, many = (sum(p.times * count(p) for p in several) for several in (small, large))
        assert many == 2 * few > 0


def test_what_multiplies() -> None:
    """A product, a fused one, a quotient and a root of four; a sum and a bound, two, are none."""
    b = Builder.net("kinds")
    x, y, z = (b.input(name, ["N", 64]) for name in "xyz")
    root = b.sqrt(b.div(b.multiply_add("add", b.mul(x, y), y, z), x))
    library = compiling.build_library(b.finish({"y": b.add(root, b.relu(y))}), None, Options())
    [phase] = phases(library.programs["run"], {"N": 1}, resolve_target())
    vectors = -(-64 // resolve_target().lanes)
    assert phase.multiplied == 4 * vectors
    assert phase.vectors == 7 * vectors


def test_a_step_of_a_stream_is_one_step() -> None:
    case = Case("lstm", UNITS, 1, 1, "step")
    one = bounds(library_of(case), case, CEILINGS)
    assert product_flops([b.phase for b in one]) == 2 * 4 * UNITS * 2 * UNITS


def test_the_least_time_is_that_of_what_is_slower() -> None:
    ceilings = Ceilings(16, {"L1": 1000}, {"f32": 1e9, "bf16": 2e9}, [(1000, 1e9), (10**6, 1e8)])
    reads = bound(Phase(10, True, 1, {"f32": 1000}, 0, 10_000, 0, 10**6), ceilings)
    assert reads.reading == pytest.approx(10 * 1e-4)
    assert reads.arithmetic == pytest.approx(10 * 1e-6)
    assert reads.seconds == reads.reading
    computes = bound(Phase(1, False, 1, {"bf16": 4000}, 10, 100, 0, 500), ceilings)
    assert computes.products == pytest.approx(2e-6)
    assert computes.elementwise == pytest.approx(10 * 32 / 1e9)
    assert least([reads, computes]) == pytest.approx(1e-3 + 2.32e-6)
    beside = replace(ceilings, mixed=6e7)  # additions beside multiplications, of 3.1e7 a second
    for multiplied, seconds in ((2, 10 / 6e7), (8, 8 * 32 / 1e9)):
        phase = Phase(1, False, 1, {}, 10, 100, 0, 500, multiplied)
        assert bound(phase, beside).elementwise == pytest.approx(seconds)
