"""Boards without an operating system, as `qemu-system` has them."""

from __future__ import annotations

from rnncc.records import record


@record
class Board:
    """A machine of `qemu-system` without an operating system.

    Attributes:
        command: what starts it.
        flags: the C compiler's.
        zig: the machine and the CPU as `zig` names them.
        memory: code, data and heap: where each begins, and its bytes.
    """

    command: str
    flags: str
    zig: str
    memory: tuple[int, int, int, int, int, int]


_MPS2 = (0, 4 << 20, 0x20000000, 4 << 20, 0x21000000, 16 << 20)
_AN500 = (0, 4 << 20, 0x20000000, 4 << 20, 0x60000000, 16 << 20)
_SECURE = (0x10000000, 4 << 20, 0x38000000, 4 << 20, 0x80000000, 16 << 20)
_SSE300 = (0, 512 << 10, 0x20000000, 512 << 10, 0x60000000, 1 << 30)
_VIRT = (0x80000000, 16 << 20, 0x81000000, 16 << 20, 0x82000000, 64 << 20)
_ARM = "-nostartfiles -mthumb -mfloat-abi=hard"
BOARDS = {
    "cortex-m4": Board(
        "qemu-system-arm -M mps2-an386", f"-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 {_ARM}",
        "-target thumb-freestanding-eabihf -mcpu=cortex_m4", _MPS2,
    ),
    "cortex-m7": Board(
        "qemu-system-arm -M mps2-an500", f"-mcpu=cortex-m7 -mfpu=fpv5-d16 {_ARM}",
        "-target thumb-freestanding-eabihf -mcpu=cortex_m7", _AN500,
    ),
    "cortex-m33": Board(
        "qemu-system-arm -M mps2-an505", f"-mcpu=cortex-m33 -mfpu=fpv5-sp-d16 {_ARM}",
        "-target thumb-freestanding-eabihf -mcpu=cortex_m33", _SECURE,
    ),
    "cortex-m55": Board(
        "qemu-system-arm -M mps3-an547", f"-mcpu=cortex-m55 {_ARM}",
        "-target thumb-freestanding-eabihf -mcpu=cortex_m55", _SSE300,
    ),
    "riscv32": Board(
        "qemu-system-riscv32 -M virt -bios none -m 128M", "-march=rv32imafc -mabi=ilp32f",
        "-target riscv32-freestanding -mcpu=generic_rv32+m+a+f+c -mabi=ilp32f", _VIRT,
    ),
}  # fmt: skip
"""The platform's name -> where its code runs."""
