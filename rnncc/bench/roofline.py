"""The least time that a case's arithmetic and bytes allow on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc.bench import repository
from rnncc.bench.cases import Case
from rnncc.bench.machine import Ceilings
from rnncc.bench.op_counts import Phase, phases
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import compiling
from rnncc.kern.library import Library
from rnncc.options import Options
from rnncc.records import record


@record
class Bound:
    """The least time of a phase: products, the rest of the arithmetic, and reading; all times."""

    phase: Phase
    products: float
    elementwise: float
    reading: float

    @property
    def arithmetic(self) -> float:
        return self.products + self.elementwise

    @property
    def seconds(self) -> float:
        """Reading and arithmetic go on at the same time at best."""
        return max(self.arithmetic, self.reading)


def bound(phase: Phase, ceilings: Ceilings) -> Bound:
    """The least time of a phase; a vector instruction takes as long as a multiply-add.

    Where other units add while one multiplies, it takes as long as what is more.
    """
    products = sum(flops / ceilings.rate(dtype) for dtype, flops in phase.flops.items())
    multiplied = phase.multiplied / ceilings.multiplied
    elementwise = max(multiplied, phase.vectors / ceilings.computed)
    reading = phase.read / ceilings.bandwidth(phase.footprint)
    return Bound(phase, *(phase.times * part for part in (products, elementwise, reading)))


def library_of(case: Case, precision: str = "fp32") -> Library:
    """A case's kernels.

    Raises:
        CompileError: the net cannot be compiled.
    """
    net, init = repository.source(case)
    values: dict[str, Any] = {**case.compile_options, "train": case.mode == "train"}
    if precision != "fp32":
        values["precision"] = precision
    options = Options.of(net, values)
    return compiling.build_library(net, init, options)


def bounds(library: Library, case: Case, ceilings: Ceilings) -> list[Bound]:
    """The phases of one run of a case; of a step its program alone."""
    target = resolve_target()
    programs = library.programs
    kept = ["step"] if case.mode == "step" and "step" in programs else list(programs)
    counted = [phase for name in kept for phase in phases(programs[name], case.dims, target)]
    return [bound(phase, ceilings) for phase in counted]


def least(phase_bounds: Sequence[Bound]) -> float:
    """Seconds of all phases, one after another."""
    return sum(one.seconds for one in phase_bounds)
