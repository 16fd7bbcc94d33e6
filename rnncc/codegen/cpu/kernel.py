"""The writing of a kernel that cannot fail: which function does it, with which pointers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.contract import emit_contract
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.finished_sums import emit_finished
from rnncc.codegen.cpu.gemm.product import emit_gemm
from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.list_rows import emit_list_rows
from rnncc.codegen.cpu.map import emit_map
from rnncc.codegen.cpu.moves import PanelCopy, emit_pack
from rnncc.codegen.cpu.orders.loop_orders import element_of
from rnncc.codegen.cpu.packed_rows import Buffers
from rnncc.codegen.cpu.sums.reduce import emit_reduce
from rnncc.codegen.llvm.values import Pointer
from rnncc.kern.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.kern.moves import ListRows, Pack


def emit_kernel(
    emit: CpuEmit,
    op: Operation,
    pointers: Mapping[SSAValue, Pointer],
    sizes: GemmSizes | None = None,
    then: Map | None = None,
    late: Pack | None = None,
) -> None:
    """Write a kernel that cannot fail, given the pointers of its operands.

    Args:
        sizes: of a product that stands for others of its kind.
        then: the map behind a reduction, if that computes it.
        late: what a product does on its way: the packing of its weights.
    """
    with emit.elements(element_of(op)):
        if then is None:
            _emit_kernel(emit, op, pointers, sizes, late)
        else:
            assert isinstance(op, Reduce)
            emit_finished(emit, op, then, pointers)


def _emit_kernel(
    emit: CpuEmit,
    op: Operation,
    pointers: Mapping[SSAValue, Pointer],
    sizes: GemmSizes | None,
    late: Pack | None,
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
            panels = late and PanelCopy(emit, late, every(late.ins), weights[0])
            emit_gemm(emit, op, a, weights, every(op.ins), every(op.outs), rows, sizes, panels)
        case Contract():
            operands = [op.a, op.b, op.out, op.scratch]
            optional = [None if v is None else pointers[v] for v in (op.init, op.first)]
            emit_contract(emit, op, Buffers(*every(operands), *optional))
        case Pack():
            emit_pack(emit, op, every(op.ins), pointers[op.out])
        case ListRows():
            emit_list_rows(emit, op, pointers[op.flags], pointers[op.out])
        case _:
            raise AssertionError(f"{op.name} has no code")
