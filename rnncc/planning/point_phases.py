"""Which loops may take the points of a short axis one after another, each for a run of steps.

In: a loop that runs unit by unit (`Interchange`). Out: its kernels in three phases: those of rows;
those of points, such as the 16 states of a unit, with the sums over them; those that read the sums.
The states and parameters of one point fit registers, where those of all points would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.dialect import Row, ShiftedRow
from rnncc.kern.kernels import Reduce
from rnncc.planning.interchange import CarriedState, Interchange, Part
from rnncc.records import record

FEWEST = 4
"""Points that are worth it: registers hold the states of fewer."""


@record
class PointPhases:
    """The kernels of a step, in the order in which a run takes them.

    Attributes:
        before, points, sums, after: kernels of rows; of points; sums over all points; of rows
            again.
        states: of each point, the states with their element.
        rows: states of rows that kernels of the first phase, and those of the last one, carry.
    """

    before: tuple[Part, ...]
    points: tuple[Part, ...]
    sums: tuple[Part, ...]
    after: tuple[Part, ...]
    states: tuple[tuple[tuple[CarriedState, Dim], ...], ...]
    rows: tuple[tuple[CarriedState, ...], tuple[CarriedState, ...]]

    @property
    def descends(self) -> bool:
        """Whether sums add up the last point first."""
        return any(_order(part) == "down" for part in self.sums)


def point_phases(plan: Interchange) -> PointPhases | None:
    """The phases of a loop; None where points, or phases of different steps, need each other."""
    return None if plan.takes_over else _Phases(plan).result()


class _Phases:
    def __init__(self, plan: Interchange) -> None:
        self.plan = plan
        self.points = [p for p in plan.parts if p.short and not p.reduced]
        self.sums = [p for p in plan.parts if p.reduced and not p.short]
        self.writer = {value: part for part in plan.parts for value in part.op.outs}
        rows = [p for p in plan.parts if not p.short and not p.reduced]
        self.before, self.after = list[Part](), list[Part]()
        late = {value for part in (*self.points, *self.sums) for value in part.op.outs}
        for part in rows:
            if late.isdisjoint(part.op.ins):
                self.before.append(part)
            else:
                self.after.append(part)
                late.update(part.op.outs)
        self.row_of = {carried.argument: carried.row for carried in plan.carried}

    def result(self) -> PointPhases | None:
        """The phases, if all that is proved."""
        grouped = (*self.before, *self.points, *self.sums, *self.after)
        if not self._carried_by(self.points) or len(grouped) < len(self.plan.parts):
            return None
        sizes = {tuple(p.op.dims[a] for a in (*p.short, *p.reduced)) for p in self.all_points}
        if len(sizes) > 1 or len(list(self.points[0].points(self.points[0].short))) < FEWEST:
            return None
        if len({_order(part) for part in self.sums}) > 1 or self._reads_rows_again():
            return None
        if not all(map(self._is_in_order, self.plan.parts)) or not self._points_are_apart():
            return None
        rows = [self._carried_by(parts) for parts in (self.before, (*self.sums, *self.after))]
        states = tuple(zip(*map(self._elements, self._carried_by(self.points)), strict=True))
        return PointPhases(
            tuple(self.before),
            tuple(self.points),
            tuple(self.sums),
            tuple(self.after),
            states,
            (rows[0], rows[1]),
        )

    @property
    def all_points(self) -> Iterator[Part]:
        """The kernels of points, and the sums over them."""
        yield from self.points
        yield from self.sums

    def _carried_by(self, parts: Iterable[Part]) -> tuple[CarriedState, ...]:
        written = {value for part in parts for value in part.op.outs}
        return tuple(c for c in self.plan.carried if c.row in written)

    def _elements(self, carried: CarriedState) -> list[tuple[CarriedState, Dim]]:
        return [
            (carried, offset) for offset in self._offsets(self.writer[carried.row], carried.row)
        ]

    def _reads_rows_again(self) -> bool:
        """Whether a row of a sequence that the loop writes is read under another name."""
        rows = [v.owner for part in self.plan.parts for v, _ in part.operands]
        rows = [row for row in rows if isinstance(row, Row | ShiftedRow)]
        written = {value.owner for value in self.writer}
        buffers = {row.buffer for row in rows if row in written}
        return any(row.buffer in buffers and row not in written for row in rows)

    def _is_in_order(self, part: Part) -> bool:
        """Whether what a kernel reads is there: of its own phase or an earlier one, also where it
        is of the step before."""
        phase = self._phase(part)
        for value in part.op.ins:
            writer = self.writer.get(self.row_of.get(value, value))
            if writer is None:
                continue
            if self._phase(writer) > phase or (writer in self.sums and part in self.sums):
                return False
        return True

    def _phase(self, part: Part) -> int:
        if part in self.before:
            return 0
        return 2 if part in self.after else 1

    def _points_are_apart(self) -> bool:
        """Whether each point reads its own elements alone of what points write, and rows do not
        read them, nor points a sum."""
        for part in self.plan.parts:
            for value, access in part.operands[: len(part.op.ins)]:
                row = self.row_of.get(value, value)
                writer = self.writer.get(row)
                if writer is None or writer in self.before or writer in self.after:
                    continue
                if writer in self.sums:
                    if part not in self.after:
                        return False
                    continue
                axes = (*part.short, *part.reduced)
                read = [part.beside(access, at) for at in part.points(axes)]
                if part not in (*self.points, *self.sums) or read != self._offsets(writer, row):
                    return False
        return True

    def _offsets(self, writer: Part, value: SSAValue) -> list[Dim]:
        """Where each point of a kernel writes a value."""
        [access] = [a for v, a in writer.operands[len(writer.op.ins) :] if v is value]
        return [writer.beside(access, at) for at in writer.points(writer.short)]


def _order(part: Part) -> str:
    assert isinstance(part.op, Reduce)
    return part.op.order.data
