"""The walk over a kernel program's loops: one function a program.

In: a planned kernel program. Out: an LLVM function that takes weights and tables of pointers. The
exported functions are in `entries.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.contract import Buffers, emit_contract
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.product import emit_gemm
from rnncc.codegen.cpu.list_rows import emit_list_rows
from rnncc.codegen.cpu.map import emit_map
from rnncc.codegen.cpu.moves import emit_gather, emit_pack, emit_reverse, emit_scatter
from rnncc.codegen.cpu.reduce import emit_reduce
from rnncc.codegen.cpu.shared import Shared
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.cpu.team import Team
from rnncc.codegen.llvm.emit import (
    BAD_SIZE,
    I8,
    I32,
    I64,
    NULL_POINTER,
    OK,
    PAST_LIMIT,
    POINTER,
    Pointer,
    Value,
)
from rnncc.errors import CompileError
from rnncc.ir.dims import Dim, Largest
from rnncc.ir.kern import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.ir.kernel_program import KernelProgram
from rnncc.ir.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.ir.moves import Gather, GoesOn, ListRows, Pack, Reverse, Scatter
from rnncc.ir.ops.base import get_dim
from rnncc.ir.ops.control import Yield


def emit_program(
    module: ir.Module,
    program: KernelProgram,
    prefix: str,
    target: CpuTarget,
    shared: Shared,
    team: bool = False,
    checked: bool = False,
    fixed: Mapping[str, int] | None = None,
    bounds: Sequence[Dim] = (),
) -> ir.Function:
    """Add `PREFIX_call(weights, inputs, outputs, workspace, sizes...)`.

    `inputs` and `outputs` are tables of pointers in the order of the ports. With `team` it is
    `PREFIX_share(weights, inputs, outputs, workspace, part, sizes...)`, for one of several threads:
    `part` points to a `struct rnncc_part`. `shared` is of all programs of the module; with
    `checked` the caller has checked the sizes, and its tables are there. With `fixed` sizes it is
    `PREFIX_fixed`, which takes all of them nevertheless. `bounds` are formulas of sizes that must
    not be negative.
    """
    for port in (*program.inputs, *program.outputs, *program.parameters):
        if port.dtype == "f64":
            raise CompileError(program.source, f"{port.name} is float64: not supported")
    pointers = 5 if team else 4
    signature = ir.FunctionType(I32, [POINTER] * pointers + [I64] * len(program.symbols))
    kind = "fixed" if fixed else "share" if team else "call"
    function = ir.Function(module, signature, f"{prefix}_{kind}")
    function.attributes.add("nounwind")
    emit = CpuEmit.begin(function, target, program.symbols)
    emit.symbols |= {name: I64(size) for name, size in (fixed or {}).items()}
    if team:
        emit.team = Team(module, emit.b, function.args[4])
    body = _Body(emit, program, function, shared)
    if not checked:
        body.check(bounds)
    body.run()
    return function


class _Body:
    """The function's body: checks, buffers, then kernels and loops in order."""

    def __init__(
        self, emit: CpuEmit, program: KernelProgram, function: ir.Function, shared: Shared
    ) -> None:
        self.emit, self.program, self.shared = emit, program, shared
        self.weights, self.inputs, self.outputs, self.workspace = function.args[:4]
        self.pointers: dict[SSAValue, Pointer] = {}
        self.labelled: dict[str, Buffer] = {}

    def check(self, bounds: Sequence[Dim]) -> None:
        """Sizes and tables."""
        self.emit.fail_if(bad_size(self.emit, bounds), BAD_SIZE)
        self.emit.fail_if(self.emit.is_null(self.inputs), NULL_POINTER)
        self.emit.fail_if(self.emit.is_null(self.outputs), NULL_POINTER)

    def run(self) -> None:
        self._declare()
        self._block(self.program.func.body.block.ops)
        self.emit.b.ret(I32(OK))

    def _fail(self, code: int) -> None:
        self.emit.b.ret(I32(code))

    def _declare(self) -> None:
        """Pointers of all buffers; null ones that are needed end the call."""
        b = self.emit.b
        if self.program.workspace:
            size = self.emit.largest(self.program.workspace)
            empty = b.icmp_signed("==", size, I64(0))
            missing = b.and_(self.emit.is_null(self.workspace), b.not_(empty))
            self.emit.fail_if(missing, NULL_POINTER)
        buffers = self.program.buffers
        self.labelled = {op.label.data: op for op in reversed(buffers)}  # the first of a name
        numbers = {port.name: i for i, port in enumerate(self.program.inputs)}
        places = {port.name: i for i, port in enumerate(self.program.outputs)}
        for op in buffers:
            label = op.label.data
            match op.role.data:
                case "input":
                    self.pointers[op.y] = self._input(op, numbers[label])
                case "output":
                    self.pointers[op.y] = self._output(op, places[label])
                case "param":
                    self.pointers[op.y] = self._within(op, self.weights)
                case _ if op.within is not None:
                    held = self.labelled[op.within.data]
                    self.pointers[op.y] = Pointer(self.pointers[held.y].base, op.dtype)
                case _:
                    self.pointers[op.y] = self._within(op, self.workspace)

    def _input(self, op: Buffer, number: int) -> Pointer:
        base = self.emit.field(self.inputs, number)
        if op.default is not None:
            default = self.labelled[op.default.data]
            block = self.weights if default.role.data == "param" else self.workspace
            held, absent = self._within(default, block).base, self.emit.is_null(base)
            base = self.emit.b.select(absent, held, base)
            return Pointer(base, op.dtype, absent, op.rows_kept)
        if op.y.first_use:
            self.emit.fail_if(self.emit.is_null(base), NULL_POINTER)
        return Pointer(base, op.dtype)

    def _output(self, op: Buffer, number: int) -> Pointer:
        base = self.emit.field(self.outputs, number)
        absent = self.emit.is_null(base)
        if op.stand_in == 0:
            return Pointer(base, op.dtype, absent, None, skippable=True)
        stand_in = self._within(op, self.workspace).base
        chosen = self.emit.b.select(absent, stand_in, base)
        return Pointer(chosen, op.dtype, absent, op.rows_kept)

    def _within(self, op: Buffer, block: Value) -> Pointer:
        """A buffer at its planned offset, in bytes."""
        assert op.offset is not None, f"{op.label.data} has no offset"
        offset = self.emit.largest(Largest.parse(op.offset.data))
        return Pointer(
            self.emit.b.gep(block, [offset], source_etype=I8), op.dtype, None, op.rows_kept
        )

    def _block(self, ops: Iterable[Operation]) -> list[Pointer]:
        """Code for ops in order; the pointers that they end with."""
        for op in ops:
            match op:
                case Buffer():
                    continue
                case Yield():
                    return [self.pointers[v] for v in op.values]
                case Row():
                    index, stride = (self.emit.dim(get_dim(d)) for d in (op.index, op.stride))
                    row = self.emit.row(self.pointers[op.buffer], index, stride)
                    self.pointers[op.y] = row
                case ShiftedRow():
                    self.pointers[op.y] = self._shifted(op)
                case For():
                    self._for(op)
                case Limit():
                    past = self._flag(op.flag)
                    self.emit.fail_if(past, PAST_LIMIT)
                case _:
                    self._guarded(op)
        return []

    def _shifted(self, op: ShiftedRow) -> Pointer:
        emit, b = self.emit, self.emit.b
        index, stride, edge = (emit.dim(get_dim(d)) for d in (op.index, op.stride, op.edge))
        at_edge = b.icmp_signed("==", index, edge)
        row = emit.row(self.pointers[op.buffer], b.add(index, I64(op.step.data)), stride)
        return Pointer(b.select(at_edge, self.pointers[op.init].base, row.base), row.dtype)

    def _guarded(self, op: Operation) -> None:
        """A kernel; skipped when nothing that it writes is wanted."""
        outs = self._all(op.outs) if isinstance(op, Kernel | GoesOn) else []
        absent = [p.absent for p in outs if p.skippable and p.absent is not None]
        if absent and len(absent) == len(outs):
            with self.emit.when(self.emit.b.not_(reduce(self.emit.b.and_, absent))):
                self._kernel(op)
        else:
            self._kernel(op)
        self.emit.together()

    def _kernel(self, op: Operation) -> None:
        if isinstance(op, Reverse):
            x, lengths, out = self._all([op.x, op.lengths, op.out])
            emit_reverse(self.emit, op, x, lengths, out, self._fail)
        elif isinstance(op, Gather):
            x, index, out = self._all([op.x, op.index, op.out])
            emit_gather(self.emit, op, x, index, out, self._fail)
        elif isinstance(op, Scatter):
            x, index, out = self._all([op.x, op.index, op.out])
            init = None if op.init is None else self.pointers[op.init]
            emit_scatter(self.emit, op, x, index, out, init, self._fail)
        elif not self.shared.call(self.emit, op, self.pointers):
            emit_kernel(self.emit, op, self.pointers)

    def _all(self, values: Sequence[SSAValue]) -> list[Pointer]:
        return [self.pointers[v] for v in values]

    def _for(self, op: For) -> None:
        """A loop over single steps or over chunks of steps."""
        emit, b = self.emit, self.emit.b
        start, count = emit.dim(get_dim(op.start)), emit.dim(get_dim(op.count))
        size = self._chunk_steps(op) if op.chunk is not None else I64(1)
        turns = count
        if op.chunk is not None:
            turns = emit.parts(count, size)
        types = [self.pointers[v] for v in op.inits]
        before, gate, after = _split_at_gate(op)
        opened: list[Value] = []

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            number = b.sub(b.sub(turns, I64(1)), i) if op.reverse else i
            first = b.mul(number, size) if op.chunk is not None else number
            symbols = {op.index.data: b.add(start, first)}
            if op.extent is not None:
                rest = b.sub(count, first)
                symbols[op.extent.data] = b.select(b.icmp_signed("<", rest, size), rest, size)
            if op.turn is not None:
                symbols[op.turn.data] = number
            for argument, base, like in zip(op.body.block.args, carried, types, strict=True):
                self.pointers[argument] = Pointer(base, like.dtype)
            around, emit.turn = emit.turn, i
            with emit.symbols_set(symbols):
                if gate is None:
                    made = [p.base for p in self._block(before)]
                else:
                    self._block(before)
                    opened.append(self._flag(gate.flag))
                    made = self._where(opened[-1], after, carried)
            emit.turn = around
            return made

        goes_on = (lambda: opened[-1]) if gate is not None and bool(gate.last) else None
        finals = emit.loop(turns, turn, [p.base for p in types], goes_on)
        for result, base, like in zip(op.finals, finals, types, strict=True):
            self.pointers[result] = Pointer(base, like.dtype)

    def _flag(self, value: SSAValue) -> Value:
        """A bool in memory, which no thread changes before all have read it."""
        flag = self.emit.load(self.pointers[value])
        self.emit.together()
        return flag

    def _where(
        self, condition: Value, ops: Sequence[Operation], otherwise: Sequence[Value]
    ) -> list[Value]:
        """What ops end with where a condition holds, else some other pointers."""
        b, before = self.emit.b, self.emit.b.block
        run, join = b.append_basic_block("run"), b.append_basic_block("join")
        b.cbranch(condition, run, join)
        b.position_at_end(run)
        made, after = [p.base for p in self._block(ops)], b.block
        b.branch(join)
        b.position_at_end(join)
        values: list[Value] = []
        for value, other in zip(made, otherwise, strict=True):
            phi = b.phi(POINTER)
            phi.add_incoming(value, after)
            phi.add_incoming(other, before)
            values.append(phi)
        return values

    def _chunk_steps(self, op: For) -> Value:
        """max(1, chunk // max(rows, 1))"""
        assert op.chunk is not None and op.rows is not None
        b = self.emit.b
        rows = self.emit.dim(get_dim(op.rows))
        rows = b.select(b.icmp_signed(">", rows, I64(1)), rows, I64(1))
        steps = b.sdiv(I64(op.chunk.data), rows)
        return b.select(b.icmp_signed(">", steps, I64(1)), steps, I64(1))


def _split_at_gate(loop: For) -> tuple[list[Operation], Gate | None, list[Operation]]:
    """A loop's ops: those before its gate, the gate, those behind it; all are before no gate."""
    ops = list(loop.body.block.ops)
    for i, op in enumerate(ops):
        if isinstance(op, Gate):
            return ops[:i], op, ops[i + 1 :]
    return ops, None, []


def emit_kernel(emit: CpuEmit, op: Operation, pointers: Mapping[SSAValue, Pointer]) -> None:
    """Write a kernel that cannot fail, given the pointers of its operands."""

    def every(values: Iterable[SSAValue]) -> list[Pointer]:
        return [pointers[value] for value in values]

    rows = pointers[op.rows] if isinstance(op, Kernel) and op.rows is not None else None
    match op:
        case Map():
            emit_map(emit, op, every(op.ins), every(op.outs), rows)
        case Reduce():
            init = None if op.init is None else pointers[op.init]
            emit_reduce(emit, op, every(op.ins), every(op.outs), init, rows)
        case Gemm():
            extra = [v for v in (op.room, op.scales) if v is not None]
            a, *weights = every([op.a, op.weights, *extra])
            emit_gemm(emit, op, a, weights, every(op.ins), every(op.outs), rows)
        case Contract():
            known = [op.a, op.b, op.out, op.scratch]
            optional = [None if v is None else pointers[v] for v in (op.init, op.first)]
            emit_contract(emit, op, Buffers(*every(known), *optional))
        case Pack():
            emit_pack(emit, op, every(op.ins), pointers[op.out])
        case ListRows():
            emit_list_rows(emit, op, pointers[op.flags], pointers[op.out])
        case _:
            raise AssertionError(f"{op.name} has no code")
