"""NVIDIA GPUs as a target: the code of kernels and of the host's functions, and its images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnncc.codegen.cpu.machine import features
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.nvptx.gpu import TENSOR, PtxGpu
from rnncc.codegen.nvptx.ptx import BASELINE, ChipImage, DeviceMachine, assembled, ptx_of
from rnncc.codegen.target import Code, Forms
from rnncc.errors import CompileError
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.kern.library import Library

NAME = "nvptx"
WITH_TENSORS = "sm_80"
"""Code with calls for tensor cores is for this chip and newer ones."""
CHIP = re.compile(r"sm_([7-9]|1[0-2])[0-9][af]?")


@record
class NvptxTarget(PtxGpu):
    """GPUs that libraries are written for, and the CPU of their host's functions."""

    @property
    def product(self) -> str:
        return "obj"

    def images(self, text: str, linked: Sequence[str]) -> list[ChipImage]:
        """Code for the driver to choose from: each chip's, then PTX."""
        images = [
            ChipImage(chip, assembled(ptx_of(text, DeviceMachine(chip), linked), chip))
            for chip in self.chips
        ]
        return [*images, ChipImage("ptx", self.ptx(text, linked).encode() + b"\0")]

    def ptx(self, text: str, linked: Sequence[str]) -> str:
        """PTX for the oldest chips that can run the code."""
        machine = self.machine
        if TENSOR in text and machine == DeviceMachine():
            machine = DeviceMachine(WITH_TENSORS)
        return ptx_of(text, machine, linked)

    def extensions_of(self, library: Library) -> list[str]:
        """The host's."""
        return self.host.extensions

    def write(self, library: Library, metadata: dict[str, Any], in_memory: bool = False) -> Code:
        """LLVM IR of the kernels; then their images and the host's functions as one object."""
        from rnncc.codegen.llvm import objects
        from rnncc.codegen.nvptx.device import emit_device
        from rnncc.codegen.nvptx.host.entries import write_host

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
        from rnncc.codegen.cpu.machine.host import check_runs_here

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
    from rnncc.codegen.cpu.resolve import resolve_target

    return resolve_target(None, features.BASELINE[resolve_target().architecture])


def load(code: bytes) -> Any:
    """The host's part in this process."""
    from rnncc.codegen.llvm.objects import load_object

    return load_object(code)
