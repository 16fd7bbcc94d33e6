"""What `rnncc plan` does: plan a net, and tell where its memory goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rnncc.commands.tables import print_table, printable
from rnncc.ir.signatures import SYNC_BYTES
from rnncc.options import Options
from rnncc.planning.layout import make_plan
from rnncc.planning.report import (
    BufferRow,
    LaunchRow,
    PlanReport,
    ProgramReport,
    SharedBlock,
    plan_report,
)
from rnncc.sizes import parse_sizes
from rnncc.sources import NetFile

if TYPE_CHECKING:
    from rnncc.ir.library import Library

LAUNCHES = ("program", "kernel", "blocks", "at most", "threads", "shared", "registers", "spills")
COLUMNS = ("name", "role", "size", "first", "last", "offset", "at", "bytes", "takes over")
SPARE = ("offset", "takes over", "first", "last")
"""Columns that a narrow terminal does without."""


def report_of(
    net: NetFile, init: NetFile | None, options: Options, plan_for: str | None
) -> PlanReport:
    """Compile a net and report on all of its programs.

    Raises:
        CompileError: the net cannot be compiled, or `plan_for` names no sizes of it.
    """
    from rnncc.driver import compiling

    library = compiling.build_library(net, init, options)
    programs = [(title, one, make_plan(one)) for title, one in library.programs.items()]
    sizes = parse_sizes(plan_for, library.open_symbols)
    report = plan_report(library.name, programs, sizes, _shared(library), library.workspace)
    told = "" if library.training is None else library.training.checkpoints
    launches = _launches(library, options, report.sizes)
    shown = {s: n for s, n in report.sizes.items() if s in library.open_symbols}
    return replace(report, sizes=shown, checkpoints=told, launches=launches)


def _launches(library: Library, options: Options, sizes: dict[str, int]) -> list[LaunchRow]:
    """How a GPU computes the programs, where the plan is for one."""
    from rnncc.codegen import targets

    target: Any = targets.resolve(options.target, options.cpu)
    if target.device != "cuda":
        return []
    from rnncc.codegen.nvptx.device import emit_device  # only these plans need it
    from rnncc.codegen.nvptx.ptx import ptx_of
    from rnncc.codegen.nvptx.usage import usage

    device = emit_device(library, target)
    used = usage(ptx_of(device.text, target.machine, device.linked), target.chips)
    return [
        LaunchRow(
            program,
            kernel.symbol,
            kernel.threads,
            f"{kernel.points} / {kernel.per_block}",
            max(1, -(-kernel.points.evaluate(sizes) // kernel.per_block)),
            kernel.shared,
            *used.get(kernel.symbol, ()),
        )
        for program, kernel in device.kernels.items()
    ]


def _shared(library: Library) -> list[SharedBlock]:
    """What one program of a library leaves for another."""
    found: list[SharedBlock] = []
    if (training := library.training) is not None:
        found.append(SharedBlock("tape", "saved", training.slots, training.tape))
    if (streaming := library.streaming) is not None:
        found.append(SharedBlock("state", "state", streaming.slots, streaming.bytes))
    return found


def print_report(report: PlanReport) -> None:
    """Tables of buffers, a program each, with the figures below; then what programs share."""
    at = ", ".join(f"{name}={value}" for name, value in report.sizes.items())
    where = f" at {at}" if at else ""
    for program in report.programs:
        print_table(program.title, COLUMNS, [_cells(row) for row in program.buffers], SPARE)
        print(f"workspace: {program.workspace} bytes")
        print(f"weights: {program.weights} bytes")
        print(_figures(program, where) + "\n")
    for block in report.shared:
        rows = [(s.name, s.role, s.size, s.offset, s.start, s.bytes) for s in block.slots]
        print_table(block.title, ["name", "role", "size", "offset", "at", "bytes"], rows, SPARE)
        print(f"{printable(block.title)}: {block.size} bytes")
        print(f"size{where}: {block.bytes} bytes\n")
    if len(report.programs) > 1:
        print(f"workspace of every function: {report.workspace} bytes")
        print(f"size{where}: {report.peak} bytes")
    if report.checkpoints:
        print(report.checkpoints)
    if report.launches:
        print(f"{SYNC_BYTES} bytes more where the blocks of a GPU meet\n")
        print_table(f"launches{where}", LAUNCHES, [_launch_cells(row) for row in report.launches])


def _launch_cells(row: LaunchRow) -> tuple[object, ...]:
    tells = "" if row.registers is None else row.registers, "" if row.spills is None else row.spills
    formula = row.blocks if row.blocks.count(",") < 2 else "the largest of several"
    return row.program, row.kernel, formula, row.at_most, row.threads, row.shared, *tells


def _figures(program: ProgramReport, where: str) -> str:
    alive = f"{program.ratio:.3f} times the {program.bound} alive at once (the lower bound)"
    return f"peak{where}: {program.peak} bytes, {alive}"


def _cells(row: BufferRow) -> tuple[object, ...]:
    start = "" if row.start is None else row.start
    taken = "" if row.start is None else row.bytes
    offset, shares = short(row.offset or ""), row.shares or ""
    return row.name, row.role, row.size, row.first, row.last, offset, start, taken, shares


def short(formula: str) -> str:
    """A formula, or how many it is the largest of."""
    count = formula.count(",") + 1
    return formula if count <= 2 else f"the largest of {count}"
