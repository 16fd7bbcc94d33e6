"""A library's kernels as LLVM IR for the device: one a program, launched by the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir
from xdsl.ir import Block, Operation

from rnncc.codegen.llvm.user_functions import applied_texts
from rnncc.codegen.llvm.values import Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.fragments import SIDE, is_low
from rnncc.codegen.nvptx.gpu import PtxGpu
from rnncc.codegen.nvptx.limits import POINTERS
from rnncc.codegen.nvptx.program import DeviceProgram
from rnncc.errors import CompileError
from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import Dim, product
from rnncc.kern.dialect import For
from rnncc.kern.entry_points import entry_points
from rnncc.kern.entry_steps import Call, Stored
from rnncc.kern.kernels import Contract, Gemm, Kernel, Reduce
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.kern.program import KernelProgram
from rnncc.records import record

SEALS = {"forward": "write", "backward": "check"}
"""What a program does with the tape's seal."""
MOST_PARAMETERS = 4096 // 8
"""As PTX allows since its first version: 4 KiB."""


@record
class DeviceKernel:
    """A program's kernel.

    Attributes:
        symbol: of the entry in the PTX.
        threads: of a block.
        shared: the most bytes of dynamic shared memory that a block has use for.
        points: results that its largest phase computes, by the sizes; `per_block` of them are work
            for one block.
    """

    symbol: str
    threads: int
    shared: int
    points: Largest
    per_block: int


@record
class DeviceCode:
    """LLVM IR, the kernels in it by program, and modules of users' functions that it calls."""

    text: str
    kernels: dict[str, DeviceKernel]
    linked: tuple[str, ...] = ()


def emit_device(library: Library, target: PtxGpu) -> DeviceCode:
    """All kernels of a library.

    Raises:
        CompileError: a program has more inputs and outputs than a launch takes.
    """
    module = ir.Module(library.name)
    module.triple = target.machine.triple
    kernels = {
        name: _emit_kernel(module, library, name, program, target)
        for name, program in library.programs.items()
    }
    linked = tuple(applied_texts(library, target.machine))
    return DeviceCode(target.finished(str(module)), kernels, linked)


def _emit_kernel(
    module: ir.Module, library: Library, name: str, program: KernelProgram, target: PtxGpu
) -> DeviceKernel:
    program.refuse_doubles()
    symbol = f"{library.name}_{name}"
    ports = len(program.inputs) + len(program.outputs)
    parameters = len(POINTERS) + 1 + ports + len(program.symbols)
    if parameters > MOST_PARAMETERS:
        what = f"{name} has {ports} inputs and outputs; a launch takes {MOST_PARAMETERS}"
        raise CompileError(program.source, f"{what} parameters", "compile it for a CPU")
    gpu = target.primitives(module, symbol, ports, len(program.symbols))
    fixed, port_arguments = gpu.arguments[: len(POINTERS) + 1], gpu.arguments[len(POINTERS) + 1 :]
    own: dict[str, Value] = dict(zip((*POINTERS, "seal_value"), fixed, strict=True))
    emit = GpuEmit(gpu, target, own["sync"], own["status"])
    emit.symbols = dict(zip(program.symbols, port_arguments[ports:], strict=True))
    split = len(program.inputs)
    pointers = port_arguments[:split], port_arguments[split:ports]
    code = DeviceProgram(emit, program, own, pointers, _stored(library, name))
    code.write(SEALS.get(name))
    points = Largest(_points(program.func.body.block, {}))
    return DeviceKernel(symbol, target.threads, code.shared, points, target.threads)


def _stored(library: Library, name: str) -> frozenset[str]:
    """The inputs of a program whose pointers lie in memory of the device."""
    calls = [
        step
        for entry in entry_points(library)
        for step in entry.steps
        if isinstance(step, Call) and step.program == name
    ]
    ports = library.programs[name].inputs
    return frozenset(
        port.name
        for call in calls
        for port, source in zip(ports, call.inputs, strict=True)
        if isinstance(source, Stored)
    )


def _points(block: Block, sizes: Mapping[str, Dim | int]) -> list[Dim]:
    """How many results each kernel has; of a loop's steps as of one, of chunks as of all.

    Those of products by tensor cores count more: a block has few units of a loop's.
    """
    points = list[Dim]()
    for op in block.ops:
        if isinstance(op, For):
            count = get_dim(op.count).substitute(sizes)
            # Steps follow one another, so that many keep no more blocks busy than one; a chunk is
            # computed at once.
            names = [(op.index, 0), (op.iteration, 0), (op.extent, count)]
            inner = {n.data: v for n, v in names if n is not None}
            points += _points(op.body.block, {**sizes, **inner})
        elif (domain := _domain(op)) is not None:
            units = SIDE if isinstance(op, Gemm) and is_low(op) else 1
            points.append(product(domain).substitute(sizes) * units)
    return points


def _domain(op: Operation) -> Sequence[Dim] | None:
    """The sizes of what a kernel computes; None of an op that computes nothing."""
    match op:
        case Reduce():
            return op.dims[: len(op.dims) - op.reduced.data]
        case Kernel():
            return op.dims
        case Contract():
            return op.sizes[1:]
        case _:
            dims = op.properties.get("dims")
            return None if dims is None else get_dims(dims)
