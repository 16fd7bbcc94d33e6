"""The memory plan in numbers: every buffer, its size formula, when it lives, where it lies.

In: planned kernel programs, and the blocks of memory that they share. Out: a `PlanReport`, which
`rnncc plan` prints, writes as JSON, or draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from html import escape
from typing import Any, Protocol

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim, product
from rnncc.ir.naming import source_of
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.largest import Largest
from rnncc.kern.program import KernelProgram, Port
from rnncc.planning.layout import Plan, Planned
from rnncc.planning.lifetimes import lifetimes
from rnncc.planning.rows import (
    BufferRow,
    KernelRow,
    LaunchRow,
    MachineReport,
    ProgramReport,
    SharedReport,
    SlotRow,
)
from rnncc.planning.uses import Timeline, timeline
from rnncc.records import record
from rnncc.sizes import TYPICAL, TYPICAL_OTHER

Sizes = Mapping[str, int]


class BlockSlot(Protocol):
    """A port's place in a block of memory that programs share."""

    @property
    def port(self) -> Port: ...
    @property
    def offset(self) -> Dim: ...


@record
class SharedBlock:
    """Memory that one program leaves for another, such as the tape of training.

    Attributes:
        role: of each slot.
        size: of the whole block, in bytes.
    """

    title: str
    role: str
    slots: Sequence[BlockSlot]
    size: Dim


@record
class PlanReport:
    """All programs and the blocks that they share, with figures at `sizes`.

    Attributes:
        workspace: bytes that do for every program, a formula; `peak` is its value.
        checkpoints: how time is cut to stay within a budget, in words.
        launches: of a plan for a GPU.
        machine: of a plan for a CPU that is named as a target.
    """

    name: str
    sizes: dict[str, int]
    workspace: str
    peak: int
    programs: list[ProgramReport]
    shared: list[SharedReport]
    checkpoints: str = ""
    launches: list[LaunchRow] = field(default_factory=list[LaunchRow])
    machine: MachineReport | None = None

    def _repr_html_(self) -> str:
        """The plan's picture, for notebooks: a page of its own in a frame."""
        from rnncc.planning.drawing import draw

        style = "width:100%;height:640px;border:0"
        return f'<iframe srcdoc="{escape(draw(self))}" style="{style}"></iframe>'

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        entries = asdict(self)
        only_if = {"launches", "machine"}
        return {k: v for k, v in entries.items() if v or k not in only_if}


def plan_report(
    name: str,
    programs: Sequence[tuple[str, KernelProgram, Plan]],
    sizes: Sizes | None = None,
    shared: Sequence[SharedBlock] = (),
    workspace: Largest | None = None,
) -> PlanReport:
    """Say how programs use memory.

    Args:
        name: of the model.
        programs: what each is for, and its plan.
        sizes: of the symbols, for the figures; those left out are typical.
        shared: what the programs hand to each other.
        workspace: bytes that do for every program, if not the most that one of them takes.
    """
    symbols = dict.fromkeys(s for _, program, _ in programs for s in program.symbols)
    values = {s: TYPICAL.get(s, TYPICAL_OTHER) for s in symbols} | dict(sizes or {})
    every = workspace or Largest(f for _, _, plan in programs for f in plan.workspace.formulas)
    reports = [_program(title, program, plan, values) for title, program, plan in programs]
    blocks = [_shared(block, values) for block in shared]
    return PlanReport(name, values, str(every), every.evaluate(values), reports, blocks)


def _program(title: str, program: KernelProgram, plan: Plan, sizes: Sizes) -> ProgramReport:
    line = timeline(program.func)
    peak, bound = plan.peak(sizes), plan.bound(sizes)
    return ProgramReport(
        title,
        str(plan.workspace),
        program.weights,
        peak,
        bound,
        peak / bound if bound else 1.0,
        line.end,
        _kernels(line),
        list(_buffers(program, plan, line, sizes)),
    )


def _buffers(
    program: KernelProgram, plan: Plan, line: Timeline, sizes: Sizes
) -> Iterator[BufferRow]:
    """In order of declaration, without those that nothing uses."""
    alive = lifetimes(line)
    places = {p.buffer: p for p in (*plan.params, *plan.buffers)}
    for buffer in program.buffers:
        place = places.get(buffer)
        lifetime = place.lifetime if place else alive.get(buffer)
        if lifetime is not None:
            yield _row(buffer, (lifetime.first, lifetime.last), place, sizes)


def _row(buffer: Buffer, live: tuple[int, int], place: Planned | None, sizes: Sizes) -> BufferRow:
    names = buffer.label.data, buffer.role.data, buffer.dtype
    source = source_of(buffer.y)
    # the caller's memory: nothing of the workspace
    if place is None:
        return BufferRow(*names, str(buffer.bytes), 0, *live, source=source)
    start, size = place.offset.evaluate(sizes), max(place.size.evaluate(sizes), 0)
    placement = str(place.offset), start, place.shares, source
    return BufferRow(*names, str(buffer.bytes), size, *live, *placement)


def _kernels(line: Timeline) -> list[KernelRow]:
    """Kernels and loops in order."""
    rows: dict[int, KernelRow] = {}
    for buffer, use in ((buffer, use) for buffer, uses in line.uses.items() for use in uses):
        at, name = use.position, use.op.name.removeprefix("kern.")
        row = rows.setdefault(at, KernelRow(at, at, name, len(use.loops)))
        if use.writes and buffer.label.data not in row.writes:
            row.writes.append(buffer.label.data)
    spans = line.spans.items()
    for loop, (first, last) in spans:
        depth = sum(start < first and last < end for _, (start, end) in spans)
        rows[first] = KernelRow(first, last, _loop_name(loop), depth)
    return [rows[position] for position in sorted(rows)]


def _loop_name(loop: For) -> str:
    run = "" if loop.extent is None else f", {loop.extent.data} at a time"
    way = ", backwards" if bool(loop.reverse) else ""
    return f"for {loop.index.data} in {get_dim(loop.count)}{run}{way}"


def _shared(block: SharedBlock, sizes: Sizes) -> SharedReport:
    slots = [
        SlotRow(
            slot.port.name,
            block.role,
            str(size),
            size.evaluate(sizes),
            str(slot.offset),
            slot.offset.evaluate(sizes),
        )
        for slot, size in ((slot, _bytes(slot.port)) for slot in block.slots)
    ]
    return SharedReport(block.title, str(block.size), block.size.evaluate(sizes), slots)


def _bytes(port: Port) -> Dim:
    return product(port.dims) * ITEM_BYTES[port.dtype]
