"""What `rnncc bench --roofline --write` measured of this machine, for code that is for it.

One small file beside the cache of models. It sizes code and changes no result: without it, or with
one of another CPU, the figures of `families.py` serve.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rnncc.codegen.cpu.machine.families import KIB, MIB, Family
from rnncc.errors import CompileError
from rnncc.own_files import cache_folder, make_folder, own_file
from rnncc.writing import replacing

NAME, MOST_BYTES = "machine.json", 4096
CACHES = {"l1": (4 * KIB, 4 * MIB), "l2": (32 * KIB, 256 * MIB)}
"""The least and the most bytes that are believed."""


def refined(cpu: str, family: Family) -> Family:
    """A family with what was measured of this CPU, if anything was.

    Args:
        cpu: LLVM's name of this machine's.
    """
    folder = cache_folder()
    if folder is None:
        return family
    try:
        entries: dict[str, Any] = dict(json.loads(own_file(folder / NAME, MOST_BYTES)))
    except (OSError, ValueError, TypeError, RecursionError):
        return family
    if entries.get("cpu") != cpu or not _is_sound(entries):
        return family
    quick = bool(entries.get("quick_bf16", family.quick_bf16))
    return replace(family, l1=entries["l1"], l2=entries["l2"], quick_bf16=quick)


def _is_sound(entries: dict[str, Any]) -> bool:
    values = [(entries.get(name), bounds) for name, bounds in CACHES.items()]
    return all(type(v) is int and least <= v <= most for v, (least, most) in values)


def write(folder: Path, cpu: str, l1: int, l2: int, quick_bf16: bool | None) -> Path:
    """Keep what was measured; the file.

    Args:
        folder: of the cache; it is made where it is missing.
        quick_bf16: as `Family` has it; None where there is no such instruction.

    Raises:
        CompileError: it cannot be written.
    """
    entries: dict[str, Any] = {"cpu": cpu, "l1": l1, "l2": l2}
    if quick_bf16 is not None:
        entries["quick_bf16"] = quick_bf16
    try:
        make_folder(folder)
    except OSError as error:
        raise CompileError(str(folder), f"cannot make it: {error.strerror}") from error
    with replacing(folder / NAME, 0o600) as file:
        file.write(json.dumps(entries).encode())
    return folder / NAME
