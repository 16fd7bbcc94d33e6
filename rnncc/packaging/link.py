"""Links an object into a shared library, with whichever linker the machine has."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rnncc.errors import CompileError
from rnncc.writing import partial_name, scratch

_CHOICES = "install a C compiler (cc or clang), lld, or `pip install ziglang`; or set CC"
_TIMEOUT = 120
_LITTLE = 1 << 16
"""Bytes: a disk with less is full."""
_TELLING = ("undefined reference", "undefined symbol", "No space", "too large", "error:", "")
"""What the line of a linker's output that says most has in it, in this order."""

_FLAGS = (
    "-z noexecstack -z relro -z now --gc-sections --hash-style=gnu --build-id=none --strip-all"
).split()
_DRIVER_FLAGS = "-z defs --as-needed".split()


@dataclass(frozen=True)
class Linker:
    """A command that links.

    Attributes:
        command: its first words.
        is_driver: whether it is a C compiler, which hands on what stands behind `-Wl,`.
    """

    command: tuple[str, ...]
    is_driver: bool = True

    def shared(self, source: Path, out: Path, soname: str, script: Path) -> list[str]:
        """The command line that makes a shared library of an object.

        Start files are left out: they would bring constructors and a writable table.
        """
        flags = [f"--soname={soname}", f"--version-script={script}", *_FLAGS]
        if not self.is_driver:
            return [*self.command, "-shared", *flags, str(source), "-o", str(out)]
        passed = [word for flag in (*flags, *_DRIVER_FLAGS) for word in ("-Xlinker", flag)]
        start = [*self.command, "-shared", "-nostdlib", *passed]
        return [*start, str(source), "-lm", "-lc", "-o", str(out)]


def find_linker(triple: str) -> Linker:
    """The first linker found that can link for a machine.

    The order: `$CC`; for this machine cc, gcc, clang; for another one its own gcc (such as
    aarch64-linux-gnu-gcc), then clang with lld; then lld alone; then the `ziglang` package.

    Raises:
        CompileError: none is found, with the choices.
    """
    if chosen := shlex.split(os.environ.get("CC", "")):
        return Linker(tuple(chosen))
    cpu, system = _machine(triple)
    is_native = (cpu, system) == (_cpu(platform.machine()), platform.system().lower())
    names = ("cc", "gcc", "clang") if is_native else (f"{triple}-gcc", f"{cpu}-{system}-gnu-gcc")
    for name in names:
        if path := shutil.which(name):
            return Linker((path,))
    lld = shutil.which("ld.lld")
    if lld and (clang := shutil.which("clang")):
        return Linker((clang, f"--target={triple}", "-fuse-ld=lld"))
    if lld:
        return Linker((lld,), is_driver=False)
    if importlib.util.find_spec("ziglang"):
        abi = triple.split("-")[3:] or ["gnu"]
        target = "-".join((cpu, system, *abi))
        return Linker((sys.executable, "-m", "ziglang", "cc", "-target", target))
    raise CompileError("", f"found no linker for {triple}", _CHOICES)


def link_shared(code: bytes, out: Path, name: str, triple: str) -> None:
    """Write a shared library that exports `NAME_*` and needs nothing but libc and libm.

    Args:
        code: an ELF object.
        out: the file to write; an older one is replaced in one step.
        name: the prefix of the exported symbols.
        triple: the machine that the object is for.

    Raises:
        CompileError: the object is not ELF, no linker is found, or the linker fails.
    """
    if code[:4] != b"\x7fELF":
        raise CompileError(
            "", f"cannot link for {triple}", "rnncc links for Linux; elsewhere take the object file"
        )
    linker = find_linker(triple)
    folder = partial_name(out.parent)
    with scratch(folder):
        source, script, made = (folder / part for part in ("model.o", "exports", out.name))
        source.write_bytes(code)
        script.write_text(f"{{ global: {name}_*; local: *; }};\n")
        _run(linker.shared(source, made, out.name, script), folder)
        made.replace(out)


def _run(command: list[str], folder: Path) -> None:
    """Run the linker; its first complaint becomes the error.

    Args:
        folder: for its own temporary files.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _uninterrupted():  # else it might be started and then forgotten
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
        _, told = process.communicate(timeout=_TIMEOUT)
    except BaseException as error:  # an interruption too
        if process is None:
            if isinstance(error, OSError):
                what = f"the linker {command[0]} did not run: {error}"
                raise CompileError("", what, _CHOICES) from error
            raise
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            what = f"the linker {command[0]} took more than {_TIMEOUT} s"
            raise CompileError("", what, _CHOICES) from error
        raise
    if process.returncode:
        lines = [line for line in told.splitlines() if line.strip()] or ["no message"]
        first = next(line for word in _TELLING for line in lines if word in line)
        raise CompileError("", f"the linker {command[0]} failed: {first}", _hint(folder))


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Until the end of the block hold Ctrl-C back; then its handler is called.

    `rnncc_runtime.signals.undisturbed` does more, but takes 20 ms to import, in every command.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # the handler runs in another thread, or there is none
        return
    seen: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for number, frame in seen[:1]:
            handler(number, frame)


def _hint(folder: Path) -> str | None:
    """Some linkers die without a word where a disk is full."""
    return "the disk is full" if shutil.disk_usage(folder).free < _LITTLE else None


def _machine(triple: str) -> tuple[str, str]:
    """The CPU and the system of a triple such as x86_64-unknown-linux-gnu."""
    parts = triple.split("-")
    system = next((part for part in parts[1:] if part.startswith("linux")), parts[-1])
    return _cpu(parts[0]), system


def _cpu(name: str) -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())
