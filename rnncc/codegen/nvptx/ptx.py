"""From LLVM IR to PTX, and to machine code of chips where NVIDIA's assembler is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rnncc.errors import CompileError
from rnncc.records import record

TRIPLE = "nvptx64-nvidia-cuda"
BASELINE = "sm_70"
"""The oldest chip: the first whose threads make progress each by itself, with scopes for fences."""
PTX_VERSIONS = {"sm_70": 71, "sm_75": 71, "sm_80": 71, "sm_86": 71, "sm_87": 74, "sm_89": 78}
NEWER = 80
"""PTX versions by chip: the lowest that will do, as drivers refuse what they do not know."""
VERSIONS_OF_NEW = {"sm_100": 86, "sm_103": 88, "sm_110": 90, "sm_120": 87}
MOST_SECONDS = 300
LONG = 1_500_000
"""Characters of LLVM IR; in longer code, passes whose time grows faster than it do not run."""


@record
class DeviceMachine:
    """A chip as LLVM names it; `Machine` of `rnncc.codegen.llvm.machine`."""

    cpu: str = BASELINE
    triple: str = TRIPLE

    @property
    def features(self) -> str:
        # sm_90a and sm_100f are sm_90 and sm_100 with further instructions.
        versions = PTX_VERSIONS | VERSIONS_OF_NEW
        return f"+ptx{versions.get(self.cpu.rstrip('af'), NEWER)}"

    @property
    def lanes(self) -> int:
        """A thread has one value."""
        return 1

    @property
    def fma(self) -> bool:
        return True

    @property
    def scales(self) -> bool:
        return False

    @property
    def rounds(self) -> frozenset[str]:
        return frozenset({"f32", "f64"})

    @property
    def compact(self) -> bool:
        return False

    @property
    def lane_counts(self) -> list[int]:
        return [1]


@record
class ChipImage:
    """Code for a chip; that of `ptx` is text that the driver compiles, and ends in NUL."""

    chip: str
    data: bytes


def ptx_of(text: str, machine: DeviceMachine, linked: Sequence[str] = ()) -> str:
    """PTX of a module.

    Raises:
        CompileError: it calls what no GPU has: an error of ours.
    """
    from rnncc.codegen.llvm import objects

    ptx = objects.optimise(text, machine, linked=linked, twice=len(text) > LONG).assembly
    unknown = re.findall(r"^\s*call[^;]*?\b(llvm[.\w$]+)", ptx, re.MULTILINE)
    if unknown:
        raise CompileError("", f"no PTX for {', '.join(sorted(set(unknown)))}")
    return ptx


@cache
def assembler() -> str | None:
    """Where ptxas is: in a wheel, that of CUDA 12 first, which knows old chips; or on the PATH."""
    for package in ("nvidia.cuda_nvcc", "nvidia.cu13"):
        try:
            spec = find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / "bin" / "ptxas"
            if path.is_file():
                return str(path)
    return shutil.which("ptxas")


def assembled(ptx: str, chip: str) -> bytes:
    """Machine code of a chip.

    Raises:
        CompileError: there is no ptxas, or it refuses.
    """
    tool = assembler()
    if tool is None:
        hint = "pip install 'rnncc[gpu]', or leave the chip out: the driver compiles PTX"
        raise CompileError("--gpu", f"no ptxas is found that makes code for {chip}", hint)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        command = [tool, f"-arch={chip}", "-o", str(out), str(source)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
        if process.returncode or not out.exists():
            said = (process.stderr or process.stdout).strip().splitlines()
            raise CompileError("--gpu", f"ptxas refuses {chip}: {said[0] if said else 'no reason'}")
        return out.read_bytes()
