"""A vector of units in a run of steps: states in registers, kernels in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.orders.interchanged_run import Known, StepRun
from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import ZERO, Dim
from rnncc.kern.access import Access
from rnncc.kern.kernels import Reduce
from rnncc.planning.frames import Strides
from rnncc.planning.interchange import CarriedState, Part
from rnncc.platforms import LINE
from rnncc.records import record

FIXED = 12
"""Vectors that are the same in all steps and are read once for a run of them."""

StateElement = tuple[CarriedState, Dim]
PartPoints = tuple[Part, tuple[int, ...], dict[int, int] | None]
"""A kernel, its axes beside the frame, and the point of these; None: all."""
_Moving = tuple[Strides, object]
"""Strides along the frame, and the step from row to row."""


@record
class _Element:
    """What a place of the frame reads or writes of a value.

    Attributes:
        offset: of the frame's first place.
        along: strides along the frame.
        start: the access's own offset, by which a run has its stream.
    """

    value: SSAValue
    offset: Dim
    along: Strides
    start: Dim = field(compare=False)

    @staticmethod
    def of(part: Part, value: SSAValue, access: Access, indices: Mapping[int, int]) -> _Element:
        """The one at some indices beside the frame."""
        return _Element(value, part.beside(access, indices), part.along(access), access.offset)


class UnitVector:
    """A vector of units during a run of steps.

    Attributes:
        moving: strides and step -> where elements are at the first step, and how far apart.
    """

    def __init__(self, run: StepRun, indices: list[Value], unit: Value, mask: Value | None) -> None:
        self.run, self.emit, self.loop, self.mask = run, run.emit, run.loop, mask
        self.indices, self.unit, self.lanes = indices, unit, run.loop.lanes
        self.shifts = dict[Strides, Value]()
        self.fixed = dict[_Element, Value]()
        self.moving = dict[_Moving, tuple[Value, Value]]()

    def emit_steps(self) -> None:
        """Read states, compute, write them."""
        plan = self.loop.plan
        self.prepare_moving()
        self.prepare_fixed((part, (*part.short, *part.reduced), None) for part in plan.parts)
        elements = [(c, offset) for c in plan.carried for offset in c.offsets]
        keys = self._rows_ahead() if self.loop.ahead else []

        def compute(step: UnitStep, k: Value) -> None:
            step.take(keys, k)
            step.compute(self.loop.following)

        self.loop_over_steps(elements, compute)

    def loop_over_steps(
        self, elements: Sequence[StateElement], compute: Callable[[UnitStep, Value], None]
    ) -> None:
        """Steps that carry elements of states."""
        emit, plan, run = self.emit, self.loop.plan, self.run
        states = [
            emit.load(
                self._at(self.loop.pointers[c.argument], offset, c.along), self.lanes, self.mask
            )
            for c, offset in elements
        ]
        begin, outside = [first for first, _ in self.moving.values()], dict(self.shifts)

        def iteration(k: Value, carried: list[Value]) -> list[Value]:
            places = dict(zip(self.moving, carried[len(states) :], strict=True))
            step = UnitStep(self, places)
            for (c, offset), value in zip(elements, carried, strict=False):
                step.known[c.argument, offset] = value
            with run.at_step(k):
                compute(step, k)
            return [*(step.known[c.row, offset] for c, offset in elements), *self._next(places)]

        after = emit.loop(run.steps, iteration, [*states, *begin])
        self.shifts = outside  # what a step computes is not there for the next loop
        last = {(c.row, offset): (c, v) for (c, offset), v in zip(elements, after, strict=False)}
        for (row, offset), (c, value) in last.items():
            # Other rows were written by their steps; a state that nobody sees between them is
            # written once.
            if row in plan.last:
                emit.store(value, self._at(run.ends[row], offset, c.along), self.lanes, self.mask)

    def _rows_ahead(self) -> list[Known]:
        """The kernels that are done before the run; what they make of each step."""
        computed = list[Known]()

        def compute(step: UnitStep, k: Value) -> None:
            step.compute(self.loop.ahead)
            computed.extend(step.known)
            step.keep(computed, k)

        self.loop_over_steps([], compute)
        return computed

    def _next(self, places: Mapping[_Moving, Value]) -> list[Value]:
        """Where elements are at the next step."""
        return [self.emit.b.add(places[key], by) for key, (_, by) in self.moving.items()]

    def _at(self, pointer: Pointer, offset: Dim, along: Strides) -> Pointer:
        return self.emit.at(self.emit.at(pointer, self.emit.dim(offset)), self.shift(along))

    def shift(self, along: Strides) -> Value:
        """Where the first unit is along the frame."""
        if along not in self.shifts:
            b, total = self.emit.b, I64(0)
            for index, stride in zip([*self.indices, self.unit], along, strict=True):
                total = b.add(total, b.mul(index, self.emit.dim(stride)))
            self.shifts[along] = total
        return self.shifts[along]

    def prepare_moving(self) -> None:
        """Offsets that move on from step to step."""
        for part in self.loop.plan.parts:
            for value, access in part.operands:
                along, stream = part.along(access), self.run.streams.get((value, access.offset))
                if stream is None or stream.at is None or stream.step == ZERO:
                    continue
                by = stream.step
                by = self.emit.dim(by) if isinstance(by, Dim) else by
                self.moving[along, stream.step] = self.shift(along), by

    def prepare_fixed(self, parts: Iterable[PartPoints]) -> None:
        """Read what is the same in each step, of some points of each kernel."""
        self.fixed = {}
        for part, axes, chosen in parts:
            for value, access in part.operands[: len(part.op.ins)]:
                stream = self.run.streams.get((value, access.offset))
                if stream is None or stream.at is None or stream.step != ZERO:
                    continue
                if value not in self.loop.written:
                    points = part.points(axes) if chosen is None else [chosen]
                    self._read_fixed(part, value, access, points)

    def _read_fixed(
        self, part: Part, value: SSAValue, access: Access, points: Iterable[dict[int, int]]
    ) -> None:
        for indices in points:
            element = _Element.of(part, value, access, indices)
            # A few registers of those that steps leave; further ones would be spilled and read from
            # there.
            if element not in self.fixed and len(self.fixed) < FIXED:
                self.fixed[element] = self.read(element, {})

    def address(self, element: _Element, places: Mapping[_Moving, Value]) -> Pointer:
        """Of the first unit's."""
        emit, along, start = self.emit, element.along, element.start
        stream = self.run.streams[element.value, start]
        at = stream.at or self.run.operand_at(element.value, start)
        moved = places.get((along, stream.step)) if stream.at is not None else None
        at = emit.at(at, self.shift(along) if moved is None else moved)
        return emit.at(at, emit.dim(element.offset - start))

    def _moves(self, element: _Element) -> bool:
        """Whether each step reads another row."""
        stream = self.run.streams[element.value, element.start]
        return stream.at is None or stream.step != ZERO

    def read(self, element: _Element, places: Mapping[_Moving, Value]) -> Value:
        """A vector, or what is the same for all its units."""
        at, step = self.address(element, places), int(element.along[-1])
        if step == 0:
            return self.emit.load(at)
        if self.loop.fetches and step == 1 and self._moves(element):
            self.emit.fetch(at, I64(LINE), 2)
        return self.emit.spaced(at, step, self.lanes, self.mask)


class UnitStep:
    """A step of a vector of units.

    Attributes:
        known: what is in registers: states, and what kernels have written.
    """

    def __init__(self, places: UnitVector, at: Mapping[_Moving, Value]) -> None:
        self.places, self.emit, self.loop, self.at = places, places.emit, places.loop, at
        self.known = dict[Known, Value]()
        self.read = dict(places.fixed)

    def keep(self, keys: Iterable[Known], k: Value) -> None:
        """Put what is known into memory on the stack, for later phases of a run."""
        for key in keys:
            self.emit.store(self.known[key], self.loop.room(key, k), self.places.lanes)

    def take(self, keys: Iterable[Known], k: Value) -> None:
        """Read what an earlier phase has kept."""
        for key in keys:
            self.known[key] = self.emit.load(self.loop.room(key, k), self.places.lanes)

    def compute(self, parts: Iterable[Part]) -> None:
        """Kernels, in order."""
        for part in parts:
            for indices in part.points(part.short):
                if isinstance(part.op, Reduce):
                    values = [self._sum(part, part.op, indices)]
                else:
                    values = self.point(part, indices)
                self.put(part, values, indices)

    def put(self, part: Part, values: Sequence[Value], indices: dict[int, int]) -> None:
        """Write what a kernel yields at a point."""
        written = part.operands[len(part.op.ins) :]
        for value, (out, access) in zip(values, written, strict=True):
            self._write(part, out, access, indices, value)

    def _sum(self, part: Part, op: Reduce, indices: dict[int, int]) -> Value:
        """The terms one after another."""
        folding, points = Folding.of(self.emit, op), list(part.points(part.reduced))
        total = folding.initial(self.places.lanes)
        for point in reversed(points) if op.order.data == "down" else points:
            term = self.point(part, {**indices, **point})
            total = folding.added(total, term, self.places.lanes)
        return total

    def point(self, part: Part, indices: dict[int, int]) -> list[Value]:
        """What a kernel's body yields."""
        places, code = self.places, self.loop.codes[part]
        arguments = part.op.body.block.args
        read = [
            self._read(part, *operand, indices) for operand in part.operands[: len(part.op.ins)]
        ]
        pairs = list(zip(arguments, read, strict=True))
        known: dict[SSAValue, Value] = {v: x for v, x in pairs if v in code.varying}
        fixed: dict[SSAValue, Value] = {v: x for v, x in pairs if v not in code.varying}
        at: dict[int, Value] = dict.fromkeys(range(len(part.op.dims)), I64(0))
        at |= {axis: I64(i) for axis, i in indices.items()}
        at |= dict(zip(part.axes, places.indices, strict=False))

        def index(axis: int) -> Value:
            if axis == part.axes[-1]:
                return self.emit.lane_numbers(places.unit, places.lanes)
            return self.emit.splat(at[axis], places.lanes)

        scalars = code.invariants(fixed, lambda axis: at[axis])
        return code.vectors(scalars, known, index, places.lanes)

    def _read(
        self, part: Part, value: SSAValue, access: Access, indices: Mapping[int, int]
    ) -> Value:
        element = _Element.of(part, value, access, indices)
        if (value, element.offset) in self.known:
            return self.known[value, element.offset]
        if element not in self.read:
            self.read[element] = self.places.read(element, self.at)
        return self.read[element]

    def _write(
        self,
        part: Part,
        out: SSAValue,
        access: Access,
        indices: Mapping[int, int],
        value: Value,
    ) -> None:
        places, element = self.places, _Element.of(part, out, access, indices)
        self.known[out, element.offset] = value
        if out not in self.loop.plan.inside:
            at = places.address(element, self.at)  # in front of the branch: it keeps what it finds
            with self._where_present(out):
                self.emit.store(value, at, places.lanes, places.mask)

    def _where_present(self, out: SSAValue) -> AbstractContextManager[Any]:
        """Code that is run unless an output is absent and has no memory to stand in for it."""
        pointer = self.loop.pointers.get(out)
        if pointer is None or not pointer.skippable or pointer.absent is None:
            return nullcontext()
        return self.emit.when(self.emit.b.not_(pointer.absent))
