"""Which system and machine a library's file is for, and which this process is on."""

from __future__ import annotations

import sys
from pathlib import Path

_ELF = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_COFF = {0x14C: "i386", 0x8664: "x86_64", 0xAA64: "aarch64"}
_MACHO = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
"""Numbers of the formats -> machines, as Linux calls them."""
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}
_SYSTEMS = {"linux": "Linux", "win32": "Windows", "darwin": "macOS"}

Made = tuple[str, str]
"""A machine and a system."""


def made_for(file: Path) -> Made | None:
    """What a file of ELF, of Windows or of macOS is for; None for any other file."""
    with file.open("rb") as opened:
        head = opened.read(1024)
    if len(head) < 64:
        return None
    if head.startswith(b"\x7fELF"):
        number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        return _ELF.get(number, f"machine {number} of ELF's list"), "Linux"
    if head.startswith(b"MZ"):
        at = int.from_bytes(head[60:64], "little")
        number = int.from_bytes(head[at + 4 : at + 6], "little")
        is_library = head[at : at + 4] == b"PE\0\0"
        return (_COFF.get(number, f"machine {number:#x}"), "Windows") if is_library else None
    if head.startswith(b"\xcf\xfa\xed\xfe"):
        number = int.from_bytes(head[4:8], "little")
        return _MACHO.get(number, f"machine {number:#x}"), "macOS"
    return None


def here() -> Made:
    """This process's machine and system."""
    from platform import machine

    name = machine().lower()
    return _SAME.get(name, name), _SYSTEMS.get(sys.platform, sys.platform)


def difference(file: Path) -> str:
    """Why a library cannot be loaded here, where that is its machine or system; else nothing."""
    built_for, own = made_for(file), here()
    if built_for is None or built_for == own:
        return ""
    (machine, system), (own_machine, own_system) = built_for, own
    if system != own_system:
        return f"compiled for {system} on {machine}, and this is {own_system}"
    return f"compiled for {machine}, and this machine is {own_machine}"
