"""The memory plan as a table: every buffer, its size formula, when it lives, where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rnncc.ir.kern import Buffer
from rnncc.ir.kernel_program import KernelProgram
from rnncc.planning.layout import Plan, plan
from rnncc.planning.lifetimes import lifetimes
from rnncc.planning.placement import TYPICAL, TYPICAL_OTHER
from rnncc.planning.uses import timeline


@dataclass(frozen=True)
class PlanRow:
    """One buffer.

    Attributes:
        size: bytes, a formula; of an output or input, of the caller's memory.
        live: the first and last position at which it is in use.
        offset: bytes from the start of the workspace, or of the packed weights; empty for memory
            of the caller that nothing stands in for.
        shares: the buffer whose memory it takes over, written in place.
    """

    name: str
    role: str
    dtype: str
    size: str
    live: tuple[int, int]
    offset: str = ""
    shares: str = ""


@dataclass(frozen=True)
class PlanReport:
    """All buffers, the totals, and how close the workspace comes to the least possible.

    Attributes:
        workspace: bytes, a formula.
        weights: bytes.
        sizes: the symbols' values for the figures that follow.
        bound: the most bytes that live at once at those sizes; no layout takes less.
        peak: the bytes that the workspace takes at those sizes.
    """

    rows: list[PlanRow]
    workspace: str
    weights: int
    sizes: dict[str, int]
    bound: int
    peak: int

    @property
    def ratio(self) -> float:
        """Peak over bound."""
        return self.peak / self.bound if self.bound else 1.0

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {**asdict(self), "ratio": self.ratio}


def plan_report(program: KernelProgram, sizes: Mapping[str, int] | None = None) -> PlanReport:
    """Plan a program, or plan it again, and say what came out; figures are at `sizes`."""
    planned = plan(program)
    values = {name: TYPICAL.get(name, TYPICAL_OTHER) for name in program.symbols} | dict(
        sizes or {}
    )
    return PlanReport(
        _rows(program, planned),
        str(planned.workspace),
        planned.weights,
        values,
        planned.bound(values),
        planned.peak(values),
    )


def _rows(program: KernelProgram, planned: Plan) -> list[PlanRow]:
    """In order of declaration, without those of the workspace that nothing uses."""
    alive = lifetimes(timeline(program.func))
    places = {p.buffer: p for p in (*planned.params, *planned.buffers)}
    rows: list[PlanRow] = []
    for buffer in program.buffers:
        place = places.get(buffer)
        lifetime = place.lifetime if place else alive.get(buffer)
        if lifetime is not None:
            offset, shares = (str(place.offset), place.shares or "") if place else ("", "")
            rows.append(_row(buffer, (lifetime.first, lifetime.last), offset, shares))
    return rows


def _row(buffer: Buffer, live: tuple[int, int], offset: str, shares: str) -> PlanRow:
    label, role = buffer.label.data, buffer.role.data
    return PlanRow(label, role, buffer.dtype, str(buffer.bytes), live, offset, shares)
