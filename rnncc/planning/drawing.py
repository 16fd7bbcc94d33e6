"""The memory plan as a page: time across, addresses up, one rectangle a buffer.

In: a `PlanReport`. Out: HTML that needs no other file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnncc.netdef.drawing.colours import DARK, INK, LIGHT
from rnncc.planning.rows import BufferRow, KernelRow, ProgramReport, SharedReport
from rnncc.records import record
from rnncc.templates import template

if TYPE_CHECKING:
    from rnncc.planning.report import PlanReport

COLUMN, LEAST_WIDTH = 17.0, 1060.0
"""Across: a kernel's share, and the whole at least."""
HEIGHT, SLIVER = 400.0, 9.0
"""Up: the workspace, and what any layer of it has at least when small ones are enlarged."""
LOOP = 20.0
"""Up: a line of loops below the time axis."""
LETTER = 6.4
"""About a letter's width."""
BAR = 960.0
"""Across: a block that programs share."""


@record
class Box:
    """A rectangle; `high` and `tall` are its top and height when small layers are enlarged."""

    left: float
    top: float
    width: float
    height: float
    role: str
    label: str
    tooltip: str
    high: float = 0.0
    tall: float = 0.0


@record
class Mark:
    """A label on an axis, or a loop's bracket of some width."""

    left: float
    top: float
    text: str
    width: float = 0.0


@record
class Chart:
    """A program's drawing."""

    report: ProgramReport
    width: float
    height: float
    foot: float
    boxes: list[Box]
    kernels: list[Mark]
    loops: list[Mark]
    ticks: list[Mark]
    bound: float


def draw(report: PlanReport) -> str:
    """The page."""
    charts = [_chart(program) for program in report.programs]
    bars = [(block, _bar(block)) for block in report.shared]
    page = template(Path(__file__).parent / "templates", "plan.html.j2")
    named = {"report": report, "charts": charts, "bars": bars}
    return page.render(**named, light=LIGHT, dark=DARK, ink=INK)


def _chart(program: ProgramReport) -> Chart:
    # Packed weights lie in the library, not in the workspace that is drawn.
    drawn = [row for row in program.buffers if row.role != "param" and row.bytes]
    columns = _PositionColumns(program.kernels)
    scale = HEIGHT / max(program.peak, 1)
    layers = _Layers(drawn, scale)
    depth = 1 + max((k.depth for k in program.kernels if k.last > k.position), default=-1)
    names = [f"{k.name}: {', '.join(k.writes)}" for k in columns.kernels]
    foot = LOOP * depth + LETTER * min(max(map(len, names), default=0), 40) + 12
    marks = zip(columns.kernels, names, strict=True)
    return Chart(
        program,
        columns.width,
        HEIGHT,
        foot,
        [_box(row, drawn, columns, scale, layers) for row in drawn],
        [
            Mark(columns.left(k.position) + columns.step / 2, HEIGHT + LOOP * depth + 8, name)
            for k, name in marks
        ],
        [_loop(k, columns) for k in program.kernels if k.last > k.position],
        _ticks(program.peak, scale),
        HEIGHT - program.bound * scale,
    )


class _PositionColumns:
    """Where the positions at which something happens lie across."""

    def __init__(self, rows: Sequence[KernelRow]) -> None:
        self.kernels = [row for row in rows if row.last == row.position]
        ends = {row.last for row in rows if row.last > row.position}
        used = sorted({row.position for row in rows} | ends)
        self.step = max(COLUMN, LEAST_WIDTH / max(len(used), 1))
        self.width = self.step * max(len(used), 1)
        self._place = {position: place for place, position in enumerate(used)}

    def left(self, position: int) -> float:
        return self._place[position] * self.step

    def right(self, position: int) -> float:
        return self.left(position) + self.step


class _Layers:
    """Heights at which no layer between two neighbouring addresses is thinner than a sliver."""

    def __init__(self, rows: Sequence[BufferRow], scale: float) -> None:
        edges = {row.start or 0 for row in rows} | {(row.start or 0) + row.bytes for row in rows}
        self._tops: dict[int, float] = {}
        height, below = 0.0, 0
        for edge in sorted({0, *edges}):
            if edge > below:
                height += max((edge - below) * scale, SLIVER)
            self._tops[edge], below = height, edge
        self._scale = HEIGHT / max(height, HEIGHT)

    def __getitem__(self, address: int) -> float:
        return self._tops[address] * self._scale


def _box(
    row: BufferRow,
    rows: Sequence[BufferRow],
    columns: _PositionColumns,
    scale: float,
    layers: _Layers,
) -> Box:
    """Where a buffer takes over another's memory, each has half of that kernel's column."""
    start = row.start or 0
    end = start + row.bytes
    left, right = columns.left(row.first), columns.right(row.last)
    left += columns.step / 2 if row.shares else 0
    heirs = (r for r in rows if r.shares == row.name and r.first == row.last and r.start == start)
    right -= columns.step / 2 if any(heirs) else 0
    tall = layers[end] - layers[start]
    return Box(
        left,
        HEIGHT - end * scale,
        right - left,
        row.bytes * scale,
        row.role,
        row.name if len(row.name) * LETTER < right - left - 4 else "",
        _told(row),
        HEIGHT - layers[end],
        tall,
    )


def _told(row: BufferRow) -> str:
    lines = [
        f"{row.name} ({row.role}, {row.dtype})",
        f"{row.size} = {row.bytes} bytes" if row.role != "output" else f"{row.bytes} bytes",
        f"in use from {row.first} to {row.last}",
        f"at {row.offset} = {row.start}" if row.offset != str(row.start) else f"at {row.start}",
    ]
    lines += [f"takes over {row.shares}"] if row.shares else []
    return "\n".join([*lines, *([f"from {row.source}"] if row.source else [])])


def _loop(row: KernelRow, columns: _PositionColumns) -> Mark:
    left = columns.left(row.position)
    return Mark(left, HEIGHT + LOOP * row.depth, row.name, columns.right(row.last) - left)


def _ticks(peak: int, scale: float) -> list[Mark]:
    """Addresses at round numbers."""
    step = 1
    while peak > 6 * step:
        step *= 2
    return [Mark(0, HEIGHT - at * scale, short_bytes(at)) for at in range(0, peak + 1, step)]


def short_bytes(count: int) -> str:
    """`1.5 MiB`: addresses are marked at powers of two."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def _bar(block: SharedReport) -> list[Box]:
    """The slots side by side."""
    scale = BAR / max(block.bytes, 1)
    return [
        Box(
            slot.start * scale,
            0,
            slot.bytes * scale,
            34,
            slot.role,
            slot.name if len(slot.name) * LETTER < slot.bytes * scale - 4 else "",
            f"{slot.name} ({slot.role})\n{slot.size} = {slot.bytes} bytes\nat {slot.offset}",
        )
        for slot in block.slots
        if slot.bytes
    ]
