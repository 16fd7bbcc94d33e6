"""Linkers by system: which there are, and the command lines that make a library of an object."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rnncc.errors import CompileError
from rnncc.platforms import SYSTEMS, architecture_of, full_triple, system_of
from rnncc.records import record

_ELF = (
    "-z noexecstack -z relro -z now --gc-sections --hash-style=gnu --build-id=none --strip-all"
).split()
_DRIVER = "-z defs --as-needed".split()
_GNU_ABI = {"armv7": "gnueabihf"}
"""Architectures whose C library has an ABI of another name than `gnu`."""
_ZIG = "pip install ziglang"
_LLD = [f"ld.lld-{version}" for version in range(30, 13, -1)]
HINTS = {
    "linux": f"install a C compiler (cc or clang), lld, or `{_ZIG}`; or set CC",
    "windows": f"install mingw-w64 (x86_64-w64-mingw32-gcc), or `{_ZIG}`; or set CC",
    "macos": f"`{_ZIG}`; on a Mac, install Xcode's command line tools; or set CC",
    "wasm": f"install lld (wasm-ld), or `{_ZIG}`",
}
"""What to install where there is no linker for a system."""
_OF_MSVC = "its programs take the DLL and .lib of windows-x64 or windows-arm64, or `obj` and `a`"


@record
class Files:
    """What a linker reads and writes.

    Attributes:
        source: the object.
        out: the library.
        folder: for files beside these.
        name: the prefix of exported symbols.
        exports: these symbols.
    """

    source: Path
    out: Path
    folder: Path
    name: str
    exports: Sequence[str]


@record
class Linker:
    """A command that links.

    Attributes:
        command: its first words.
        is_driver: whether it is a C compiler, which hands on what stands behind `-Xlinker`.
    """

    command: tuple[str, ...]
    is_driver: bool = True

    @property
    def title(self) -> str:
        """Its name, for people."""
        return "ziglang" if "ziglang" in self.command else Path(self.command[0]).name

    def shared(self, files: Files, triple: str) -> list[str]:
        """The command line that makes the library of an object for a machine."""
        return [*self.command, *_ARGUMENTS[_known(triple)](self, files, triple)]


def _linux(linker: Linker, files: Files, triple: str) -> list[str]:
    """Start files are left out: they would bring constructors and a writable table."""
    script = files.folder / "exports"
    script.write_text(f"{{ global: {files.name}_*; local: *; }};\n")
    flags = [f"--soname={files.out.name}", f"--version-script={script}", *_ELF]
    if not linker.is_driver:
        strict = ["-z", "defs"] if "android" in triple else []
        return ["-shared", *flags, *strict, str(files.source), "-o", str(files.out)]
    start = ["-shared", "-nostdlib", *_passed(*flags, *_DRIVER)]
    helpers = [] if architecture_of(triple) in ("x86_64", "aarch64") else ["-lgcc"]
    if helpers and "ziglang" in linker.command:  # which gives its own in this way alone
        start.remove("-nostdlib")
        helpers = []
    return [*start, str(files.source), "-lm", "-lc", *helpers, "-o", str(files.out)]


def _windows(linker: Linker, files: Files, triple: str) -> list[str]:
    """Of what is no part of the system, a DLL holds the compiler's helper functions alone."""
    definitions = files.folder / f"{files.name}.def"
    definitions.write_text("EXPORTS\n" + "".join(f" {name}\n" for name in files.exports))
    imports = _passed("--out-implib", str(files.out.with_suffix(".lib")), "-s")
    start = ["-shared", str(files.source), str(definitions), *imports]
    if "ziglang" not in linker.command:  # which knows no other start
        start += ["-nostdlib", *_passed("-e", "0"), "-lgcc", "-lmsvcrt", "-lkernel32"]
    return [*start, "-o", str(files.out)]


def _macos(linker: Linker, files: Files, triple: str) -> list[str]:
    exports = files.folder / "exports"
    exports.write_text("".join(f"_{name}\n" for name in files.exports))
    start = ["-dynamiclib", *_passed("-install_name", f"@rpath/{files.out.name}")]
    if "ziglang" in linker.command:  # which hides nothing of an object
        # the system has the helper functions; without -nostdlib it first compiles its own for half
        # a minute
        start = ["-shared", "-nostdlib", "-lSystem", *start[1:]]
    else:
        start += _passed("-exported_symbols_list", str(exports))
        start += ["-arch", triple.split("-")[0]]
    return [*start, str(files.source), "-o", str(files.out)]


def _wasm(linker: Linker, files: Files, triple: str) -> list[str]:
    exports = [f"--export={name}" for name in (*files.exports, "__heap_base")]
    flags = ["--no-entry", "--strip-all", "--stack-first", "-z", "stack-size=131072"]
    flags += ["-mwasm64"] if architecture_of(triple) == "wasm64" else []
    return [*flags, *exports, str(files.source), "-o", str(files.out)]


def _passed(*words: str) -> list[str]:
    """What a C compiler hands on to its linker; `-Wl,` would end at a comma in a path."""
    return [argument for word in words for argument in ("-Xlinker", word)]


_ARGUMENTS: dict[str, Callable[[Linker, Files, str], list[str]]] = {
    "linux": _linux,
    "windows": _windows,
    "macos": _macos,
    "wasm": _wasm,
}


def find_linker(triple: str) -> Linker:
    """The first linker found that can link for a machine.

    The order: `$CC`, but for WebAssembly; for this machine cc, gcc, clang; for another one its own
    gcc (such as aarch64-linux-gnu-gcc), then for Linux clang with lld, then lld alone; then the
    `ziglang` package.

    Raises:
        CompileError: none is found, with the choices.
    """
    system = _known(triple)
    if system not in _ARGUMENTS:
        what = f"there are no shared libraries for {triple}"
        raise CompileError("", what, "take the static library or the object file")
    if system == "wasm":
        return _find_wasm(triple)
    if chosen := _chosen():
        return Linker(chosen)
    if "msvc" in triple:  # whose libraries of helper functions come with it alone
        raise CompileError("", f"found no linker for {triple}", _OF_MSVC)
    for name in _compilers(triple, system):
        if path := shutil.which(name):
            return Linker((path,))
    if system == "linux" and (lld := _first(["ld.lld", *_LLD])):
        if "android" not in triple and (clang := shutil.which("clang")):
            return Linker((clang, f"--target={triple}", "-fuse-ld=lld"))
        return Linker((lld,), is_driver=False)
    if (zig := find_zig("cc", "-target", zig_target(triple))) and "android" not in triple:
        return Linker(zig)
    raise CompileError("", f"found no linker for {triple}", HINTS[system])


def find_zig(*words: str) -> tuple[str, ...] | None:
    """A command of the `ziglang` package, if that is installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return (sys.executable, "-m", "ziglang", *words)


def zig_target(triple: str) -> str:
    """A machine as `zig` names it."""
    words, system = full_triple(triple).split("-"), system_of(triple)
    cpu = {"arm64": "aarch64", "armv7": "arm", "armv7l": "arm"}.get(words[0], words[0])
    if system == "macos":
        return f"{cpu}-macos"
    if system == "windows":
        return f"{cpu}-windows-gnu"
    return "-".join((cpu, words[2] if len(words) > 2 else "linux", *(words[3:] or ["gnu"])))


def _chosen() -> tuple[str, ...]:
    """The words of CC; none where it is not set."""
    text = os.environ.get("CC", "")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        what = f"{text!r} is no command: {error}"
        raise CompileError("CC", what, "end the quotation in CC") from error


def _find_wasm(triple: str) -> Linker:
    names = ["wasm-ld", *(name.replace("ld.lld", "wasm-ld") for name in _LLD)]
    if path := _first(names):
        return Linker((path,), is_driver=False)
    if zig := find_zig("wasm-ld"):
        return Linker(zig, is_driver=False)
    raise CompileError("", f"found no linker for {triple}", HINTS["wasm"])


def _first(names: Sequence[str]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def _compilers(triple: str, system: str) -> Sequence[str]:
    """Names of C compilers for a machine."""
    cpu = architecture_of(triple)
    is_native = (cpu, system) == (_cpu(platform.machine()), _host_system())
    if is_native and "android" not in triple:
        return ("cc", "gcc", "clang")
    if system == "windows":
        return (f"{cpu}-w64-mingw32-gcc",)
    if system == "macos":
        return ("cc",) if _host_system() == "macos" else (f"{triple}-clang",)
    if "android" in triple:
        return (f"{triple.replace('-unknown', '')}-clang",)
    arm = {"armv7": "arm"}.get(cpu, cpu)
    return (f"{triple}-gcc", f"{arm}-linux-{_GNU_ABI.get(cpu, 'gnu')}-gcc")


def _known(triple: str) -> str:
    return system_of(triple) if system_of(triple) in SYSTEMS else "linux"


def _host_system() -> str:
    name = platform.system().lower()
    return {"darwin": "macos"}.get(name, name)


def _cpu(name: str) -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())
