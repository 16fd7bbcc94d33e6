"""A loop over time place by place: a run of steps of one head's state, then those of the next.

The state of a place stays in the first-level cache during a run, and the kernels over it share
passes. A team's threads share the places, and need not wait for each other before the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce

from llvmlite import ir
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.map import emit_map
from rnncc.codegen.cpu.orders.fused_pass import FusedPass
from rnncc.codegen.cpu.orders.fused_stages import Stage, stages
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.sums.reduce import emit_reduce
from rnncc.codegen.llvm.values import I64, MEMORY, Pointer, Value
from rnncc.ir.attributes import dims_attr, get_dim
from rnncc.kern.access import Access, access_attr
from rnncc.kern.dialect import For, Row, ShiftedRow
from rnncc.kern.kernels import Map
from rnncc.planning.frames import Strides
from rnncc.planning.resident import ResidentKernel, ResidentLoop
from rnncc.records import record

STEPS = 16
"""Of a run: states are brought near the core so much less often, while rows of other places, which
lie between those of one, are read soon."""

Rows = Callable[[Row | ShiftedRow], Pointer]


@record
class PlacesFirst:
    """A loop that is to run place by place, and the stages of a step of each loop over steps."""

    plan: ResidentLoop
    stages: Mapping[For, Sequence[Stage]]


def places_first(target: Core, plan: ResidentLoop, shared: OutlinedKernels) -> PlacesFirst | None:
    """None where kernels share no passes, places are not apart, or one is a function of its own."""
    # A function goes over all places at once.
    if target.compact or any(map(shared.is_function, plan.kernels)):
        return None
    loops = [op for op in (plan.loop, *plan.loop.body.block.ops) if isinstance(op, For)]
    by_loop = {loop: stages(plan, loop, target.lanes) for loop in loops if loop.chunk is None}
    every = [stage for several in by_loop.values() for stage in several]
    inside = {buffer for stage in every for buffer in stage.inside}
    # One place would overwrite what another, some steps behind, has yet to read.
    apart = all(a in inside or b in inside for a, b in plan.turns)
    together = any(len(stage.kernels) > 1 for stage in every)
    return PlacesFirst(plan, by_loop) if apart and together else None


class PlaceByPlace:
    """The code of such a loop.

    Args:
        pointers: of all values outside of the loop's body.
        rows: the pointer of a row, where the loops' indices are symbols.
    """

    def __init__(
        self, emit: CpuEmit, order: PlacesFirst, pointers: dict[SSAValue, Pointer], rows: Rows
    ) -> None:
        self.emit, self.pointers, self.rows = emit, pointers, rows
        self.plan, self.stages, plan = order.plan, order.stages, order.plan
        self.local: dict[SSAValue, Pointer] = {
            buffer.y: Pointer(emit.room(ir.ArrayType(MEMORY[buffer.dtype], size), 64), buffer.dtype)
            for buffer, size in plan.local.items()
        }
        self.rooms = dict[tuple[int, int, str], Pointer]()
        parts = plan.kernels.values()
        self.strides = dict.fromkeys(p.along(a) for p in parts for _, a in p.operands)
        self.shifts = dict[Strides, Value]()
        self.indices = list[Value]()

    def write_runs(self) -> None:
        """A loop over steps, in runs; and the pointers that it ends with."""
        emit, b, loop = self.emit, self.emit.b, self.plan.loop
        start, count = (emit.dim(get_dim(d)) for d in (loop.start, loop.count))
        size = I64(STEPS)
        like = [self.pointers[value] for value in loop.inits]

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            done = b.mul(i, size)
            rest = b.sub(count, done)
            steps = b.select(b.icmp_signed("<", rest, size), rest, size)
            begin = b.add(start, b.sub(rest, I64(1)) if loop.reverse else done)
            with self._at(loop, begin, b.sub(steps, I64(1))):
                ends = [self.rows(row).base for row in _rows_of(loop)]
            self._at_each_place(lambda: self._steps(loop, begin, steps, carried))
            return ends

        finals = emit.loop(emit.parts(count, size), iteration, [p.base for p in like])
        self._end(loop, finals, like)

    def block(self, ops: Iterable[Operation]) -> list[Pointer]:
        """A run of steps that holds loops over them."""
        whole = list(ops)
        self._at_each_place(lambda: self._ops(whole))
        return []

    def _ops(self, ops: Iterable[Operation]) -> None:
        emit, b = self.emit, self.emit.b
        for op in ops:
            if isinstance(op, Row | ShiftedRow):
                self.pointers[op.y] = self.rows(op)
            elif isinstance(op, For):
                start, count = (emit.dim(get_dim(d)) for d in (op.start, op.count))
                begin = b.add(start, b.sub(count, I64(1))) if op.reverse else start
                like = [self.pointers[value] for value in op.inits]
                self._end(op, self._steps(op, begin, count, [p.base for p in like]), like)
            elif (part := self.plan.kernels.get(op)) is not None:
                self._alone(part)

    def _end(self, loop: For, finals: Sequence[Value], like: Sequence[Pointer]) -> None:
        for result, base, pointer in zip(loop.finals, finals, like, strict=True):
            self.pointers[result] = Pointer(base, pointer.dtype)

    def _at(self, loop: For, begin: Value, step: Value) -> AbstractContextManager[None]:
        """The loop's index as a symbol, so many steps behind the first."""
        b = self.emit.b
        time = b.sub(begin, step) if loop.reverse else b.add(begin, step)
        return self.emit.symbols_set({loop.index.data: time})

    def _at_each_place(self, body: Callable[[], object]) -> None:
        """The body for each place of this thread."""
        emit, b, team = self.emit, self.emit.b, self.emit.team
        sizes = [emit.dim(size) for size in self.plan.places]
        count = reduce(b.mul, sizes, I64(1))
        first, mine = (I64(0), count) if team is None else team.share(count)

        def place(i: Value, carried: list[Value]) -> list[Value]:
            rest, indices = b.add(first, i), list[Value]()
            for size in reversed(sizes[1:]):
                indices.append(b.srem(rest, size))
                rest = b.sdiv(rest, size)
            self.indices = [rest, *reversed(indices)][: len(sizes)]
            self.shifts = {along: self._shift(along) for along in self.strides}
            body()
            return []

        emit.team = None  # what a place does is one thread's
        emit.loop(mine, place)
        emit.team = team

    def _steps(self, loop: For, begin: Value, steps: Value, carried: list[Value]) -> list[Value]:
        """Steps of a place; the pointers that they end with."""
        emit, block, like = self.emit, loop.body.block, [self.pointers[v] for v in loop.inits]

        def step(k: Value, carried: list[Value]) -> list[Value]:
            for argument, base, pointer in zip(block.args, carried, like, strict=True):
                self.pointers[argument] = Pointer(base, pointer.dtype)
            with self._at(loop, begin, k):
                for row in block.ops:
                    if isinstance(row, Row | ShiftedRow):
                        self.pointers[row.y] = self.rows(row)
                for stage in self.stages[loop]:
                    self._stage(stage)
            return [self.pointers[value].base for value in loop.yields]

        return emit.loop(steps, step, carried)

    def _stage(self, stage: Stage) -> None:
        if stage.alone is not None:
            self._alone(stage.alone)
        else:
            operands = [self._operands(kernel.part) for kernel in stage.kernels]
            inside = {buffer.y for buffer in stage.inside}
            FusedPass(self.emit, stage.kernels, operands, inside, self._room).write()

    def _room(self, number: int, elements: int, dtype: str) -> Pointer:
        """Memory on the stack, which one pass after another takes."""
        key = number, elements, dtype
        if key not in self.rooms:
            base = self.emit.room(ir.ArrayType(MEMORY[dtype], elements), 64)
            self.rooms[key] = Pointer(base, dtype)
        return self.rooms[key]

    def _alone(self, part: ResidentKernel) -> None:
        """A kernel by itself, if somebody wants what it writes."""
        emit, operands = self.emit, self._operands(part)
        outs = operands[len(part.op.ins) :]
        unwanted = emit.all_absent([p.absent if p.skippable else None for p in outs])
        with nullcontext() if unwanted is None else emit.when(emit.b.not_(unwanted)):
            self._write(part, operands)

    def _write(self, part: ResidentKernel, operands: list[Pointer]) -> None:
        """The kernel's code for one place: without the places' axes."""
        op, count = part.op.clone(), len(part.op.ins)
        kept = [axis for axis in range(len(op.dims)) if axis not in part.axes]
        accesses = [
            Access(access.offset, tuple(access.strides[axis] for axis in kept))
            for _, access in part.operands
        ]
        op.properties["domain"] = dims_attr([op.dims[axis] for axis in kept])
        op.properties["accesses"] = ArrayAttr(map(access_attr, accesses))
        ins, outs = operands[:count], operands[count:]
        if isinstance(op, Map):
            emit_map(self.emit, op, ins, outs)
        else:
            emit_reduce(self.emit, op, ins, outs, None)
        op.erase()

    def _operands(self, part: ResidentKernel) -> list[Pointer]:
        """Where a place has what a kernel reads, then what it writes."""
        return [
            self.local.get(value) or self._placed(value, part.along(access))
            for value, access in part.operands
        ]

    def _placed(self, value: SSAValue, along: Strides) -> Pointer:
        return replace(self.emit.at(self.pointers[value], self.shifts[along]), ring=None)

    def _shift(self, along: Strides) -> Value:
        """Where a place is."""
        b, total = self.emit.b, I64(0)
        for index, stride in zip(self.indices, along, strict=True):
            total = b.add(total, b.mul(index, self.emit.dim(stride)))
        return total


def _rows_of(loop: For) -> list[Row]:
    """What a loop carries on."""
    return [value.owner for value in loop.yields if isinstance(value.owner, Row)]
