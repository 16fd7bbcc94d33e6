"""Packing as a program of its own, for callers whose parameters stay for several calls.

In: the kernel programs of training. Out: a program that computes what they compute of parameters
alone; they read it as inputs. No bit changes: the same kernels run, at another time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.source import Size
from rnncc.ir.ports import Role, fresh
from rnncc.kern.dialect import Buffer, Func
from rnncc.kern.kernels import Contract, Kernel
from rnncc.kern.moves import Pack
from rnncc.kern.program import KernelProgram, Port
from rnncc.planning.uses import Timeline, Use, accesses, timeline

PACK = "pack"
"""What the program is called."""


def separate_packing(
    programs: Mapping[str, KernelProgram], parameters: Collection[str]
) -> KernelProgram:
    """Move what depends on `parameters` alone out of programs, into one that runs before them.

    Before:

        scratch packed: 20
        pack packed = w
        gemm i in N, j in 4: y = x·packed

    After:

        pack packed:packed = w
        gemm i in N, j in 4: y = x·packed:packed
    """
    first = next(iter(programs.values()))
    names = {buffer.label.data for program in programs.values() for buffer in program.buffers}
    packing = _Packing(names)
    for program in programs.values():
        packing.take(program, parameters)
    return packing.finish(first.source)


class _Packing:
    """The program that is made, as kernels move into it.

    Args:
        names: labels that ports of it may not have.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = set(names)
        self._buffers, self._ops = list[Buffer](), list[Operation]()
        self._parameters = dict[str, tuple[Port, Buffer]]()
        self._outputs = list[Port]()

    def take(self, program: KernelProgram, parameters: Collection[str]) -> None:
        """Move kernels of a program here; what the others read of them becomes its inputs."""
        line = timeline(program.func)
        moved = _movable(program, line, parameters)
        ports = {port.name: port for port in program.inputs}
        for buffer, uses in line.uses.items():
            inside = [use for use in uses if use.op in moved]
            if not inside:
                continue
            if buffer.role.data == "input":
                own = self._parameter(ports[buffer.label.data], buffer)
            elif len(inside) < len(uses):
                own = self._handed_on(program, buffer)
            else:
                buffer.detach()
                self._buffers.append(buffer)
                continue
            _rename(inside, own.y)
        for op in moved:
            op.detach()
            self._ops.append(op)

    def finish(self, source: str) -> KernelProgram:
        """The program."""
        block = Block([*self._buffers, *self._ops, Yield([])])
        module = ModuleOp([Func(PACK, [], block)])
        inputs = [port for port, _ in self._parameters.values()]
        return KernelProgram(module, PACK, source, [], inputs, self._outputs, [])

    def _parameter(self, port: Port, buffer: Buffer) -> Buffer:
        """The buffer here of a parameter."""
        if port.name not in self._parameters:
            own = Buffer(port.name, "input", buffer.dtype, buffer.elements)
            self._parameters[port.name] = port, own
            self._buffers.append(own)
        return self._parameters[port.name][1]

    def _handed_on(self, program: KernelProgram, buffer: Buffer) -> Buffer:
        """The output here of what a program reads, which is an input there from now on."""
        role = Role("packed", buffer.label.data)
        name = fresh(f"{role.kind}:{role.of}", self._names)
        self._names.add(name)
        port = Port(name, (buffer.elements,), buffer.dtype, role=role)
        own = Buffer(name, "output", buffer.dtype, buffer.elements)
        self._outputs.append(port)
        self._buffers.append(own)
        buffer.properties["label"] = StringAttr(name)
        buffer.properties["role"] = StringAttr("input")
        program.inputs.append(port)
        return own


def _rename(uses: list[Use], own: SSAValue) -> None:
    for use in uses:
        for index, operand in enumerate(use.op.operands):
            if operand is use.value:
                use.op.operands[index] = own


def _movable(
    program: KernelProgram, line: Timeline, parameters: Collection[str]
) -> dict[Operation, None]:
    """The kernels outside of loops that read parameters, or what such kernels wrote, alone."""
    by_op = dict[Operation, list[Use]]()
    for use in (use for uses in line.uses.values() for use in uses):
        by_op.setdefault(use.op, []).append(use)

    ops = program.func.body.block.ops
    moved = {op: None for op in ops if _is_known(op, by_op.get(op, []), parameters)}
    size = -1  # what reads or writes along with kernels that stay has to stay, too
    while size != (size := len(moved)):
        for op in list(moved):
            written = [u for use in by_op[op] for u in line.uses[use.buffer] if u.writes]
            if any(use.op not in moved for use in written):
                del moved[op]
    return moved


def _is_known(op: Operation, uses: Sequence[Use], parameters: Collection[str]) -> bool:
    """Whether what a kernel makes is known before a call, of which no size matters."""
    if not isinstance(op, Pack | Kernel | Contract) or any(use.loops for use in uses):
        return False
    # A fill reads nothing: what it fills may be the default of some input, by its name.
    if all(use.writes for use in uses) or _knows_sizes(op):
        return False
    return all(_is_own(use) or _reads_one_of(parameters, use) for use in uses)


def _reads_one_of(parameters: Collection[str], use: Use) -> bool:
    buffer = use.buffer
    return not use.writes and buffer.role.data == "input" and buffer.label.data in parameters


def _knows_sizes(op: Operation) -> bool:
    """Whether a kernel runs over sizes of the call, or computes with them."""
    formulas = [get_dim(inner.dim) for inner in op.walk() if isinstance(inner, Size)]
    for _, _, access, dims in accesses(op):
        formulas += [access.offset, *access.strides, *dims]
    return not all(formula.is_static for formula in formulas)


def _is_own(use: Use) -> bool:
    """Whether it touches scratch memory of a known size, under the buffer's own name."""
    buffer = use.buffer
    whole = use.value is buffer.y and buffer.within is None and buffer.ring is None
    return whole and buffer.role.data == "scratch" and buffer.elements.is_static
