"""What a Cortex-M4 executes of a library, by qemu's log, and the cycles that Arm gives for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from rnncc.codegen.cpu.cycles import CALL, instruction_cycles

OBJDUMP = shutil.which("arm-none-eabi-objdump")
_BRANCHES = re.compile(r"(b|bl|blx|bx|cbn?z|b(eq|ne|gt|lt|ge|le|hi|ls|cc|cs|mi|pl|hs|lo))")
_LISTS = re.compile(r"v?(ldm|stm|push|pop)")


def log_instructions(model: Any) -> Path:
    """Let each call of a model leave a log, one line an instruction; the file."""
    program = model._keep
    program.command += ["-d", "exec,nochain", "-singlestep", "-D", "log"]
    return program.folder / "log"


def executed_cycles(log: Path, name: str) -> int:
    """Of the functions of a library, as the last call left them."""
    known = dict(_instructions(log.parent / "program.exe", name))
    lines = re.findall(r"^Trace .*\[[0-9a-f]+/([0-9a-f]+)/", log.read_text(), re.MULTILINE)
    places = [int(word, 16) for word in lines]
    return sum(_cycles(*known[at], 0 < to - at <= 4) for at, to in pairwise(places) if at in known)


def _instructions(program: Path, name: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """The instructions of a library's functions, by their addresses."""
    command = [str(OBJDUMP), "-d", str(program)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for function in re.split(r"\n\n[0-9a-f]+ <", text):
        if function.startswith(f"{name}_"):
            line = re.compile(r" *([0-9a-f]+):\t[0-9a-f ]+\t(\S+)(?:\t(.*))?")
            for found in filter(None, map(line.match, function.splitlines())):
                yield int(found[1], 16), (found[2].split(".")[0], found[3] or "")


def _cycles(mnemonic: str, operands: str, goes_on: bool) -> int:
    """Of one instruction, which is followed by the next one or by another."""
    if _BRANCHES.fullmatch(mnemonic):
        return 1 if goes_on else CALL
    if _LISTS.match(mnemonic):
        numbers = re.findall(r"([drs])(\d+)(?:-[drs](\d+))?", operands.split("{")[-1])
        ranges = [(2 if kind == "d" else 1, int(a), int(b or a)) for kind, a, b in numbers]
        named = len(re.findall(r"\b(?:sl|fp|ip|lr|pc)\b", operands.split("{")[-1]))
        return 1 + named + sum(each * (last - first + 1) for each, first, last in ranges)
    return instruction_cycles(mnemonic, operands)
