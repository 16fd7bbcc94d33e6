"""Links an object into a library, with whichever linker the machine has."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rnncc.errors import CompileError
from rnncc.packaging.linkers import HINTS, Files, find_linker
from rnncc.platforms import system_of
from rnncc.writing import partial_name, scratch

_TIMEOUT = 600
"""Seconds: `zig` compiles parts of a C library when it first links for a system."""
_LITTLE = 1 << 16
"""Bytes: a disk with less is full."""
_TELLING = ("undefined reference", "undefined symbol", "No space", "too large", "error:", "")
"""What the line of a linker's output that says most has in it, in this order."""


def link_shared(
    code: bytes, out: Path, name: str, triple: str, exports: Sequence[str] = ()
) -> None:
    """Write a library that exports `NAME_*`, and of a DLL its import library beside it.

    It needs nothing but what every program of the system has.

    Args:
        code: an object.
        out: the file to write; an older one is replaced in one step.
        name: the prefix of the exported symbols.
        triple: the machine that the object is for.
        exports: the exported symbols; of ELF all that begin with the name are.

    Raises:
        CompileError: no linker is found, or the linker fails.
    """
    linker = find_linker(triple)
    out = out.absolute()  # a relative one might begin as an option does
    folder = partial_name(out.parent)
    with scratch(folder):
        source, linked = folder / "model.o", folder / out.name
        source.write_bytes(code)
        _run(linker.shared(Files(source, linked, folder, name, exports), triple), folder, triple)
        if not linked.is_file():
            raise CompileError("", f"the linker {linker.command[0]} wrote no library")
        imports = linked.with_suffix(".lib")
        if imports.exists():
            imports.replace(out.with_suffix(".lib"))
        linked.replace(out)


def _run(command: list[str], folder: Path, triple: str) -> None:
    """Run the linker; its first complaint becomes the error.

    Args:
        folder: for its own temporary files.
        triple: what it links for.
    """
    from rnncc_runtime.signals import undisturbed

    process: subprocess.Popen[str] | None = None
    choices = HINTS.get(system_of(triple), HINTS["linux"])
    try:
        with undisturbed():  # else it might be started and then forgotten
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": str(folder.resolve())},
                start_new_session=True,  # so that it ends with the processes that it starts
            )
        _, output = process.communicate(timeout=_TIMEOUT)
    except BaseException as error:  # an interruption too
        if process is None:
            if isinstance(error, OSError):
                what = f"the linker {command[0]} did not run: {error}"
                raise CompileError("", what, choices) from error
            raise
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            what = f"the linker {command[0]} took more than {_TIMEOUT} s"
            raise CompileError("", what, choices) from error
        raise
    if process.returncode:
        lines = [line for line in output.splitlines() if line.strip()] or ["no message"]
        first = next(line for word in _TELLING for line in lines if word in line)
        raise CompileError("", f"the linker {command[0]} failed: {first}", _hint(folder))


def _hint(folder: Path) -> str | None:
    """Some linkers die without a word where a disk is full."""
    return "the disk is full" if shutil.disk_usage(folder).free < _LITTLE else None
