"""Shared and static libraries: found linkers, what the files hold, clear errors."""

from __future__ import annotations

import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnncc.errors import CompileError
from rnncc.packaging import link
from rnncc.packaging.ar import archive
from rnncc.packaging.elf import Elf
from rnncc.packaging.link import link_shared
from rnncc.packaging.linkers import Linker, find_linker
from tests import samples

EXPORTED = {"twice_run", "twice_workspace_bytes", "twice_metadata"}
ARM = "aarch64-unknown-linux-gnu"


def test_library_holds_code_and_constants_alone(twice_library: Path) -> None:
    elf = Elf(twice_library.read_bytes())
    assert {symbol.name for symbol in elf.dynamic_symbols if symbol.is_defined} == EXPORTED
    assert not [symbol for symbol in elf.dynamic_symbols if not symbol.is_defined]
    assert set(elf.needed) <= {"libc.so.6", "libm.so.6"}
    assert not [section.name for section in elf.sections if section.is_writable_code]
    forbidden = {".init", ".fini", ".init_array", ".fini_array", ".ctors", ".data", ".bss"}
    assert not forbidden & {section.name for section in elf.sections}


def test_archive_is_reproducible_and_indexed() -> None:
    code = samples.compiled().code
    made = archive("twice.o", code, sorted(EXPORTED))
    assert made == archive("twice.o", code, sorted(EXPORTED))
    assert made.startswith(b"!<arch>\n/               0")
    assert all(name.encode() in made[:200] for name in EXPORTED)
    assert made.rstrip(b"\n").endswith(code.rstrip(b"\n"))


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01\x01" + bytes(99), b"MZ" + bytes(99)])
def test_not_elf(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a 64-bit"):
        Elf(data)


Install = Callable[..., Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a machine that has just these programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    def install(*names: str) -> Path:
        for name in names:
            path = folder / name
            path.write_text("#!/bin/sh\necho 'ld: error: broken on purpose' >&2\nexit 1\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return folder

    return install


NATIVE = samples.TRIPLE


@pytest.mark.parametrize(
    ("installed", "triple", "expected"),
    [
        (["cc", "clang", "ld.lld"], NATIVE, ["cc"]),
        (["clang", "ld.lld"], NATIVE, ["clang"]),
        (["ld.lld"], NATIVE, ["ld.lld"]),
        (["cc", "ld.lld"], ARM, ["ld.lld"]),
        (["cc", "clang", "ld.lld"], ARM, ["clang", f"--target={ARM}", "-fuse-ld=lld"]),
        (["cc", "aarch64-linux-gnu-gcc", "ld.lld"], ARM, ["aarch64-linux-gnu-gcc"]),
    ],
)
def test_which_linker(
    programs: Install, installed: list[str], triple: str, expected: list[str]
) -> None:
    folder = programs(*installed)
    first, *rest = expected
    assert list(find_linker(triple).command) == [str(folder / first), *rest]


def test_chosen_linker(programs: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    programs("cc")
    monkeypatch.setenv("CC", "ccache gcc -B/x")
    assert find_linker(NATIVE) == Linker(("ccache", "gcc", "-B/x"))


def test_zig_package(programs: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    programs()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "ziglang")
    command = find_linker("aarch64-unknown-linux-musl").command
    assert command[1:] == ("-m", "ziglang", "cc", "-target", "aarch64-linux-musl")


@pytest.mark.parametrize(("installed", "triple"), [([], NATIVE), (["cc", "clang"], ARM)])
def test_no_linker(programs: Install, installed: list[str], triple: str) -> None:
    programs(*installed)
    with pytest.raises(CompileError) as caught:
        find_linker(triple)
    assert str(caught.value).startswith(f"found no linker for {triple} (install a C compiler")


def test_linker_that_fails(programs: Install, tmp_path: Path) -> None:
    programs("cc")
    with pytest.raises(CompileError, match="cc failed: ld: error: broken on purpose"):
        link_shared(samples.compiled().code, tmp_path / "lib.so", "twice", NATIVE)
    assert not (tmp_path / "lib.so").exists()


def test_linker_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompileError, match="no-such-compiler did not run"):
        link_shared(samples.compiled().code, tmp_path / "lib.so", "twice", NATIVE)


@pytest.mark.parametrize(
    ("cc", "message"),
    [("'cc -O2", "CC: .* is no command: No closing quotation"), ("true", "true wrote no library")],
)
def test_commands_that_do_not_link(
    cc: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", cc)
    with pytest.raises(CompileError, match=message):
        link_shared(samples.compiled().code, tmp_path / "lib.so", "twice", NATIVE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_as_the_linker_starts(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes once the process is known, which then ends."""
    started: list[subprocess.Popen[str]] = []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        signal.raise_signal(number)
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    handler = signal.getsignal(number)
    signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            link._run(["sleep", "60"], tmp_path, NATIVE)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, handler)
    assert started[0].returncode == -signal.SIGKILL


def test_undefined_symbols_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="missing_function"):
        link_shared(samples.needing("missing_function"), tmp_path / "lib.so", "twice", NATIVE)
    link_shared(samples.needing("memcpy"), tmp_path / "lib.so", "twice", NATIVE)
    assert Elf((tmp_path / "lib.so").read_bytes()).needed == ["libc.so.6"]


@pytest.mark.parametrize("folder", ["-x", "-Wl,x", "@x", "a,b c"])
def test_folders_named_as_options_are(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir()
    link_shared(samples.compiled().code, Path(folder, "lib.so"), "twice", NATIVE)
    elf = Elf(Path(folder, "lib.so").read_bytes())
    assert {symbol.name for symbol in elf.dynamic_symbols if symbol.is_defined} == EXPORTED


def test_systems_without_shared_libraries(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="there are no shared libraries for thumbv7em"):
        link_shared(b"", tmp_path / "lib.so", "twice", "thumbv7em-unknown-none-eabihf")


@pytest.mark.slow
@pytest.mark.parametrize("triple", [NATIVE, ARM, "aarch64-unknown-linux-musl"])
def test_linking_with_zig(triple: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    code = samples.compiled(triple=triple).code
    link_shared(code, tmp_path / "lib.so", "twice", triple)
    elf = Elf((tmp_path / "lib.so").read_bytes())
    assert {symbol.name for symbol in elf.dynamic_symbols} == EXPORTED
