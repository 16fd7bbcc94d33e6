"""Which emulator or engine runs the code of which machine, and how it becomes a program."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from rnncc_runtime.signatures import pointers_of, symbols_of

from rnncc.codegen import targets
from rnncc.driver.remote.boards import BOARDS, Board
from rnncc.driver.remote.calls import exported
from rnncc.errors import CompileError
from rnncc.packaging import texts
from rnncc.packaging.compiled import CompiledModel
from rnncc.packaging.linkers import find_linker, find_zig, zig_target
from rnncc.packaging.products import LINKED, write_products
from rnncc.platforms import architecture_of, platform_of, system_of
from rnncc.records import record
from rnncc.templates import template

HERE = Path(__file__).parent
LACKING = 77
"""The status of a program whose CPU lacks what the library needs."""
TIMEOUT = 600
"""Seconds that a compiler or an emulated call may take."""


USERS = {
    "x86_64": ("qemu-x86_64 -cpu max", "x86_64-linux-gnu-gcc"),
    "aarch64": ("qemu-aarch64", "aarch64-linux-gnu-gcc"),
    "armv7": ("qemu-arm", "arm-linux-gnueabihf-gcc"),
    "riscv64": ("qemu-riscv64 -cpu rv64,v=true", "riscv64-linux-gnu-gcc"),
}
"""Architecture, on Linux -> the emulator of one program, and the C compiler."""
_WINDOWS = {"x86_64": "x86_64-w64-mingw32-gcc"}
EMULATED = {
    **{("linux", architecture): f"`{words[0]}`" for architecture, words in USERS.items()},
    ("linux", "x86_64"): "hardware, else `qemu-x86_64`",
    ("windows", "x86_64"): "`wine`",
    **{("wasm", f"wasm{n}"): "`node`, else the Python package `wasmtime`" for n in (32, 64)},
}
"""System and architecture -> what runs the code, for people."""


@record
class Feature:
    """What not all engines of WebAssembly have.

    Attributes:
        title: for people.
        node: which versions have it.
        module: bytes of one that needs it, in hexadecimal.
    """

    title: str
    node: str
    module: str


_BEGIN = "0061736d01000000"
NEWER = {
    "wasm32-relaxed": Feature(  # a function that returns a relaxed_madd of three splats
        "relaxed SIMD", "install node 21 or later",
        f"{_BEGIN}0105016000017b030201000a13011100{'4100fd0f' * 3}fd85020b",
    ),
    "wasm64": Feature(  # a memory of one page whose addresses are i64
        "64-bit memory", "install node 24 or later", f"{_BEGIN}0503010401",
    ),
}  # fmt: skip
"""The platform's name -> what an engine must have for it."""
_PACKAGES = {
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "wine": "wine",
}
"""Programs -> Debian's packages; those of `qemu-user` are all in one."""


LIBM = (b"sqrt", b"fma")
"""What code for Cortex-M may call of libm, for float64: zig's take numbers in other registers."""


class Missing(CompileError):
    """What a machine's code would need to run here, and is not installed."""

    def __init__(self, target: str, what: str, hint: str) -> None:
        super().__init__("", f"code for {target} does not run here: {what}", hint)


@record
class Runner:
    """How code is made a program and run.

    Attributes:
        emulator: the first words of a command, before the program.
        compiler: of C, before the files; none for WebAssembly.
        board: where there is no operating system.
    """

    emulator: tuple[str, ...]
    compiler: tuple[str, ...] = ()
    board: Board | None = None

    @property
    def title(self) -> str:
        """The emulator, for people."""
        if self.emulator[:1] == (sys.executable,):
            return "wasmtime"
        return Path(self.emulator[0]).name if self.emulator else "this machine"


def find_runner(target: str) -> Runner:
    """What runs a machine's code here.

    Args:
        target: its name or triple.

    Raises:
        CompileError: something is not installed, or nothing runs it.
    """
    if targets.row_of(target) is targets.REFERENCE:
        return Runner((), _compiler(target, ("cc", "gcc", "clang"), None))
    platform = platform_of(target)
    triple = platform.triple if platform is not None and target == platform.name else target
    system, architecture = system_of(triple), architecture_of(triple)
    if system == "wasm":
        return _engine(target, triple)
    if system == "bare":
        return _board_runner(target)
    if "msvc" in triple:
        raise Missing(target, "its helper functions come with MSVC alone", "name windows-x64")
    if system == "windows" and architecture in _WINDOWS:
        wine = _program(target, "wine")
        return Runner((wine,), _compiler(target, (_WINDOWS[architecture],), triple))
    if system == "linux" and architecture in USERS:
        emulator, compiler = USERS[architecture]
        words = shlex.split(emulator)
        start = (_program(target, words[0]), *words[1:])
        own = f"{architecture}-linux-musl-gcc" if "musl" in triple else compiler
        return Runner(start, _compiler(target, (own,), triple))
    raise Missing(target, "there is no emulator of it", "files are made with rnncc compile")


def _engine(target: str, triple: str) -> Runner:
    """What runs WebAssembly, with the program that serves a module, where modules can be linked."""
    try:
        find_linker(triple)
    except CompileError as error:
        raise Missing(target, error.what, error.hint or "") from error
    node, feature = shutil.which("node"), NEWER.get(target)
    if node and (feature is None or validates(node, feature.module)):
        return Runner((node, str(HERE / "program.mjs")))
    if importlib.util.find_spec("wasmtime") is None:
        what = f"no node with {feature.title}" if feature else "no node"
        hint = f"{feature.node if feature else 'apt-get install nodejs'}, or pip install wasmtime"
        raise Missing(target, f"{what}, and no wasmtime", hint)
    return Runner((sys.executable, "-m", "rnncc.driver.remote.engine"))


@cache
def validates(node: str, module: str) -> bool:
    """Whether an engine takes a module, given in hexadecimal."""
    program = f"WebAssembly.validate(Buffer.from('{module}', 'hex')) || process.exit(1)"
    try:
        done = subprocess.run((node, "-e", program), timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _board_runner(target: str) -> Runner:
    platform = platform_of(target)
    board = BOARDS.get(platform.name) if platform is not None else None
    if board is None:
        raise Missing(target, "there is no emulator of it", ", ".join(BOARDS))
    words = board.command.split()
    start = (_program(target, words[0]), *words[1:])
    gcc = shutil.which("arm-none-eabi-gcc") if "thumb" in board.zig else None
    zig = find_zig("cc", *board.zig.split())
    if gcc is None and zig is None:
        raise Missing(target, "no C compiler for it", "gcc-arm-none-eabi, or pip install ziglang")
    compiler = (gcc, *board.flags.split()) if gcc else zig
    assert compiler is not None
    return Runner(start, compiler, board)


def _program(target: str, name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = _PACKAGES.get(name, "qemu-user")
        raise Missing(target, f"no {name}", f"apt-get install {package}")
    return path


def _compiler(target: str, names: Sequence[str], triple: str | None) -> tuple[str, ...]:
    for name in names:
        if path := shutil.which(name):
            return (path,)
    zig = find_zig("cc", *(("-target", _for_programs(triple)) if triple else ()))
    if zig is None:
        raise Missing(target, f"no {names[0]}", f"install {names[0]}, or pip install ziglang")
    return zig


def _for_programs(triple: str) -> str:
    """A machine as `zig` names it for a static program: of the C libraries of Linux it links musl
    alone in that way.
    """
    cpu, system, *abi = zig_target(triple).split("-")
    if system != "linux":
        return "-".join((cpu, system, *abi))
    return f"{cpu}-linux-musl{'eabihf' if cpu == 'arm' else ''}"


class RemoteProgram:
    """A compiled model with what serves it, in a folder that lives as long.

    Raises:
        CompileError: it does not compile or link.
    """

    def __init__(self, runner: Runner, compiled: CompiledModel) -> None:
        self.runner, self.metadata = runner, compiled.metadata
        self._folder = TemporaryDirectory(prefix="rnncc-")
        self.folder = Path(self._folder.name)
        self.command = self._wasm(compiled) if not runner.compiler else self._native(compiled)

    def answer(self, request: bytes) -> bytes:
        """Run it on a request; see `program.c.j2`."""
        if self.runner.board is None:
            return _run(self.command, self.folder, request)
        (self.folder / "request").write_bytes(request)
        _run(self.command, self.folder, b"")
        return (self.folder / "response").read_bytes()

    def _wasm(self, compiled: CompiledModel) -> list[str]:
        write_products(compiled, self.folder, ["wasm"])
        functions = [[f"{compiled.name}_{n}", n in self.metadata["sizes"]] for n in self._names]
        module = self.folder / LINKED["wasm"].format(compiled.name)
        return [*self.runner.emulator, str(module), json.dumps(functions)]

    def _native(self, compiled: CompiledModel) -> list[str]:
        folder, board = self.folder, self.runner.board
        is_source = "c" in compiled.products
        (folder / f"{compiled.name}.h").write_text(texts.header(self.metadata))
        is_zig = "ziglang" in self.runner.compiler
        if is_zig and board and "thumb" in board.zig:
            _check_libm(compiled)
        code = folder / (f"{compiled.name}.c" if is_source else "model.o")
        code.write_bytes(compiled.code)
        (folder / "main.c").write_text(self._source())
        (folder / "system.h").write_text((HERE / ("bare.h" if board else "hosted.h")).read_text())
        out = folder / "program.exe"
        flags = ["-O2", "-std=gnu99", *(["-static"] if self.runner.emulator else [])]
        if board is not None:
            flags = ["-O2", "-std=gnu99", "-ffreestanding", "-T", str(_script(board, folder))]
            flags += [] if "thumb" in board.zig else ["-fno-builtin"]
        flags += ["-fno-sanitize=undefined"] if is_zig else []
        files = [str(folder / "main.c"), str(code)]
        libraries = ["-lm"] if board is None or not is_zig else []
        _run([*self.runner.compiler, *flags, *files, "-o", str(out), *libraries], folder, b"")
        if board is None:
            return [*self.runner.emulator, str(out)]
        semihosting = ["-semihosting-config", "enable=on,target=native"]
        return [*self.runner.emulator, "-nographic", *semihosting, "-kernel", str(out)]

    @property
    def _names(self) -> list[str]:
        return exported(self.metadata)

    def _source(self) -> str:
        name = self.metadata["name"]
        calls = [_call(self.metadata, function) for function in self._names]
        program = template(HERE, "program.c.j2")
        return program.render(name=name, calls=calls, lacking=LACKING)


def _check_libm(compiled: CompiledModel) -> None:
    """Raise `Missing` for code that would call functions of zig's on Cortex-M."""
    for name in LIBM:
        if b"\0%b\0" % name in compiled.code:  # among the names of symbols
            target, what = (
                compiled.metadata["target"],
                f"ziglang's {name.decode()} does not suit it",
            )
            raise Missing(target, what, "apt-get install gcc-arm-none-eabi")


def _call(metadata: Mapping[str, Any], function: str) -> str:
    """The call of a function in C."""
    pointers = [f"p[{i}]" for i in range(len(pointers_of(metadata, function)))]
    sizes = [f"s[{i}]" for i in range(len(symbols_of(metadata["symbols"], function)))]
    text = f"{metadata['name']}_{function}({', '.join([*pointers, *sizes])})"
    is_size = function in metadata["sizes"] and function != "threads"
    return f"bytes({text})" if is_size else text


def _script(board: Board, folder: Path) -> Path:
    """The linker's script."""
    names = ("code", "code_bytes", "data", "data_bytes", "heap", "heap_bytes")
    values = dict(zip(names, board.memory, strict=True))
    path = folder / "board.ld"
    path.write_text(template(HERE, "bare.ld.j2").render(values))
    return path


def _run(command: Sequence[str], folder: Path, stdin: bytes) -> bytes:
    """What a command writes: into files, since the ends of pipes stay open in wine's server."""
    with TemporaryFile() as sent, TemporaryFile() as out, TemporaryFile() as log:
        sent.write(stdin)
        sent.seek(0)
        try:
            done = subprocess.run(
                command, stdin=sent, stdout=out, stderr=log, cwd=folder, timeout=TIMEOUT,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CompileError("", f"{command[0]} did not end within {TIMEOUT} s") from error
        except OSError as error:
            raise CompileError("", f"{command[0]} did not run: {error}") from error
        log.seek(0)
        if done.returncode:
            raise _failure(Path(command[0]).name, done.returncode, log.read())
        out.seek(0)
        return out.read()


def _failure(name: str, status: int, log: bytes) -> CompileError:
    """Of a command that ended with a status, with the line of its log that says most."""
    if status == LACKING:
        what = "which lacks what the code needs (NAME_missing_feature)"
        return CompileError("", f"{name} emulates a CPU {what}")
    lines = log.decode(errors="replace").strip().splitlines() or ["no message"]
    message = next((line for line in lines if "error" in line or "undefined" in line), lines[-1])
    return CompileError("", f"{name} ended with status {status}: {message}")
