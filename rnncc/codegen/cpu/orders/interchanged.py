"""A loop over time place by place: a few steps of one vector of units, then those of the next.

The state of these units is in registers during such a run of steps, and what kernels hand on to
each other is so too. A run is short: then each row of a sequence is read from one end to the other,
as memory is fast, and what comes next is near. A team's threads share the units, not the steps, and
need not wait for each other before the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.orders.interchanged_places import UnitVector
from rnncc.codegen.cpu.orders.interchanged_points import emit_points
from rnncc.codegen.cpu.orders.interchanged_run import InterchangedLoop, Rows, StepRun
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Cost, cost_of
from rnncc.ir.types import FLOATS, ITEM_BYTES
from rnncc.kern.access import Access, are_near, buffer_dtype
from rnncc.kern.dialect import Row, ShiftedRow
from rnncc.kern.kernels import Reduce
from rnncc.planning.interchange import Interchange, Part, places_of
from rnncc.planning.point_phases import PointPhases, point_phases
from rnncc.platforms import LINE_FLOATS, PAGE

ROWS = 16
"""Of sequences that a run reads and writes: as many as memory delivers as fast as one."""
MOST_STEPS = 4
"""Of a run; more gain little, and rows a power of two apart drive each other out of the cache."""
POINT_STEPS = 8
"""Of a run that takes one point of a short axis after another, whose states are read and written
once for each: S4D of 16 complex states a unit took 6.0 and 39 ms with 4 steps (forward, backward),
3.9 and 21 with 8, 4.5 and 20 with 16."""
TRACKED = 32
"""Pages in which a core reads ahead of its use by itself. A run of points that reads in more of
them fetches the rows of the next units: S4D's gradients, 35 rows a step, took 31.7 ms, and take
26.5 (Emerald Rapids; with lines fetched two vectors ahead 30.4). Of runs of 4 steps of few rows,
such as LRU's, it made 1.05 times the time, and so it did of many short rows (64 units)."""
CHAINS = 8
"""Elements of a state that keep the pipeline busy while each waits for the step before, if
functions are what takes the time."""
MANY = 64
"""Units that are worth it where functions are what takes the time, or lanes are left empty."""


def steps_of(plan: Interchange) -> int:
    """The steps of a run: what is read and written more often than in that many are the states.

    Where functions take the time, steps of the same units wait for each other longer than states
    take to read and write, unless these are many more than what else a step reads and writes.
    """
    moved, states = _moved(plan), sum(len(c.offsets) for c in plan.carried)
    if _functions(plan.parts) > 1:
        return MOST_STEPS if states >= max(CHAINS, 2 * len(moved)) else 1
    sequences = {value for value, _ in moved}
    return max(1, min(MOST_STEPS, ROWS // max(1, len(sequences))))


def ahead_of(plan: Interchange) -> list[Part]:
    """Kernels that are done for a whole run before its steps.

    A step whose functions take the time is longer than what a processor looks ahead: it would wait
    for those of its rows, one chain of operations, before it could begin those of its states.
    """
    parts = plan.of_rows if _functions(plan.parts) > 1 and steps_of(plan) > 1 else []
    floats = all(buffer_dtype(value) in FLOATS for part in parts for value in part.op.outs)
    return parts if floats and _functions(parts) else []


def _functions(parts: Iterable[Part]) -> int:
    """How many functions kernels have, beside arithmetic."""
    bodies = (op for part in parts for op in part.op.body.block.ops)
    return sum(cost_of(op) > Cost.ARITHMETIC for op in bodies)


def _moved(plan: Interchange) -> set[tuple[SSAValue, Dim]]:
    """The elements that a step of a place reads from sequences, or writes to them."""
    return {
        (sequence, offset)
        for part, sequence, access in _sequences(plan)
        for offset in part.offsets(access)
    }


def _pages(plan: Interchange) -> float:
    """In how many pages a step reads, of which short rows share some."""
    width, moved = int(plan.frame[-1]), _moved(plan)
    return sum(min(1, width * ITEM_BYTES[buffer_dtype(value)] / PAGE) for value, _ in moved)


def _sequences(plan: Interchange) -> Iterator[tuple[Part, SSAValue, Access]]:
    """The kernels' operands that are sequences."""
    for part in plan.parts:
        for value, access in part.operands:
            row, timed = value.owner, plan.loop.index.data in access.offset.symbols
            if isinstance(row, Row | ShiftedRow) and value not in plan.inside:
                yield part, row.buffer, access
            elif timed and part.along(access)[-1] != 0:
                yield part, value, access


def _is_same(plan: Interchange, value: SSAValue, access: Access) -> bool:
    """Whether all steps read the same elements, of something outside of the loop."""
    of_step = isinstance(value.owner, Row | ShiftedRow) or value in plan.loop.body.block.args
    return not of_step and plan.loop.index.data not in access.offset.symbols


def _writes_short_rows(plan: Interchange) -> bool:
    """Whether a step writes less than a page of a sequence side by side, and goes on elsewhere.

    Within a page, memory is fetched ahead for one row alone. Mamba's scan with the batch first, by
    the bytes of a written row, took in runs of 4 steps 1024: 1.14 times as long as step by step;
    2048: 0.88 (N = 1) to 1.05 (N = 4); 4096: 0.87.
    """
    for part, sequence, access in _sequences(plan):
        axes = zip(plan.frame, part.along(access), strict=True)
        *outer, (width, _) = [axis for axis in axes if axis[0] != 1]
        while outer and outer[-1][1] == width:
            width = width * outer.pop()[0]
        short = width.is_static and int(width) * ITEM_BYTES[buffer_dtype(sequence)] < PAGE
        if outer and short and sequence in part.op.outs:
            return True
    return False


def _phases_of(plan: Interchange) -> PointPhases | None:
    """How a run takes one point after another; None where it takes all points of each step."""
    runs = steps_of(plan) > 1 and get_dim(plan.loop.count) != Dim.of(1)
    phases = point_phases(plan) if runs else None
    # Functions take longer than what their operands wait for.
    return phases if phases and not _functions((*phases.points, *phases.sums)) else None


def fits(target: Core, plan: Interchange, shared: OutlinedKernels) -> bool:
    """Whether lanes run along the units of every kernel, none is a function of its own, and
    something stays in registers."""
    # Fewer units than lanes would leave lanes empty in every step.
    if target.compact or int(plan.frame[-1]) < target.lanes:
        return False
    if _functions(plan.parts) > 1 and _writes_short_rows(plan):
        return False
    few = places_of(plan.frame) < MANY
    # One kernel, one step at a time: nothing would stay in registers between; of few units little.
    if steps_of(plan) == 1 and (few or len(plan.parts) == 1):
        return False
    # What is left of few units is masked, which takes as long as a vector.
    if few and int(plan.frame[-1]) % target.lanes:
        return False
    if any(shared.is_function(part.op) for part in plan.parts):
        return False
    by_points = _phases_of(plan) is not None
    for part in plan.parts:
        unit = part.axes[-1]
        # A sum along the lanes is folded in an order that lanes along units do not have.
        if isinstance(part.op, Reduce) and lanes_of(part.op) is not Lanes.ACROSS:
            return False
        steps = [
            access.strides[unit]
            for value, access in part.operands
            if not (by_points and _is_same(plan, value, access))
        ]
        # Elements further apart would be read one by one (`Emit.spaced`): only where a run of many
        # steps reads them once, as the parameters of a point.
        if not are_near(steps):
            return False
    return True


def emit_interchanged(
    emit: CpuEmit, plan: Interchange, pointers: dict[SSAValue, Pointer], rows: Rows
) -> None:
    """Write a loop, and give its results their pointers.

    Args:
        pointers: of all values outside of the loop's body.
        rows: the pointer of a row, where the loop's index is a symbol.
    """
    _InterchangedLoops(emit, plan, pointers, rows).write()


class _InterchangedLoops(InterchangedLoop):
    """The loop over runs, and inside over vectors of units."""

    def __init__(
        self, emit: CpuEmit, plan: Interchange, pointers: dict[SSAValue, Pointer], rows: Rows
    ) -> None:
        self.phases = _phases_of(plan)
        steps = POINT_STEPS if self.phases else steps_of(plan)
        fetches = self.phases is not None and steps * _pages(plan) > TRACKED
        super().__init__(emit, plan, pointers, rows, steps, ahead_of(plan), fetches)
        units = emit.dim(plan.frame[-1])
        team = emit.team
        self.first, self.units = (I64(0), units) if team is None else team.share(units, LINE_FLOATS)

    def write(self) -> None:
        """All runs, and the pointers that the loop ends with."""
        emit, b, loop = self.emit, self.emit.b, self.plan.loop
        start, count = emit.dim(get_dim(loop.start)), emit.dim(get_dim(loop.count))
        # A run of one step needs no division of the loop.
        single = self.steps == 1 or (isinstance(count, ir.Constant) and count.constant == 1)
        size = I64(1 if single else self.steps)
        like = [self.pointers[value] for value in loop.inits]

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            for argument, base, pointer in zip(loop.body.block.args, carried, like, strict=True):
                self.pointers[argument] = Pointer(base, pointer.dtype)
            done = b.mul(i, size)
            rest = b.sub(count, done)
            steps = size if single else b.select(b.icmp_signed("<", rest, size), rest, size)
            begin = b.add(start, b.sub(rest, I64(1)) if self.back else done)
            return self._run(StepRun(self, begin, steps))

        finals = emit.loop(
            count if single else emit.parts(count, size), iteration, [p.base for p in like]
        )
        for result, base, pointer in zip(loop.finals, finals, like, strict=True):
            self.pointers[result] = Pointer(base, pointer.dtype)

    def _run(self, run: StepRun) -> list[Value]:
        emit, plan = self.emit, self.plan

        def outer(indices: list[Value]) -> None:
            def vector(start: Value, mask: Value | None) -> None:
                places = UnitVector(run, indices, emit.b.add(self.first, start), mask)
                if self.phases is None:
                    places.emit_steps()
                else:
                    emit_points(places, self.phases)

            emit.in_vectors(self.units, self.lanes, vector)

        emit.nest([emit.dim(size) for size in plan.frame[:-1]], outer)
        return [run.ends[row].base for row in plan.loop.yields]
