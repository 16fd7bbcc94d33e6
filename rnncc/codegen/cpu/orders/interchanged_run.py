"""A run of steps of an interchanged loop: where its operands are, and how far steps are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, MEMORY, Pointer, Value
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ZERO, Dim
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Row, ShiftedRow
from rnncc.kern.kernels import Reduce
from rnncc.planning.interchange import Interchange, Part
from rnncc.records import record

Rows = Callable[[Row | ShiftedRow], Pointer]
Known = tuple[SSAValue, Dim]
"""A value, and which of its elements."""


class InterchangedLoop:
    """What all runs of a loop share.

    Attributes:
        pointers: of all values outside of the loop's body, and of its arguments.
        rows: the pointer of a row, where the loop's index is a symbol.
        steps: of a run, at most.
        ahead: kernels that are done for all steps of a run before it.
        fetches: whether reads fetch what the next vector of units reads.
        written: what its kernels write.
    """

    def __init__(
        self,
        emit: CpuEmit,
        plan: Interchange,
        pointers: dict[SSAValue, Pointer],
        rows: Rows,
        steps: int,
        ahead: Sequence[Part],
        fetches: bool,
    ) -> None:
        self.emit, self.plan, self.pointers, self.rows = emit, plan, pointers, rows
        self.steps, self.ahead, self.fetches = steps, ahead, fetches
        self.back, self.lanes = bool(plan.loop.reverse), emit.target.lanes
        self.written = {value for part in plan.parts for value in part.op.outs}
        self.codes = {part: self._code(part) for part in plan.parts}
        self.following = [part for part in plan.parts if part not in ahead]
        self._rooms = dict[Known, Pointer]()

    def room(self, key: Known, step: Value) -> Pointer:
        """Memory on the stack for a vector of a step of a run."""
        if key not in self._rooms:
            dtype = buffer_dtype(key[0])
            room = ir.ArrayType(MEMORY[dtype], self.steps * self.lanes)
            self._rooms[key] = Pointer(self.emit.room(room, 64), dtype)
        return self.emit.at(self._rooms[key], self.emit.b.mul(step, I64(self.lanes)))

    def _code(self, part: Part) -> RegionCode:
        unit, arguments = part.axes[-1], part.op.body.block.args
        steps = (access.strides[unit] for access in part.op.in_accesses)
        varying = [v for v, step in zip(arguments, steps, strict=True) if step != 0]
        results = part.op.term if isinstance(part.op, Reduce) else None
        return RegionCode(self.emit, part.op.body.block, varying, unit, results)


@record
class _OperandSteps:
    """Where a kernel's operand is at the first step of a run, and how far apart its steps are.

    Attributes:
        at: None where each step finds its row anew.
        step: elements: a formula or, where it depends on the caller's pointer, its value.
    """

    at: Pointer | None = None
    step: Dim | Value = ZERO


class StepRun:
    """A run of steps.

    Attributes:
        ends: the rows that states are in behind its last step.
    """

    def __init__(self, loop: InterchangedLoop, begin: Value, steps: Value) -> None:
        self.emit, self.plan, self.loop = loop.emit, loop.plan, loop
        self.begin, self.steps, self.block = begin, steps, loop.plan.loop.body.block
        self.index = loop.plan.loop.index.data
        self.streams = dict[tuple[SSAValue, Dim], _OperandSteps]()
        with self.at_step(self.emit.b.sub(steps, I64(1))):
            self.ends = {row: loop.rows(_row_of(row)) for row in self.plan.loop.yields}
        with self.at_step(I64(0)):
            for part in self.plan.parts:
                for value, access in part.operands:
                    if value not in self.plan.inside and value not in self.block.args:
                        key = value, access.offset
                        self.streams[key] = self.streams.get(key) or self._stream(*key)

    def at_step(self, step: Value) -> AbstractContextManager[None]:
        """The loop's index as a symbol, at a step of the run."""
        b = self.emit.b
        time = b.sub(self.begin, step) if self.loop.back else b.add(self.begin, step)
        return self.emit.symbols_set({self.index: time})

    def _stream(self, value: SSAValue, offset: Dim) -> _OperandSteps:
        emit, row = self.emit, self._row(value)
        buffer = self.loop.pointers[value if row is None else row.buffer]
        start = ZERO if row is None else get_dim(row.index) * get_dim(row.stride)
        step = self._step(start + offset)
        many = row is not None and buffer.ring not in (None, 1)
        # Rows in two places, or in a ring of several: the next one is not a fixed distance away.
        if step is None or isinstance(row, ShiftedRow) or many:
            return _OperandSteps()
        if row is None or buffer.ring is None:
            return _OperandSteps(
                emit.at(replace(buffer, ring=None), emit.dim(start + offset)), step
            )
        # The ring's one row stays where it is, and so must the offset within.
        if self._step(offset) != 0:
            return _OperandSteps()
        at, ahead = I64(0), ZERO  # a ring of one row, unless the caller has them all
        if buffer.absent is not None:
            at = emit.b.select(buffer.absent, at, emit.dim(start))
            ahead = emit.b.select(buffer.absent, I64(0), emit.dim(step))
        return _OperandSteps(
            emit.at(emit.at(replace(buffer, ring=None), at), emit.dim(offset)), ahead
        )

    def _row(self, value: SSAValue) -> Row | ShiftedRow | None:
        """What makes a value within the loop."""
        row = value.owner
        return row if isinstance(row, Row | ShiftedRow) and row.parent is self.block else None

    def _step(self, offset: Dim) -> Dim | None:
        """How far an offset goes from a step to the next; None where that differs."""
        move = offset.substitute({self.index: Dim.of(self.index) + 1}) - offset
        if self.index in move.symbols or any(self.index in a.inner.symbols for a in offset.atoms):
            return None
        return -move if self.loop.back else move

    def operand_at(self, value: SSAValue, offset: Dim) -> Pointer:
        """Where an operand is that has no stream, at the step that the symbols tell."""
        row = self._row(value)
        if isinstance(row, ShiftedRow) and (start := self._row(row.init)) is not None:
            self.loop.pointers[row.init] = self.loop.rows(start)  # anew in each step, as the row
        at = self.loop.pointers[value] if row is None else self.loop.rows(row)
        at = replace(at, ring=None)
        return self.emit.at(at, self.emit.dim(offset))


def _row_of(value: SSAValue) -> Row:
    assert isinstance(value.owner, Row)
    return value.owner
