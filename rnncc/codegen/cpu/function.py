"""The walk over a kernel program's loops: one function a program.

In: a planned kernel program. Out: an LLVM function that takes weights and tables of pointers. The
exported functions are in `entries.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.contract import Buffers, emit_contract
from rnncc.codegen.cpu.core import Core
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.product import emit_gemm
from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.interchanged import emit_interchanged
from rnncc.codegen.cpu.list_rows import emit_list_rows
from rnncc.codegen.cpu.loop_orders import LoopOrders, element_of
from rnncc.codegen.cpu.map import emit_map
from rnncc.codegen.cpu.moves import emit_gather, emit_pack, emit_reverse, emit_scatter
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.reduce import emit_reduce
from rnncc.codegen.cpu.resident import PlaceByPlace, PlacesFirst
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.threads import Team
from rnncc.codegen.llvm.values import BAD_SIZE, I32, I64, NULL_POINTER, OK, POINTER, Pointer, Value
from rnncc.codegen.llvm.walk import Walk
from rnncc.ir.dims import Dim
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.kern.moves import Gather, ListRows, Pack, Reverse, Scatter
from rnncc.kern.program import KernelProgram
from rnncc.planning.interchange import Interchange


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
    kind = "fixed" if fixed else "share" if team else "call"
    function = ir.Function(module, signature, f"{prefix}_{kind}")
    function.attributes.add("nounwind")
    emit = CpuEmit.begin(function, target, program.symbols)
    emit.symbols |= {name: I64(size) for name, size in (fixed or {}).items()}
    if team:
        emit.team = Team(module, emit.b, function.args[4])
    body = _Body(emit, program, function, shared, orders)
    if not checked:
        body.check(bounds)
    body.run()
    return function


class _Body(Walk[CpuEmit]):
    """The function's body: checks, buffers, then kernels and loops in order."""

    def __init__(
        self,
        emit: CpuEmit,
        program: KernelProgram,
        function: ir.Function,
        shared: OutlinedKernels,
        orders: LoopOrders,
    ) -> None:
        weights, inputs, outputs, workspace = function.args[:4]
        super().__init__(emit, program, weights, workspace)
        self.inputs, self.outputs, self.shared = inputs, outputs, shared
        self.numbers = {port.name: i for i, port in enumerate(program.inputs)}
        self.places = {port.name: i for i, port in enumerate(program.outputs)}
        self.orders = orders

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
        self.block(self.program.func.body.block.ops)
        self.emit.b.ret(I32(OK))

    def argument(self, op: Buffer) -> Value:
        if op.role.data == "input":
            return self.emit.field(self.inputs, self.numbers[op.label.data])
        return self.emit.field(self.outputs, self.places[op.label.data])

    def require(self, op: Buffer, pointer: Value) -> None:
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
        match self.orders.get(op):
            case None:
                super().loop(op)
                return
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
        self.emit.together()

    def kernel(self, op: Operation) -> None:
        if isinstance(op, Reverse):
            x, lengths, out = self.all([op.x, op.lengths, op.out])
            emit_reverse(self.emit, op, x, lengths, out, self._fail)
        elif isinstance(op, Gather):
            x, index, out = self.all([op.x, op.index, op.out])
            emit_gather(self.emit, op, x, index, out, self._fail)
        elif isinstance(op, Scatter):
            x, index, out = self.all([op.x, op.index, op.out])
            init = None if op.init is None else self.pointers[op.init]
            emit_scatter(self.emit, op, x, index, out, init, self._fail)
        elif not self.shared.call(self.emit, op, self.pointers):
            emit_kernel(self.emit, op, self.pointers)

    def _fail(self, code: int) -> None:
        self.emit.b.ret(I32(code))


def emit_kernel(
    emit: CpuEmit,
    op: Operation,
    pointers: Mapping[SSAValue, Pointer],
    sizes: GemmSizes | None = None,
) -> None:
    """Write a kernel that cannot fail, given the pointers of its operands.

    Args:
        sizes: of a product that stands for others of its kind.
    """
    with emit.elements(element_of(op)):
        _emit_kernel(emit, op, pointers, sizes)


def _emit_kernel(
    emit: CpuEmit,
    op: Operation,
    pointers: Mapping[SSAValue, Pointer],
    sizes: GemmSizes | None,
) -> None:
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
            emit_gemm(emit, op, a, weights, every(op.ins), every(op.outs), rows, sizes)
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
