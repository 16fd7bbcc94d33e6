"""NVIDIA GPUs as a target: how weights and scratch lie for them, and their code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.nvptx.limits import room_bytes
from rnncc.codegen.nvptx.ptx import BASELINE, ChipImage, DeviceMachine, assembled, ptx_of
from rnncc.codegen.target import Code, Forms
from rnncc.errors import CompileError
from rnncc.platforms import LINE

if TYPE_CHECKING:
    from llvmlite import ir

    from rnncc.codegen.nvptx.primitives import Primitives
    from rnncc.kern.library import Library

NAME = "nvptx"
HOSTS = {"x86_64": "x86-64", "aarch64": "generic"}
"""Of each architecture the CPU that all others can do for."""
AHEAD_BYTES = 32 << 20
"""What is computed ahead of the steps that read it stays in the second-level cache."""
TENSOR = "llvm.nvvm.mma."
WITH_TENSORS = "sm_80"
"""Code with such calls is for this chip and newer ones."""
QUOTIENT = re.compile(r"= fdiv float ([^,]+), ([^,\n]+)$", re.MULTILINE)
NEARLY = r'= call float asm "div.full.f32 $0, $1, $2;", "=f,f,f"(float \1, float \2)'
"""Beside sums of bf16, quotients are right to 2 units in the last place: gates take less time."""
CHIP = re.compile(r"sm_([7-9]|1[0-2])[0-9][af]?")


@dataclass(frozen=True)
class NvptxTarget:
    """GPUs that run the baseline's PTX.

    Attributes:
        host: the CPU that the library's functions run on.
        chips: those that machine code is made for beside the PTX.
        threads: of a block.
    """

    host: CpuTarget
    chips: tuple[str, ...] = ()
    threads: int = 256
    machine: DeviceMachine = field(default_factory=DeviceMachine)

    @property
    def triple(self) -> str:
        """The host's: the library is a file for its linker."""
        return self.host.triple

    @property
    def cpu(self) -> str:
        return self.host.cpu

    @property
    def device(self) -> str:
        return "cuda"

    @property
    def extensions(self) -> list[str]:
        return self.host.extensions

    # Layouts

    def of(self, dtype: str) -> NvptxTarget:
        """There is no code for doubles."""
        return self

    @property
    def slack(self) -> int:
        return 0

    def panel(self, slots: int, units: int) -> int:
        """A warp's lanes read weights side by side."""
        return min(32, units)

    def weights_dtype(self, precision: str) -> str:
        if precision == "int8":
            what = "there is no code for int8 weights on a GPU"
            raise CompileError("--precision", what, "take bf16, or compile for a CPU")
        return {"fp32": "f32", "bf16": "bf16"}[precision]

    @property
    def byte_products(self) -> bool:
        return False

    @property
    def line(self) -> int:
        return LINE

    def row_bytes(self, dtype: str, depth: int) -> int:
        """Rounded rows of a loop's product go from iteration to iteration there."""
        return room_bytes(depth) if dtype == "bf16" else 0

    def contract_room(self, rows: int, columns: int) -> int:
        return 0

    def rows_ahead(self, width: int, weights: int) -> int:
        return max(1, AHEAD_BYTES // (4 * max(width, 1)))

    # Code

    @property
    def product(self) -> str:
        return "obj"

    def primitives(self, module: ir.Module, name: str, ports: int, sizes: int) -> Primitives:
        """Begin a kernel with so many inputs and outputs."""
        from rnncc.codegen.nvptx.primitives import Primitives

        return Primitives(module, name, ports, sizes)

    def finished(self, text: str) -> str:
        """A module's text, with what llvmlite has no words for: the launch that kernels expect."""
        bounds = f'"nvvm.reqntid"="{self.threads}" "nvvm.minctasm"="1"'
        if TENSOR in text:
            text = QUOTIENT.sub(NEARLY, text)
        return re.sub(r"(define ptx_kernel void [^\n]*)", rf"\1 {bounds}", text)

    def images(self, text: str, linked: Sequence[str]) -> list[ChipImage]:
        """Code for the driver to choose from: each chip's, then PTX."""
        images = [
            ChipImage(chip, assembled(ptx_of(text, DeviceMachine(chip), linked), chip))
            for chip in self.chips
        ]
        machine = self.machine
        if TENSOR in text and machine == DeviceMachine():
            machine = DeviceMachine(WITH_TENSORS)
        ptx = ptx_of(text, machine, linked)
        return [*images, ChipImage("ptx", ptx.encode() + b"\0")]

    def write(self, library: Library, metadata: dict[str, Any], in_memory: bool = False) -> Code:
        """LLVM IR of the kernels; then their images and the host's functions as one object."""
        from rnncc.codegen.llvm import objects
        from rnncc.codegen.nvptx.device import emit_device
        from rnncc.codegen.nvptx.host import write_host

        device = emit_device(library, self)
        old = [chip for chip in self.chips if int(chip.strip("sm_af")) < int(WITH_TENSORS[3:])]
        if old and TENSOR in device.text:
            what = f"{old[0]} has no tensor cores for bf16"
            raise CompileError("--gpu", what, f"{WITH_TENSORS} or newer, or no --precision")

        def finish() -> Forms:
            images = self.images(device.text, device.linked)
            host = write_host(library, self, device, metadata, images, in_memory)
            weights = None if in_memory else (library.name, library.weights_block())
            optimised = objects.optimise(host, self.host, in_memory, weights)
            return {
                "llvm": lambda: device.text,
                "ptx": lambda: images[-1].data.decode().rstrip("\0"),
                "asm": lambda: optimised.assembly,
                "obj": lambda: optimised.object_code,
            }

        names = (*metadata["functions"], *metadata["sizes"], "cuda_image")
        symbols = {name: f"{library.name}_{name}" for name in names}
        return Code(device.text, ".ll", finish, symbols)

    def check_runs_here(self) -> None:
        from rnncc.codegen.cpu.host import check_runs_here

        check_runs_here(self.host)


def resolve(triple: str | None, cpu: str | None, knobs: Mapping[str, int]) -> NvptxTarget:
    """GPUs, with machine code for the chips that `cpu` names, such as `sm_80,sm_90a`.

    Raises:
        CompileError: there is no such chip, or it is older than the baseline.
    """
    chips = tuple(filter(None, (cpu or "").split(",")))
    for chip in chips:
        if not CHIP.fullmatch(chip):
            what = f"{chip!r} is no chip that rnncc knows"
            raise CompileError("--gpu", what, f"{BASELINE} to sm_120, such as sm_80,sm_90a")
    return NvptxTarget(_host(), chips)


def _host() -> CpuTarget:
    """Any CPU of this architecture: the host's functions only check and call the driver."""
    from rnncc.codegen.cpu.machines import resolve_target

    return resolve_target(None, HOSTS[resolve_target().architecture])


def load(code: bytes) -> Any:
    """The host's part in this process."""
    from rnncc.codegen.llvm.objects import load_object

    return load_object(code)
