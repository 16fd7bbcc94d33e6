"""What `rnncc targets` lists: the machines there is code for, and what this one can do for each."""

from __future__ import annotations

from rnncc_runtime import ModelError
from rnncc_runtime.cuda import Device

from rnncc.codegen import targets
from rnncc.codegen.llvm.host import host
from rnncc.codegen.nvptx.ptx import assembler
from rnncc.driver.remote.models import runs_here
from rnncc.driver.remote.runners import find_runner
from rnncc.errors import CompileError
from rnncc.packaging.linkers import find_linker
from rnncc.platforms import PLATFORMS, SYSTEMS, Platform

COLUMNS = ("target", "machine", "triple", "cpu", "files", "linked by", "run by")

Row = tuple[str, str, str, str, str, str, str]


def rows() -> list[Row]:
    """This machine, then what can be compiled for from any machine; GPUs last."""
    triple = host().triple
    row = targets.row_of(None)
    files, linker = ",".join(row.products), _linker(triple, "so")
    own = ("", "this one", triple, host().cpu, files, linker, "this machine")
    source = ",".join(targets.REFERENCE.products)
    c99 = ("c99", "any, by a C compiler", "", "", source, "", _runner("c99"))
    gpu = ("nvptx", "NVIDIA GPU", "", _chips(), own[4], own[5], _gpu())
    return [own, *map(_row, PLATFORMS.values()), c99, gpu]


def _row(platform: Platform) -> Row:
    system = SYSTEMS[platform.system]
    files, linker = ",".join(system.products), _linker(platform.triple, system.library)
    name = platform.name
    return name, platform.title, platform.triple, platform.cpu, files, linker, _runner(name)


def _linker(triple: str, library: str | None) -> str:
    """What links a library for a machine, or what to install."""
    if library is None:
        return ""
    try:
        return find_linker(triple).title
    except CompileError as error:
        return f"none: {error.hint}"


def _runner(name: str) -> str:
    """What runs the code, or what is missing."""
    if runs_here(targets.resolve(name)):
        return "this machine"
    try:
        return find_runner(name).title
    except CompileError as error:
        return f"none: {error.hint}"


def _chips() -> str:
    """What `--gpu` may name."""
    tool = assembler()
    text = "PTX for sm_70 up (--gpu)"
    if tool is None:
        return f"{text}; found no ptxas for chips (pip install 'rnncc[gpu]')"
    return f"{text}, and chips such as sm_80, sm_90a, by {tool}"


def _gpu() -> str:
    """The GPU that this machine has, or why it has none."""
    try:
        device = Device.at()
    except ModelError as error:
        return f"none: {error}"
    major, minor = device.chip
    return f"{device.name}, sm_{major}{minor}"
