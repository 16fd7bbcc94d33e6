"""The walk over a kernel program's loops: one function a program, with parts if it is large.

In: a planned kernel program. Out: an LLVM function that takes weights and tables of pointers. The
exported functions are in `library/entries.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.matrix_tiles import matrices_of, with_registers
from rnncc.codegen.cpu.kernel import emit_kernel
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.moves import emit_gather, emit_reverse, emit_scatter
from rnncc.codegen.cpu.orders.batch_code import ROW, of_one_row, segments
from rnncc.codegen.cpu.orders.interchanged import emit_interchanged
from rnncc.codegen.cpu.orders.loop_orders import LoopOrders, element_of
from rnncc.codegen.cpu.orders.place_code import PlaceRunCode
from rnncc.codegen.cpu.orders.resident import PlaceByPlace, PlacesFirst
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.parts import PART, in_runs, read_in, slots_of
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.sums.stored_terms import StoredTerms
from rnncc.codegen.cpu.threads import Team
from rnncc.codegen.llvm.values import I32, I64, POINTER, Pointer, Value
from rnncc.codegen.llvm.walk import ProgramWalk
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer, For, Row, ShiftedRow
from rnncc.kern.kernels import Gemm, Map, Reduce
from rnncc.kern.moves import Gather, Pack, Reverse, Scatter
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import BAD_SIZE, NULL_POINTER, OK
from rnncc.planning.batch_runs import BatchRun, JoinedKernels, batch_runs
from rnncc.planning.interchange import Interchange
from rnncc.planning.place_runs import PlaceRun


def emit_program(
    module: ir.Module,
    program: KernelProgram,
    prefix: str,
    target: Core,
    shared: OutlinedKernels,
    orders: LoopOrders,
    team: bool = False,
    checked: bool = False,
    fixed: Mapping[str, int] | None = None,
    bounds: Sequence[Dim] = (),
) -> ir.Function:
    """Add `PREFIX_call(weights, inputs, outputs, workspace, sizes...)`.

    `inputs` and `outputs` are tables of pointers in the order of the ports. With `team` it is
    `PREFIX_share(weights, inputs, outputs, workspace, part, sizes...)`, for one of several threads:
    `part` points to a `struct rnncc_part`. `shared` is of all programs of the module, `orders` of
    this one; with `checked` the caller has checked the sizes, and its tables are there. With
    `fixed` sizes it is `PREFIX_fixed`, which takes all of them nevertheless. `bounds` are formulas
    of sizes that must not be negative.
    """
    pointers = 5 if team else 4
    signature = ir.FunctionType(I32, [POINTER] * pointers + [I64] * len(program.symbols))
    name = f"{prefix}_{'fixed' if fixed else 'share' if team else 'call'}"
    tiled = bool(matrices_of(program, target, fixed))
    function = ir.Function(module, signature, f"{name}_inside" if tiled else name)
    function.attributes.add("nounwind")
    emit = CpuEmit.begin(function, target, program.symbols)
    emit.symbols |= {name: I64(size) for name, size in (fixed or {}).items()}
    if team:
        emit.team = Team(module, emit.b, function.args[4])
    slots = None if target.compact else slots_of(program)
    table = emit.slots(len(slots)) if slots else ir.Constant(POINTER, None)
    body = _FunctionBody(emit, program, [*function.args[:4], table], shared, orders, slots)
    if not checked:
        body.check(bounds)
    body.run()
    return with_registers(function, name) if tiled else function


class _Pointers(dict[SSAValue, Pointer]):
    """Those of a function; what else it asks for is found for it."""

    def __init__(self, find: Callable[[SSAValue], Pointer]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, value: SSAValue) -> Pointer:
        return self._find(value)


class _FunctionBody(ProgramWalk[CpuEmit]):
    """A function's body: checks, buffers, then kernels and loops in order.

    Args:
        blocks: pointers to weights, tables of inputs and outputs, workspace, table of the slots.
        slots: in that table, if the program has parts: see `slots_of`.
    """

    def __init__(
        self,
        emit: CpuEmit,
        program: KernelProgram,
        blocks: Sequence[Value],
        shared: OutlinedKernels,
        orders: LoopOrders,
        slots: Mapping[SSAValue, int] | None,
    ) -> None:
        weights, self.inputs, self.outputs, workspace, self.table = blocks
        super().__init__(emit, program, weights, workspace)
        self.pointers = _Pointers(self._found)
        self.blocks, self.shared, self.orders, self.slots = blocks, shared, orders, slots
        self.numbers = {port.name: i for i, port in enumerate(program.inputs)}
        self.places = {port.name: i for i, port in enumerate(program.outputs)}
        self.batches = list[BatchRun]()
        self.batch: BatchRun | None = None

    def check(self, bounds: Sequence[Dim]) -> None:
        """Sizes and tables."""
        self.emit.fail_if(bad_size(self.emit, bounds), BAD_SIZE)
        self.emit.fail_if(self.emit.is_null(self.inputs), NULL_POINTER)
        self.emit.fail_if(self.emit.is_null(self.outputs), NULL_POINTER)

    def run(self) -> None:
        if self.program.workspace:
            size = self.emit.largest(self.program.workspace)
            empty = self.emit.b.icmp_signed("==", size, I64(0))
            missing = self.emit.b.and_(self.emit.is_null(self.workspace), self.emit.b.not_(empty))
            self.emit.fail_if(missing, NULL_POINTER)
        self.declare()
        if self.emit.team is None and not self.emit.target.compact:  # threads share a kernel's rows
            near, symbols = self.emit.target.cache, self.program.symbols
            joined = self._joined()
            self.batches = batch_runs(self.program.func, symbols, near, self.orders, joined)
        self.block(self.program.func.body.block.ops)
        self.emit.b.ret(I32(OK))

    # Parts

    def declare_some(self, buffers: Sequence[Buffer]) -> None:
        """Pointers of buffers; of a program in parts only that the inputs are there."""
        if self.slots is None:
            super().declare_some(buffers)
            return
        inputs = [op for op in buffers if op.role.data == "input" and op.default is None]
        read = [op for op in inputs if op.y.first_use]
        for first in range(0, len(read), PART):
            some = read[first : first + PART]
            self._apart(lambda part, some=some: part.require_some(some))

    def require_some(self, inputs: Sequence[Buffer]) -> None:
        """Refuse inputs that are NULL."""
        for op in inputs:
            self.emit.fail_if(self.emit.is_null(self.argument(op)), NULL_POINTER)

    def block(self, ops: Iterable[Operation]) -> list[Pointer]:
        """Code for ops in order, in parts where they are many."""
        ops = list(ops)
        if self.batches:
            runs, self.batches = self.batches, []
            for some, run in segments(ops, runs):
                self.block(some) if run is None else self._row_by_row(run)
            return []
        if self.slots is None:
            return super().block(ops)
        runs, read = list(in_runs(ops)), read_in(ops)
        if len(runs) == 1:
            # before any code of them, so that each formula of an offset is written once
            owners = [v.owner for v in read if v not in self.pointers]
            super().declare_some([owner for owner in owners if isinstance(owner, Buffer)])
            return super().block(ops)
        self._hand_on([v for v in self.pointers if v in read])
        for run in runs:
            self._apart(lambda part, run=run: part.part(run))
        return self.all(ops[-1].values) if isinstance(ops[-1], Yield) else []

    def _row_by_row(self, run: BatchRun) -> None:
        """A run of kernels for each row of the batch."""

        def row(i: Value, carried: list[Value]) -> list[Value]:
            self.batch = run
            with self.emit.symbols_set({ROW: i}):
                if self.slots is None:
                    super(_FunctionBody, self).block(run.ops)
                else:
                    for ops in in_runs(run.ops):
                        self._apart(lambda part, ops=ops: part.part(ops))
            self.batch = None
            return []

        self.emit.loop(self.emit.dim(Dim.of(run.symbol)), row)

    def part(self, ops: Sequence[Operation]) -> None:
        """Code for some ops, for others to go on from."""
        self.block(op for op in ops if not isinstance(op, Yield))
        self._hand_on(v for op in ops if isinstance(op, For) for v in op.finals)

    def _apart(self, write: Callable[[_FunctionBody], None]) -> None:
        """Write code as a function of its own, and call it."""
        emit, b, blocks = self.emit, self.emit.b, len(self.blocks)
        constants = {n: v for n, v in emit.symbols.items() if isinstance(v, ir.Constant)}
        names = [name for name in emit.symbols if name not in constants]
        team = [] if emit.team is None else [emit.team.struct]
        number = I64(0) if emit.iteration is None else emit.iteration
        arguments = [*self.blocks, *team, number, *(emit.symbols[name] for name in names)]
        name = emit.module.get_unique_name(f"{emit.module.name}_part")
        signature = ir.FunctionType(I32, [value.type for value in arguments])
        function = ir.Function(emit.module, signature, name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        inner = CpuEmit.begin(function, emit.target, names)
        inner.symbols |= constants
        if team:
            inner.team = Team(emit.module, inner.b, function.args[blocks])
        inner.iteration = None if emit.iteration is None else function.args[blocks + len(team)]
        part = _FunctionBody(
            inner, self.program, function.args[:blocks], self.shared, self.orders, self.slots
        )
        part.labelled, part.batch = self.labelled, self.batch
        part.served_outputs = self.served_outputs
        write(part)
        inner.b.ret(I32(OK))
        code = b.call(function, arguments)
        with emit.when(b.icmp_signed("!=", code, I32(OK))):
            b.ret(code)

    def _hand_on(self, values: Iterable[SSAValue]) -> None:
        """Put pointers that loops carry or end with into the table."""
        slots = self.slots or {}
        for value in (v for v in values if v in slots):
            pointer = self.pointers[value]
            self.emit.b.store(pointer.base, self._slot(value), align=self.emit.pointer_bytes)

    def _found(self, value: SSAValue) -> Pointer:
        """A pointer of a program in parts."""
        match value.owner:
            case Buffer() as buffer:
                return self.declared(buffer)
            case Row() | ShiftedRow() as row:
                return self.row(row)
            case _:
                size = self.emit.pointer_bytes
                base = self.emit.b.load(self._slot(value), typ=POINTER, align=size)
                return Pointer(base, buffer_dtype(value))

    def _slot(self, value: SSAValue) -> Value:
        assert self.slots is not None, f"{value} has no pointer"
        return self.emit.b.gep(self.table, [I64(self.slots[value])], source_etype=POINTER)

    # Buffers and kernels

    def argument(self, op: Buffer) -> Value:
        if op.role.data == "input":
            return self.emit.field(self.inputs, self.numbers[op.label.data])
        return self.emit.field(self.outputs, self.places[op.label.data])

    def require(self, op: Buffer, pointer: Value) -> None:
        if self.slots is None:  # else `declare_some` has
            self.emit.fail_if(self.emit.is_null(pointer), NULL_POINTER)

    def fail_if(self, condition: Value, code: int) -> None:
        self.emit.fail_if(condition, code)

    def together(self) -> None:
        self.emit.together()

    @contextmanager
    def iteration(self, number: Value) -> Generator[None]:
        around, self.emit.iteration = self.emit.iteration, number
        yield
        self.emit.iteration = around

    def loop(self, op: For) -> None:
        unwanted = self.unwanted(op)
        if unwanted is None:
            self._loop(op)
            return

        def ends() -> list[Pointer]:
            self._loop(op)
            return self.all(op.finals)

        begins = [self.pointers[v].base for v in op.inits]
        bases = self.where(self.emit.b.not_(unwanted), ends, begins)
        for final, base in zip(op.finals, bases, strict=True):
            self.pointers[final] = Pointer(base, buffer_dtype(final))

    def _loop(self, op: For) -> None:
        match self.orders.get(op):
            case Interchange() as plan:
                with self.emit.elements(element_of(plan.parts[0].op)):
                    emit_interchanged(self.emit, plan, self.pointers, self.row)
            case PlacesFirst() as order:
                with self.emit.elements(element_of(next(iter(order.plan.kernels)))):
                    code = PlaceByPlace(self.emit, order, self.pointers, self.row)
                    if op.chunk is None:
                        code.write_runs()
                    else:
                        self.iterate(op, code.block)
            case _:
                super().loop(op)
                return
        self.emit.together()

    def guarded(self, op: Operation) -> None:
        if isinstance(op, Pack) and op in self.shared.late.values():
            return  # by the product
        run = self.orders.get(op)
        if not isinstance(run, PlaceRun):
            super().guarded(op)
        elif op is run.kernels[0].op:  # which writes all of them
            with self.emit.elements(element_of(op)):
                PlaceRunCode(self.emit, run, self.pointers, self.unwanted).write()
            self.emit.together()

    def kernel(self, op: Operation) -> None:
        if self.batch is None:
            self._kernel(op)
            return
        whole, self.pointers = self.pointers, _Pointers(self._found)
        self.pointers |= of_one_row(self.emit, self.batch, op, whole)
        with self.emit.symbols_set({self.batch.symbol: I64(1)}):
            self._kernel(op)
        self.pointers = whole

    def _kernel(self, op: Operation) -> None:
        match op:
            case Reverse():
                x, lengths, out = self.all([op.x, op.lengths, op.out])
                emit_reverse(self.emit, op, x, lengths, out, self._fail)
            case Gather():
                x, index, out = self.all([op.x, op.index, op.out])
                emit_gather(self.emit, op, x, index, out, self._fail)
            case Scatter():
                x, index, out = self.all([op.x, op.index, op.out])
                init = None if op.init is None else self.pointers[op.init]
                emit_scatter(self.emit, op, x, index, out, init, self._fail)
            case _:
                self._computed(op)

    def _computed(self, op: Operation) -> None:
        """A kernel that computes, unless another one computes what it does."""
        if (terms := self._terms(op, op.next_op)) is not None:
            terms.op.erase()  # by the kernel behind it
        elif (terms := self._terms(op.prev_op, op)) is not None:
            with self.emit.elements(element_of(terms.op)):
                terms.write(self.emit, self.pointers)
            terms.op.erase()
        elif op.prev_op is not None and self._map_behind(op.prev_op) is op:
            pass  # by the reduction in front of it
        elif not self.shared.call(self.emit, op, self.pointers):
            late = self.shared.late.get(op) if isinstance(op, Gemm) else None
            emit_kernel(self.emit, op, self.pointers, then=self._map_behind(op), late=late)

    def _map_behind(self, op: Operation) -> Map | None:
        """The map that a reduction computes."""
        then = self.shared.finished.get(op) if isinstance(op, Reduce) else None
        if then is None or op in self.orders or then in self.orders:
            return None
        alone = self.shared.is_function(op) or not StoredTerms.are(then, then.next_op)
        return then if alone else None

    def _joined(self) -> JoinedKernels:
        """The kernels that are computed in one pass with those behind them."""
        firsts, unstored = set[Operation](), set[SSAValue]()
        for op in self.program.func.body.block.ops:
            if self._map_behind(op) is not None:
                firsts.add(op)
                unstored.update(op.operands[-1:])
            elif (terms := self._terms(op, op.next_op)) is not None:
                terms.op.erase()
                firsts.add(op)
        return JoinedKernels(firsts, unstored)

    def _terms(self, first: Operation | None, then: Operation | None) -> StoredTerms | None:
        """What two kernels are together, if neither is a function.

        Of a row alone threads share the elements of a map, of a sum they share none.
        """
        one_pass = self.emit.team is None and not self.emit.target.compact
        if first is None or then is None or not one_pass:
            return None
        if first in self.orders or then in self.orders:  # of a run, which is written elsewhere
            return None
        if self.shared.is_function(first) or self.shared.is_function(then):
            return None
        if self.served_outputs.get(first) != self.served_outputs.get(then):
            return None
        return StoredTerms.of(first, then)

    def _fail(self, code: int) -> None:
        self.emit.b.ret(I32(code))
