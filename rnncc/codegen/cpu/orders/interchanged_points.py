"""A vector of units in a run of steps, one point of a short axis after another.

Kernels of rows come first, for all steps of the run. Then each point, such as one of 16 states of a
unit, goes through the run with its states and parameters in registers, and adds its terms to the
sums. Kernels that read sums come last. Each sum adds up the same terms in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable

from rnncc.codegen.cpu.orders.interchanged_places import PartPoints, UnitStep, UnitVector
from rnncc.codegen.cpu.orders.interchanged_run import Known
from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import Value
from rnncc.kern.kernels import Reduce
from rnncc.planning.interchange import CarriedState, Part
from rnncc.planning.point_phases import PointPhases


def emit_points(vector: UnitVector, phases: PointPhases) -> None:
    """Write all phases of a run."""
    _PointRun(vector, phases).write()


class _PointRun:
    """A run of one vector of units.

    Attributes:
        kept: what earlier phases have left in memory for each step.
    """

    def __init__(self, vector: UnitVector, phases: PointPhases) -> None:
        self.vector, self.phases = vector, phases
        self.kept = list[Known]()

    def write(self) -> None:
        """Rows, points, rows."""
        phases, count = self.phases, len(self.phases.states)
        self.vector.prepare_moving()
        if phases.before:
            self._rows(phases.before, phases.rows[0])
        numbers = list(range(count))
        numbers = numbers[::-1] if phases.descends else numbers
        for number in numbers:
            self._point(number, number == numbers[0], number == numbers[-1])
        self.kept += [_sum_key(part) for part in phases.sums]
        if phases.after or phases.rows[1]:
            self._rows(phases.after, phases.rows[1])

    def _rows(self, parts: tuple[Part, ...], carried: Iterable[CarriedState]) -> None:
        elements = [(c, offset) for c in carried for offset in c.offsets]
        self.vector.prepare_fixed((part, (), None) for part in parts)
        earlier = list(self.kept)

        def compute(step: UnitStep, k: Value) -> None:
            step.take(earlier, k)
            step.compute(parts)
            self.kept += [key for key in step.known if key not in earlier]
            step.keep(self.kept[len(earlier) :], k)

        self.vector.loop_over_steps(elements, compute)

    def _point(self, number: int, first: bool, last: bool) -> None:
        """One point's steps."""
        phases = self.phases
        points: list[PartPoints] = [
            (part, axes, list(part.points(axes))[number])
            for part in (*phases.points, *phases.sums)
            for axes in [(*part.short, *part.reduced)]
        ]
        self.vector.prepare_fixed(points)

        def compute(step: UnitStep, k: Value) -> None:
            step.take(self.kept, k)
            for part, _, at in points:
                assert at is not None
                if isinstance(part.op, Reduce):
                    self._add_term(step, part, part.op, at, k, first, last)
                else:
                    step.put(part, step.point(part, at), at)

        self.vector.loop_over_steps(phases.states[number], compute)

    def _add_term(
        self,
        step: UnitStep,
        part: Part,
        op: Reduce,
        at: dict[int, int],
        k: Value,
        first: bool,
        last: bool,
    ) -> None:
        key, lanes = _sum_key(part), self.vector.lanes
        folding = Folding.of(step.emit, op)
        if first:
            total = folding.initial(lanes)
        else:
            step.take([key], k)
            total = step.known[key]
        total = folding.added(total, step.point(part, at), lanes)
        if last:
            step.put(part, [total], {})
        step.known[key] = total
        step.keep([key], k)


def _sum_key(part: Part) -> Known:
    value, access = part.operands[-1]
    return value, access.offset
