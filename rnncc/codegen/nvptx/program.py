"""A kernel program as one launch: all threads of the grid walk its loops, and share its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.llvm.values import I32, I64, POINTER, Pointer, Value
from rnncc.codegen.llvm.walk import ProgramWalk
from rnncc.codegen.nvptx import bulk, contract, rounding
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import is_low
from rnncc.codegen.nvptx.gemm import Product
from rnncc.codegen.nvptx.limits import Sync
from rnncc.codegen.nvptx.list_rows import emit_list_rows
from rnncc.codegen.nvptx.map import emit_map
from rnncc.codegen.nvptx.moves import (
    begin_scatter,
    check_index,
    check_lengths,
    emit_gather,
    emit_pack,
    emit_reverse,
    emit_scatter,
)
from rnncc.codegen.nvptx.reduce import emit_reduce, shared_bytes
from rnncc.codegen.nvptx.stationary.loop import Stationary
from rnncc.codegen.nvptx.stationary.own_points import OwnPoints
from rnncc.codegen.nvptx.tensor_cores import bulk as tensor_bulk
from rnncc.codegen.nvptx.tensor_cores import contract as tensor_contract
from rnncc.codegen.nvptx.tensor_cores import stream as tensor_stream
from rnncc.codegen.nvptx.tensor_cores.loop import TensorLoop
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.kern.moves import Gather, ListRows, Pack, Reverse, Scatter
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import BAD_TAPE
from rnncc.planning.phases import NamedMemory, Wait, phases, row_points


class DeviceProgram(ProgramWalk[GpuEmit]):
    """One kernel; `shared`: bytes of shared memory that it has use for.

    Args:
        own: the first parameters by name; `ports`: inputs, then outputs.
        stored: the inputs whose parameter is where the pointer lies.
    """

    def __init__(
        self,
        emit: GpuEmit,
        program: KernelProgram,
        own: Mapping[str, Value],
        ports: tuple[Sequence[Value], Sequence[Value]],
        stored: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(emit, program, own["weights"], own["workspace"])
        self.seal, self.seal_value = own["seal"], own["seal_value"]
        inputs, outputs = ports
        self.inputs = {
            port.name: self._loaded(pointer) if port.name in stored else pointer
            for port, pointer in zip(program.inputs, inputs, strict=True)
        }
        self.shared = 0
        self._memory = NamedMemory.of(program.func)
        self._phases = phases(program.func, self._memory)
        self._stationary: Stationary | TensorLoop | None = None
        self.outputs = {p.name: v for p, v in zip(program.outputs, outputs, strict=True)}

    def write(self, seals: str | None) -> None:
        """The whole kernel; `seals`: `write` or `check` the tape's seal."""
        emit, b = self.emit, self.emit.b
        # An earlier launch of this call has failed: what this one would read is not there.
        before = b.load(emit.word(Sync.FAILED), typ=I32, align=4)
        with emit.when(b.icmp_unsigned("!=", before, I32(0))):
            b.ret_void()
        if seals == "check":
            seal = b.load(self.seal, typ=I64, align=8)
            self.fail_if(b.icmp_unsigned("!=", seal, self.seal_value), BAD_TAPE)
        self.declare()
        self.block(self.program.func.body.block.ops)
        if seals == "write":
            # No wait for other threads: who reads the seal is launched when all have ended.
            with emit.when(emit.first):
                b.store(self.seal_value, self.seal, align=8)
        b.ret_void()

    def _loaded(self, place: Value) -> Value:
        return self.emit.gpu.in_global(self.emit.b.load(place, typ=POINTER, align=8))

    # What `ProgramWalk` asks

    def argument(self, op: Buffer) -> Value:
        ports = self.inputs if op.role.data == "input" else self.outputs
        return ports[op.label.data]

    def together(self) -> None:
        (self._stationary or self.emit).together()

    def behind(self, op: Operation) -> None:
        wait, own = self._phases.behind(op), self._own_points
        if own is not None and op is own.pair.gemm:
            own.behind(self.together)
        elif wait is Wait.ALL:
            self.together()
        elif wait is Wait.ROWS:
            self.emit.together_in_blocks()

    @property
    def _own_points(self) -> OwnPoints | None:
        """Those of the loop that is being written."""
        around = self._stationary
        return around.own_points if isinstance(around, Stationary) else None

    def fail_if(self, condition: Value, code: int) -> None:
        with self.emit.when(condition):
            self._fail(I32(code))

    def _fail(self, code: Value) -> None:
        """End the launch; the first thread leaves the code."""
        emit, b = self.emit, self.emit.b
        with emit.when(emit.first):
            emit.leave(code)
        b.ret_void()

    def _fail_if_found(self) -> None:
        """Behind a check by all threads."""
        emit, b = self.emit, self.emit.b
        self.together()
        code = b.load(emit.word(Sync.FOUND), typ=I32, align=4)
        with emit.when(b.icmp_unsigned("!=", code, I32(0))):
            self._fail(code)

    def loop(self, op: For) -> None:
        inner = self._held(op)
        if inner is None:
            super().loop(op)
            return
        around, self._stationary = self._stationary, inner
        self.shared = max(self.shared, inner.most_shared())
        inner.begin()
        super().loop(op)
        inner.end()
        self._stationary = around

    def _held(self, op: For) -> Stationary | TensorLoop | None:
        """What keeps weights for a loop's products, if anything does."""
        low = TensorLoop.products(op, self.emit.threads)
        if low:
            return TensorLoop(self.emit, op, low, self.pointers, self.row)
        if any(is_low(o) for o in op.walk() if isinstance(o, Gemm)):
            return None  # those of inner loops would write over weights in shared memory
        gemms = Stationary.products(op)
        return Stationary(self.emit, op, gemms, self.pointers, self._memory) if gemms else None

    def kernel(self, op: Operation) -> None:
        with self.emit.members():
            if isinstance(op, Kernel) and op in self._phases.rows:
                with self.emit.by_rows(self.emit.dim(op.dims[0]), row_points(op)):
                    self._kernel(op)
            else:
                self._kernel(op)

    def _kernel(self, op: Operation) -> None:
        rows = self._optional(op.rows) if isinstance(op, Kernel) else None
        match op:
            case Map():
                self._map(op, rows)
            case Reduce():
                [out] = self.all(op.outs)
                self.shared = max(self.shared, shared_bytes(op, self.emit.threads))
                emit_reduce(self.emit, op, self.all(op.ins), out, self._optional(op.init), rows)
            case Gemm():
                self._product(op, rows)
            case Contract():
                self._contract(op)
            case Pack():
                emit_pack(self.emit, op, self.all(op.ins), self.pointers[op.out])
            case ListRows():
                emit_list_rows(self.emit, op, *self.all([op.flags, op.out]))
            case _:
                self._move(op)

    def _map(self, op: Map, rows: Pointer | None) -> None:
        around, ins, outs = self._stationary, self.all(op.ins), self.all(op.outs)
        if rounding.suits(op):
            rounding.emit_rounding(self.emit, op, ins[0], outs[0])
            return
        own = self._own_points
        write = partial(emit_map, self.emit, op, ins, outs, rows)
        if isinstance(around, TensorLoop):
            around.write_map(op, write)
        elif own is not None and op is own.pair.map:
            own.write_map(ins, outs, write)
        else:
            write()

    def _product(self, op: Gemm, rows: Pointer | None) -> None:
        a, weights = self.all([op.a, op.weights])
        gemm = Product(self.emit, op, a, weights, self.all(op.ins), self.all(op.outs), rows)
        around = self._stationary
        if around is not None and op in around.gemms:
            around.write(gemm)
        elif tensor_stream.suits(op, self.emit.threads):
            self.shared = max(self.shared, tensor_stream.shared_bytes())
            tensor_stream.write_stream(self.emit, gemm)
        elif tensor_bulk.suits(op, self.emit.threads):
            self.shared = max(self.shared, tensor_bulk.shared_bytes(op))
            tensor_bulk.write_bulk(self.emit, gemm)
        elif bulk.suits(gemm, self.emit.threads):
            self.shared = max(self.shared, bulk.SHARED)
            bulk.write_bulk(self.emit, gemm)
        else:
            gemm.write()

    def _contract(self, op: Contract) -> None:
        a, b, out = self.all([op.a, op.b, op.out])
        init, first = self._optional(op.init), self._optional(op.first)
        if op.rounded is not None:
            self.shared = max(self.shared, tensor_contract.shared_bytes(op))
            operands = tensor_contract.Operands(a, b, out, self.pointers[op.scratch], init)
            tensor_contract.emit_rounded(self.emit, op, operands)
        else:
            self.shared = max(self.shared, contract.SHARED)
            contract.emit_contract(self.emit, op, a, b, out, init, first)

    def _move(self, op: Operation) -> None:
        """A kernel whose input numbers rows."""
        # Loops with these kernels have no team (`_UNIFORM` of held.py): all threads meet here.
        emit = self.emit
        match op:
            case Reverse():
                x, lengths, out = self.all([op.x, op.lengths, op.out])
                check_lengths(emit, op, lengths)
                self._fail_if_found()
                emit_reverse(emit, op, x, lengths, out)
            case Gather():
                x, index, out = self.all([op.x, op.index, op.out])
                check_index(emit, op, index)
                self._fail_if_found()
                emit_gather(emit, op, x, index, out)
            case Scatter():
                x, index, out = self.all([op.x, op.index, op.out])
                check_index(emit, op, index)
                self._fail_if_found()
                # In place there is nothing to copy.
                if op.init is None or op.init is not op.out:
                    begin_scatter(emit, op, out, self._optional(op.init))
                    self.together()
                emit_scatter(emit, op, x, index, out)
            case _:
                raise AssertionError(f"{op.name} has no code")

    def _optional(self, value: SSAValue | None) -> Pointer | None:
        return None if value is None else self.pointers[value]
