"""What kernels take of a chip, as NVIDIA's assembler tells: registers, and what does not fit."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rnncc.codegen.nvptx.ptx import BASELINE, MOST_SECONDS, assembler

SINCE = "sm_80"
"""A chip that assemblers know which no longer know the baseline."""

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_REGISTERS = re.compile(r"Used (\d+) registers")


def usage(ptx: str, chips: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """Kernel -> registers of a thread, and bytes that it keeps in memory for want of more.

    Of the first chip that the assembler knows, empty where there is none.
    """
    tool = assembler()
    tried = (_used(tool, ptx, chip) for chip in (*chips, BASELINE, SINCE) if tool is not None)
    return next((report for report in tried if report), dict[str, tuple[int, int]]())


def _used(tool: str, ptx: str, chip: str) -> dict[str, tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(ptx)
        command = [tool, "-v", f"-arch={chip}", "-o", str(Path(folder) / "cubin"), str(source)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    return _read(process.stdout + process.stderr) if process.returncode == 0 else {}


def _read(listing: str) -> dict[str, tuple[int, int]]:
    usages, name, spills = dict[str, tuple[int, int]](), "", 0
    for line in listing.splitlines():
        if match := _ENTRY.search(line):
            name, spills = match[1], 0
        elif match := _SPILLS.search(line):
            spills = int(match[1])
        elif (match := _REGISTERS.search(line)) and name:
            usages[name] = int(match[1]), spills
    return usages
