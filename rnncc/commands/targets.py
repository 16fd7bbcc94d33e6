"""What `rnncc targets` lists: machines by LLVM's names, with the CPUs to choose; then others."""

from __future__ import annotations

import llvmlite.binding as llvm
from rnncc_runtime import ModelError

from rnncc.codegen.nvptx.ptx import assembler

COLUMNS = ("machine", "triple", "cpu")

_MACHINES = (
    ("x86-64", "x86_64-unknown-linux-gnu", "x86-64-v2, x86-64-v3, x86-64-v4, or LLVM's name"),
    ("AArch64", "aarch64-unknown-linux-gnu", "generic, or LLVM's name, such as neoverse-n1"),
    ("any, by a C compiler", "reference", "none: it writes portable C99"),
)


def rows() -> list[tuple[str, str, str]]:
    """This machine, then what can be compiled for from any machine; GPUs last."""
    own = ("this one", llvm.get_default_triple(), llvm.get_host_cpu_name())
    return [own, *_MACHINES, ("NVIDIA GPU", "nvptx", _chips()), ("NVIDIA GPU here", "", _here())]


def _chips() -> str:
    """What `--gpu` may name."""
    tool = assembler()
    text = "PTX for sm_70 up (--gpu)"
    if tool is None:
        return f"{text}; found no ptxas for chips (pip install 'rnncc[gpu]')"
    return f"{text}, and chips such as sm_80, sm_90a, by {tool}"


def _here() -> str:
    """The GPU that this machine has, or why it has none."""
    from rnncc_runtime.cuda import Device

    try:
        device = Device.at()
    except ModelError as error:
        return str(error)
    major, minor = device.chip
    return f"{device.name}, sm_{major}{minor}"
