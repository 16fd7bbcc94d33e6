"""The walk over a kernel program's loops, which all LLVM targets share.

In: a planned kernel program and pointers to its blocks. Out: code for its buffers, loops and gates;
what a kernel is, and how those who compute together wait, is the target's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import I8, I64, POINTER, Pointer, Value
from rnncc.ir.attributes import get_dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.dialect import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Kernel
from rnncc.kern.largest import Largest
from rnncc.kern.moves import ContinuedSum
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import PAST_LIMIT
from rnncc.planning.served_outputs import served_outputs

E = TypeVar("E", bound=Emit)
Ops = Callable[[Iterable[Operation]], list[Pointer]]
"""Code for ops in order; the pointers that they end with."""


class ProgramWalk(ABC, Generic[E]):
    """Buffers, then kernels and loops in order.

    Args:
        weights, workspace: the blocks that params, and scratch and state, lie in.
    """

    def __init__(self, emit: E, program: KernelProgram, weights: Value, workspace: Value) -> None:
        self.emit, self.program = emit, program
        self.weights, self.workspace = weights, workspace
        self.pointers: dict[SSAValue, Pointer] = {}
        self.labelled: dict[str, Buffer] = {}
        self.served_outputs: Mapping[Operation, Sequence[Buffer]] = {}

    # What a target says

    @abstractmethod
    def argument(self, op: Buffer) -> Value:
        """The caller's pointer to an input or an output."""

    @abstractmethod
    def kernel(self, op: Operation) -> None:
        """Code for a kernel, whose operands are in `pointers`."""

    @abstractmethod
    def together(self) -> None:
        """Wait until all who compute the call are here."""

    def behind(self, op: Operation) -> None:
        """Wait behind a kernel."""
        self.together()

    @abstractmethod
    def fail_if(self, condition: Value, code: int) -> None:
        """End the call with an error code where the condition, the same for all, holds."""

    def require(self, op: Buffer, pointer: Value) -> None:
        """Refuse an input that is NULL and read, where nobody did so before."""

    def iteration(self, number: Value) -> AbstractContextManager[Any]:
        """Around the code of a loop's iteration."""
        return nullcontext()

    # Buffers

    def declare(self) -> None:
        """Pointers of all buffers."""
        buffers = self.program.buffers
        self.labelled = {op.label.data: op for op in reversed(buffers)}  # the first of a name
        self.served_outputs = served_outputs(self.program)
        self.declare_some(buffers)

    def declare_some(self, buffers: Sequence[Buffer]) -> None:
        """Pointers of some buffers."""
        with self.emit.straight_line():
            for op in buffers:
                self.pointers[op.y] = self.declared(op)

    def declared(self, op: Buffer) -> Pointer:
        """The pointer of a buffer."""
        match op.role.data:
            case "input":
                return self._input(op)
            case "output":
                return self._output(op)
            case "param":
                return self._within(op, self.weights)
            case _ if op.within is not None:
                owner = self.labelled[op.within.data]
                return Pointer(self.pointers[owner.y].base, op.dtype)
            case _:
                return self._within(op, self.workspace)

    def _input(self, op: Buffer) -> Pointer:
        base = self.argument(op)
        if op.default is not None:
            default = self.labelled[op.default.data]
            block = self.weights if default.role.data == "param" else self.workspace
            fallback, absent = self._within(default, block).base, self.emit.is_null(base)
            base = self.emit.b.select(absent, fallback, base)
            return Pointer(base, op.dtype, absent, op.rows_kept)
        if op.y.first_use:
            self.require(op, base)
        return Pointer(base, op.dtype)

    def _output(self, op: Buffer) -> Pointer:
        base = self.argument(op)
        absent = self.emit.is_null(base)
        if op.fallback_size == 0:
            return Pointer(base, op.dtype, absent, None, skippable=True)
        fallback_size = self._within(op, self.workspace).base
        chosen = self.emit.b.select(absent, fallback_size, base)
        return Pointer(chosen, op.dtype, absent, op.rows_kept)

    def _within(self, op: Buffer, block: Value) -> Pointer:
        """A buffer at its planned offset, in bytes."""
        assert op.offset is not None, f"{op.label.data} has no offset"
        offset = self.emit.largest(Largest.parse(op.offset.data))
        return Pointer(
            self.emit.b.gep(block, [offset], source_etype=I8), op.dtype, None, op.rows_kept
        )

    # Code

    def block(self, ops: Iterable[Operation]) -> list[Pointer]:
        """Code for ops in order; the pointers that they end with."""
        for op in ops:
            match op:
                case Buffer():
                    continue
                case Yield():
                    return self.all(op.values)
                case Row() | ShiftedRow():
                    self.pointers[op.y] = self.row(op)
                case For():
                    self.loop(op)
                case Limit():
                    past = self._flag(op.flag)
                    self.fail_if(past, PAST_LIMIT)
                case _:
                    self.guarded(op)
        return []

    def all(self, values: Iterable[SSAValue]) -> list[Pointer]:
        """The pointers of several buffers."""
        return [self.pointers[v] for v in values]

    def row(self, op: Row | ShiftedRow) -> Pointer:
        """Where a row is, given the indices of the loops around."""
        emit, b = self.emit, self.emit.b
        if isinstance(op, Row):
            index, stride = (emit.dim(get_dim(d)) for d in (op.index, op.stride))
            return emit.row(self.pointers[op.buffer], index, stride)
        index, stride, edge = (emit.dim(get_dim(d)) for d in (op.index, op.stride, op.edge))
        at_edge = b.icmp_signed("==", index, edge)
        row = emit.row(self.pointers[op.buffer], b.add(index, I64(op.step.data)), stride)
        return Pointer(b.select(at_edge, self.pointers[op.init].base, row.base), row.dtype)

    def guarded(self, op: Operation) -> None:
        """A kernel; skipped when nothing that it serves is wanted."""
        unwanted = self.unwanted(op)
        if unwanted is None:
            self.kernel(op)
        else:
            with self.emit.when(self.emit.b.not_(unwanted)):
                self.kernel(op)
        self.behind(op)

    def unwanted(self, op: Operation) -> Value | None:
        """Whether all outputs that an op serves are absent; None if it is needed in any case."""
        if op in self.served_outputs:
            absent = [self.pointers[output.y].absent for output in self.served_outputs[op]]
        else:
            outs = self.all(op.outs) if isinstance(op, Kernel | ContinuedSum) else []
            absent = [p.absent if p.skippable else None for p in outs]
        return self.emit.all_absent(absent)

    def loop(self, op: For) -> None:
        """A loop over single steps or over chunks of steps."""
        self.iterate(op, self.block)

    def iterate(self, op: For, block: Ops) -> None:
        """A loop; `block` writes what is in it."""
        emit, b = self.emit, self.emit.b
        start, count = emit.dim(get_dim(op.start)), emit.dim(get_dim(op.count))
        size = self._chunk_steps(op) if op.chunk is not None else I64(1)
        iterations = count
        if op.chunk is not None:
            iterations = emit.parts(count, size)
        types = [self.pointers[v] for v in op.inits]
        before, gate, after = _split_at_gate(op)
        opened: list[Value] = []

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            number = b.sub(b.sub(iterations, I64(1)), i) if op.reverse else i
            first = b.mul(number, size) if op.chunk is not None else number
            symbols: dict[str, Value] = {op.index.data: b.add(start, first)}
            if op.extent is not None:
                rest = b.sub(count, first)
                short = b.icmp_signed("<", rest, size)
                by_steps = op.chunk is not None and op.chunk.data == 1  # then each is whole
                symbols[op.extent.data] = size if by_steps else b.select(short, rest, size)
            if op.iteration is not None:
                symbols[op.iteration.data] = number
            for argument, base, like in zip(op.body.block.args, carried, types, strict=True):
                self.pointers[argument] = Pointer(base, like.dtype)
            with self.iteration(i), emit.symbols_set(symbols):
                if gate is None:
                    return [p.base for p in block(before)]
                block(before)
                opened.append(self._flag(gate.flag))
                return self.where(opened[-1], partial(self.block, after), carried)

        goes_on = (lambda: opened[-1]) if gate is not None and bool(gate.last) else None
        finals = emit.loop(iterations, iteration, [p.base for p in types], goes_on)
        for result, base, like in zip(op.finals, finals, types, strict=True):
            self.pointers[result] = Pointer(base, like.dtype)

    def _flag(self, value: SSAValue) -> Value:
        """A bool in memory, which nobody changes before all have read it."""
        flag = self.emit.load(self.pointers[value])
        self.together()
        return flag

    def where(
        self, condition: Value, write: Callable[[], list[Pointer]], otherwise: Sequence[Value]
    ) -> list[Value]:
        """What code ends with where a condition holds, else some other pointers."""
        b, before = self.emit.b, self.emit.b.block
        run, join = b.append_basic_block("run"), b.append_basic_block("join")
        b.cbranch(condition, run, join)
        b.position_at_end(run)
        then_values, after = [p.base for p in write()], b.block
        b.branch(join)
        b.position_at_end(join)
        values: list[Value] = []
        for value, other in zip(then_values, otherwise, strict=True):
            phi = b.phi(POINTER)
            phi.add_incoming(value, after)
            phi.add_incoming(other, before)
            values.append(phi)
        return values

    def _chunk_steps(self, op: For) -> Value:
        """max(1, chunk // max(rows, 1))"""
        assert op.chunk is not None and op.rows is not None
        b = self.emit.b
        if op.chunk.data == 1:
            return I64(1)
        rows = self.emit.dim(get_dim(op.rows))
        rows = b.select(b.icmp_signed(">", rows, I64(1)), rows, I64(1))
        steps = self.emit.quotient(I64(op.chunk.data), rows)
        return b.select(b.icmp_signed(">", steps, I64(1)), steps, I64(1))


def _split_at_gate(loop: For) -> tuple[list[Operation], Gate | None, list[Operation]]:
    """A loop's ops: those before its gate, the gate, those behind it; all are before no gate."""
    ops = list(loop.body.block.ops)
    for i, op in enumerate(ops):
        if isinstance(op, Gate):
            return ops[:i], op, ops[i + 1 :]
    return ops, None, []
