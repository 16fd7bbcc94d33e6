"""A GPU as code is written for it: how weights and scratch lie for it, and how kernels begin."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Self

from llvmlite import ir

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.nvptx.limits import parts_room, room_bytes
from rnncc.codegen.nvptx.primitives import Primitives
from rnncc.codegen.nvptx.ptx import DeviceMachine
from rnncc.errors import CompileError
from rnncc.platforms import LINE
from rnncc.records import record

AHEAD_BYTES = 32 << 20
"""What is computed ahead of the steps that read it stays in the second-level cache."""
TENSOR = "llvm.nvvm.mma."
"""Calls for tensor cores begin so."""
QUOTIENT = re.compile(r"= fdiv float ([^,]+), ([^,\n]+)$", re.MULTILINE)
NEARLY = r'= call float asm "div.full.f32 $0, $1, $2;", "=f,f,f"(float \1, float \2)'
"""Beside sums of bf16, quotients are right to 2 units in the last place: gates take less time."""


@record
class PtxGpu:
    """GPUs that run the baseline's PTX.

    Attributes:
        host: the CPU that the library's functions run on.
        chips: those that machine code is made for beside the PTX.
        threads: of a block.
    """

    host: Core
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
    def tuned(self) -> str:
        """The host computes nothing."""
        return ""

    @property
    def device(self) -> str:
        return "cuda"

    @property
    def flushes(self) -> bool:
        return False

    # Layouts

    def of(self, dtype: str) -> Self:
        """There is no code for doubles."""
        return self

    @property
    def slack(self) -> int:
        return 0

    def panel(self, slots: int, units: int, dtype: str, depth: int) -> int:
        """A warp's lanes read weights side by side."""
        return min(32, units)

    def stripe(self, slots: int, panel: int) -> int:
        return 0

    def weights_dtype(self, precision: str) -> str:
        if precision == "int8":
            what = "there is no code for int8 weights on a GPU"
            raise CompileError("--precision", what, "take bf16, or compile for a CPU")
        return {"fp32": "f32", "bf16": "bf16"}[precision]

    @property
    def packs_bf16(self) -> bool:
        return True

    @property
    def byte_products(self) -> bool:
        return False

    @property
    def waits_are_dear(self) -> bool:
        return True

    @property
    def reads_windows(self) -> bool:
        return True

    @property
    def line(self) -> int:
        return LINE

    def row_bytes(self, dtype: str, depth: int) -> int:
        """Rounded rows of a loop's product go from iteration to iteration there."""
        return room_bytes(depth) if dtype == "bf16" else 0

    def contract_room(self, rows: int, columns: int, rounded: bool = False) -> int:
        return parts_room(rows, columns) if rounded else 0

    def rows_ahead(self, width: int, weights: int) -> int:
        return max(1, AHEAD_BYTES // (4 * max(width, 1)))

    # Code

    def primitives(self, module: ir.Module, name: str, ports: int, sizes: int) -> Primitives:
        """Begin a kernel with so many inputs and outputs."""
        return Primitives(module, name, ports, sizes)

    def finished(self, text: str) -> str:
        """A module's text, with what llvmlite has no words for: the launch that kernels expect."""
        bounds = f'"nvvm.reqntid"="{self.threads}" "nvvm.minctasm"="1"'
        if TENSOR in text:
            text = QUOTIENT.sub(NEARLY, text)
        return re.sub(r"(define ptx_kernel void [^\n]*)", rf"\1 {bounds}", text)
