"""Where the memory of a net goes: a net in, the report of its plan out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rnncc.codegen import targets
from rnncc.driver import compiling
from rnncc.driver.footprint import machine_report
from rnncc.options import Options
from rnncc.planning.layout import make_plan
from rnncc.planning.report import PlanReport, SharedBlock, plan_report
from rnncc.planning.rows import LaunchRow
from rnncc.sizes import SizeValues, given_sizes

if TYPE_CHECKING:
    from rnncc.kern.library import Library


def report_of(net: Any, init: Any, options: Options, plan_for: SizeValues) -> PlanReport:
    """Compile a net and report on all of its programs.

    Raises:
        CompileError: the net cannot be compiled, or `plan_for` names no sizes of it.
    """
    library = compiling.build_library(net, init, options)
    programs = [(title, program, make_plan(program)) for title, program in library.programs.items()]
    sizes = given_sizes(plan_for, library.open_symbols)
    report = plan_report(library.name, programs, sizes, _shared(library), library.workspace)
    checkpoints = "" if library.training is None else library.training.checkpoints
    launches, machine = list[LaunchRow](), None
    if options.target:
        target = targets.resolve(options.target, options.cpu)
        launches = targets.launches(options.target, target, library, report.sizes)
        machine = machine_report(library, options, report.sizes)
    shown = {s: n for s, n in report.sizes.items() if s in library.open_symbols}
    return replace(report, sizes=shown, checkpoints=checkpoints, launches=launches, machine=machine)


def _shared(library: Library) -> list[SharedBlock]:
    """What one program of a library leaves for another."""
    blocks: list[SharedBlock] = []
    if (training := library.training) is not None:
        blocks.append(SharedBlock("tape", "saved", training.slots, training.tape))
    if (streaming := library.streaming) is not None:
        blocks.append(SharedBlock("state", "state", streaming.slots, streaming.bytes))
    return blocks
