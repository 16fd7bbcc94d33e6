"""How `rnncc plan` prints where the memory of a net goes."""

from __future__ import annotations

from rnncc.commands.tables import print_table, printable
from rnncc.kern.signatures import SYNC_BYTES
from rnncc.planning.report import PlanReport
from rnncc.planning.rows import BufferRow, LaunchRow, MachineReport, ProgramReport

LAUNCHES = ("program", "kernel", "blocks", "at most", "threads", "shared", "registers", "spills")
COLUMNS = ("name", "role", "size", "first", "last", "offset", "at", "bytes", "takes over")
SPARE = ("offset", "takes over", "first", "last")
"""Columns that a narrow terminal does without."""


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
    if report.machine is not None:
        _print_machine(report.machine)
    if report.launches:
        print(f"{SYNC_BYTES} bytes more where the blocks of a GPU meet\n")
        print_table(f"launches{where}", LAUNCHES, [_launch_cells(row) for row in report.launches])


def _print_machine(machine: MachineReport) -> None:
    """Flash and RAM of a machine."""
    rows = [("flash", what, "", size) for what, size in machine.flash.items()]
    rows.append(("flash", "all", "", sum(machine.flash.values())))
    for row in machine.ram:
        at = ", ".join(f"{symbol}={value}" for symbol, value in row.sizes.items())
        rows.append(("RAM", f"{row.what}{' at ' if at else ''}{at}", row.size, row.bytes))
    print()
    print_table(f"on {machine.cpu} ({machine.triple})", ("", "of", "size", "bytes"), rows)
    if machine.functions:
        print_table("code by function", ("function", "bytes"), list(machine.functions.items()))
    if machine.cycles:
        spent = [*machine.cycles.items(), ("all", sum(machine.cycles.values()))]
        print_table("cycles of a step", ("for", "cycles"), spent)
        print("an estimate by Arm's instruction timings, for memory without wait states")


def _launch_cells(row: LaunchRow) -> tuple[object, ...]:
    tells = "" if row.registers is None else row.registers, "" if row.spills is None else row.spills
    formula = row.blocks if row.blocks.count(",") < 2 else "the largest of several"
    return row.program, row.kernel, formula, row.at_most, row.threads, row.shared, *tells


def _figures(program: ProgramReport, where: str) -> str:
    alive = f"{program.ratio:.3f} times the {program.bound} alive at once (the lower bound)"
    return f"peak{where}: {program.peak} bytes, {alive}"


def _cells(row: BufferRow) -> tuple[object, ...]:
    start = "" if row.start is None else row.start
    size = "" if row.start is None else row.bytes
    offset, shares = short(row.offset or ""), row.shares or ""
    return row.name, row.role, row.size, row.first, row.last, offset, start, size, shares


def short(formula: str) -> str:
    """A formula, or how many it is the largest of."""
    count = formula.count(",") + 1
    return formula if count <= 2 else f"the largest of {count}"
