"""The exported functions of a library for a GPU: what the host does, on the caller's stream.

In: a library, and its kernels. Out: LLVM IR for the host's CPU. Each function refuses at once what
sizes and pointers tell, then enqueues a few fills and one launch a program; it waits for nothing,
allocates nothing and keeps no state, so that a call may be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from rnncc_runtime.signatures import CUDA_SUFFIX

from rnncc.codegen.cpu.library.entry_points import LlvmEntryWriter
from rnncc.codegen.cpu.library.supported import supported_text
from rnncc.codegen.cpu.library.tape_seal import TapeSeal
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.sizes import bad_size, emit_size
from rnncc.codegen.llvm.values import I8, I32, I64, POINTER, Value
from rnncc.codegen.nvptx.device import DeviceCode
from rnncc.codegen.nvptx.gpu import PtxGpu
from rnncc.codegen.nvptx.host.driver import MOST_KERNELS, HostDriver, helpers_text
from rnncc.codegen.nvptx.host.image import image_text
from rnncc.codegen.nvptx.limits import SYNC_BYTES, Sync
from rnncc.codegen.nvptx.ptx import ChipImage
from rnncc.ir.dims import Dim
from rnncc.kern.entry_points import entry_points
from rnncc.kern.entry_steps import (
    Call,
    CheckSizes,
    Copy,
    EntryPoint,
    Field,
    Keep,
    NotNull,
    Seal,
    Step,
)
from rnncc.kern.exports import size_functions
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import BAD_SIZE, OK, cuda_parameters

_NULL = ir.Constant(POINTER, None)
_SYNC_WORDS, _SEAL_WORDS = SYNC_BYTES // 4, 2
"""What is cleared as a call begins; and the seal of a tape."""


def write_host(
    library: Library,
    target: PtxGpu,
    device: DeviceCode,
    metadata: Mapping[str, Any],
    images: Sequence[ChipImage],
    in_memory: bool = False,
) -> str:
    """The host's part of a library, as LLVM IR for `target.host`.

    Unless it is for this process, the weights are an external constant: `objects.optimise` takes
    `(library.name, library.weights_block())`.
    """
    assert not library.shared and not library.flushes
    assert len(device.kernels) <= MOST_KERNELS
    name, module = library.name, ir.Module(library.name)
    module.triple = target.host.triple
    for entry in entry_points(library):
        _HostWriter(module, library, entry, device, target.host).write()
    for size in size_functions(library):
        more = SYNC_BYTES if size.name == "workspace_bytes" else 0
        # `sync` comes first, even where a call needs no other workspace.
        bytes_ = Largest([formula + more for formula in size.bytes.formulas or (Dim.of(0),)])
        symbol = f"{name}_{size.name}{CUDA_SUFFIX}"
        emit_size(module, symbol, bytes_, size.symbols, target.host, size.bounds)
    kernels = list(device.kernels.values())
    extended = {**metadata, "kernels": kernel_metadata(device), "images": [i.chip for i in images]}
    parts = [
        str(module),
        helpers_text(name),
        supported_text(name, metadata["features"], target.host),
        image_text(name, images, kernels, library.weights, extended, in_memory),
    ]
    return "\n".join(parts)


def kernel_metadata(device: DeviceCode) -> dict[str, dict[str, Any]]:
    """What the metadata says of kernels: of each program its symbol and the launch."""
    return {
        program: {
            "symbol": kernel.symbol,
            "threads": kernel.threads,
            "shared": kernel.shared,
            "points": str(kernel.points),
            "per_block": kernel.per_block,
        }
        for program, kernel in device.kernels.items()
    }


class _HostWriter(LlvmEntryWriter):
    """Writes one function: all refusals, then what is enqueued, step after step."""

    def __init__(
        self,
        module: ir.Module,
        library: Library,
        entry: EntryPoint,
        device: DeviceCode,
        host: Core,
    ) -> None:
        self.library, self.device = library, device
        symbol = f"{library.name}_{entry.name}{CUDA_SUFFIX}"
        super().__init__(module, symbol, entry, cuda_parameters(entry.parameters), host)
        self.function.attributes.add("nounwind")
        self.driver = HostDriver(
            self.emit, library.name, self.blocks["cuda"], self.blocks["stream"]
        )
        self.numbers = {program: i for i, program in enumerate(device.kernels)}
        self.launches = 0

    def write(self) -> None:
        """The whole function."""
        self.refuse_null(self.blocks["cuda"])
        for step in self.entry.steps:
            self._refuse(step)
        self.blocks["weights"] = self.driver.weights
        self._begin()
        for step in self.entry.steps:
            self._enqueue(step)
        self.emit.b.ret(I32(OK))

    # Refusals

    def _refuse(self, step: Step) -> None:
        """What a step cannot take, before anything is enqueued."""
        match step:
            case CheckSizes(bounds):
                self.emit.fail_if(bad_size(self.emit, bounds), BAD_SIZE)
            case NotNull(block):
                self.refuse_null(self.blocks[block])
            case Call():
                self._refuse_call(step)
            case Copy(_, Field() as field):
                self.refuse_null(self.pointer(field))
            case Keep(pointer):
                self.refuse_null(self.pointer(pointer))
            case _:
                pass

    def _refuse_call(self, call: Call) -> None:
        """Kernels meet in the workspace, so that it is always needed."""
        self.refuse_null(self.blocks["workspace"])
        program = self.library.programs[call.program]
        needed = needed_inputs(program)
        for port, source in zip(program.inputs, call.inputs, strict=True):
            if port.name in needed and isinstance(source, Field):
                self.refuse_null(self.pointer(source))

    # What is enqueued

    def _begin(self) -> None:
        """No error is found yet, and nobody has come to a barrier."""
        status = self.blocks["status"]
        with self.emit.when(self.emit.b.not_(self.emit.is_null(status))):
            self.driver.set_words(status, 1)
        if (sync := self.blocks.get("workspace")) is not None:
            self.driver.set_words(sync, _SYNC_WORDS)
            behind = self.emit.b.gep(sync, [I64(SYNC_BYTES)], source_etype=I8)
            self.blocks |= {"sync": sync, "workspace": behind}

    def _enqueue(self, step: Step) -> None:
        match step:
            case Call():
                self._launch(step)
            case Copy(source, target, size):
                self.driver.copy(self.pointer(target), self.pointer(source), self.emit.dim(size))
            case Keep(pointer, place):
                self.driver.set_pointer(self.pointer(place), self.pointer(pointer))
            case Seal("open" | "use_up"):
                self.driver.set_words(self.blocks["tape"], _SEAL_WORDS)
            case _:
                pass

    def _launch(self, call: Call) -> None:
        if self.launches:
            # Each launch counts its waits from 0; the words from `FAILED` on are the whole call's.
            self.driver.set_words(self.blocks["sync"], Sync.FAILED)
        self.launches += 1
        parameters = [
            self.blocks["weights"],
            self.pointer(call.workspace),
            self.blocks["sync"],
            self.blocks["status"],
            *self._seal(),
            *(self.pointer(source) for source in (*call.inputs, *call.outputs)),
            *(self.emit.symbols[symbol] for symbol in self.library.symbols),
        ]
        kernel = self.device.kernels[call.program]
        self.driver.launch(self.numbers[call.program], kernel, parameters)

    def _seal(self) -> list[Value]:
        """The tape's seal and what it should be; the kernel checks and writes it."""
        if "tape" not in self.blocks:
            return [_NULL, I64(0)]
        tape, sizes = self.blocks["tape"], [self.emit.symbols[s] for s in self.entry.symbols]
        return [tape, TapeSeal(self.emit, self.library.name, tape, sizes).value]

    def stored(self, at: Value) -> Value:
        """The kernel reads it."""
        return at


def needed_inputs(program: KernelProgram) -> set[str]:
    """The inputs that a program reads and has no default for."""
    return {
        buffer.label.data
        for buffer in program.buffers
        if buffer.role.data == "input" and buffer.default is None and buffer.y.first_use
    }
