"""What `rnncc targets` lists: machines by LLVM's names, with the CPUs to choose; then others."""

from __future__ import annotations

import llvmlite.binding as llvm

COLUMNS = ("machine", "triple", "cpu")

_MACHINES = (
    ("x86-64", "x86_64-unknown-linux-gnu", "x86-64-v2, x86-64-v3, x86-64-v4, or LLVM's name"),
    ("AArch64", "aarch64-unknown-linux-gnu", "generic, or LLVM's name, such as neoverse-n1"),
    ("any, by a C compiler", "reference", "none: it writes portable C99"),
)


def rows() -> list[tuple[str, str, str]]:
    """This machine, then what can be compiled for from any machine."""
    return [("this one", llvm.get_default_triple(), llvm.get_host_cpu_name()), *_MACHINES]
