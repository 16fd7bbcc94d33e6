"""Files are written whole or not at all, and never through a link."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rnncc
from rnncc import cells
from rnncc.driver.trace import run
from rnncc.errors import CompileError, InternalError
from rnncc.options import Options
from rnncc.stages import ir_text
from rnncc.stages.compilation import Compilation, Step
from rnncc.writing import replacing, staged, write_file, write_new, writing
from tests.compiling import text_of


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """What links lead to, and nothing may change."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder / "precious"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_modes_are_those_of_the_umask(mask: int, out: Path) -> None:
    with umask(mask):
        write_file(out / "a", "text")
        write_new(out, "b", ".txt", "text")
        made = rnncc.build(cells.elman(2, 2), out=out / "new", name="tiny", products=["so", "h"])
    for path in (*out.glob("a"), *out.glob("b*"), out / "new/tiny.h"):
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    assert made.library is not None
    assert made.library.stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.parametrize("target", ["precious", "nothing", "."])
def test_a_link_is_replaced(target: str, out: Path, victim: Path) -> None:
    link = out / "y"
    link.symlink_to(victim.parent / target)
    write_file(link, "new")
    assert link.read_text() == "new" and not link.is_symlink()
    assert victim.read_text() == "precious"
    assert [path.name for path in victim.parent.iterdir()] == ["precious"]


def test_products_replace_links(out: Path, victim: Path) -> None:
    names = [
        "libtiny.so",
        "tiny.h",
        "tiny.py",
        "tiny.o",
        "libtiny.a",
        "tiny.pc",
        "tinyConfig.cmake",
    ]
    for name in names:
        (out / name).symlink_to(victim)
        (out / f".{name}.{os.getpid()}").symlink_to(victim)  # what a partial file might be called
    kinds = ["so", "h", "py", "o", "a", "pc", "cmake"]
    made = rnncc.build(cells.elman(2, 2), out=out, name="tiny", products=kinds)
    assert victim.read_text() == "precious"
    assert {path.name for path in made.paths} == set(names)
    assert not any(path.is_symlink() for path in made.paths)


def test_a_folder_may_be_a_link(out: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(out)
    rnncc.build(cells.elman(2, 2), out=tmp_path / "link", name="tiny", products=["h"])
    assert [path.name for path in out.iterdir()] == ["tiny.h"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was(error: BaseException, out: Path) -> None:
    path = out / "y"
    path.write_text("old")
    with pytest.raises(type(error)), writing(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "old"
    assert list(out.iterdir()) == [path]


def test_errors_name_the_file(out: Path) -> None:
    (out / "folder").mkdir()
    (out / "file").touch()
    for path in (out / "folder", out / "none" / "y", out / "file" / "y", out / ("y" * 300)):
        with pytest.raises(OSError) as error:
            write_file(path, b"")
        assert error.value.filename == str(path)
    with pytest.raises(OSError, match="null byte"):
        write_file(out / "a\0b", b"")
    with pytest.raises(IsADirectoryError) as caught, replacing(out / "folder") as file:
        file.write(b"")
    assert caught.value.filename == str(out / "folder")
    assert sorted(path.name for path in out.iterdir()) == ["file", "folder"]


def test_what_is_no_file_is_written_as_it_is(out: Path) -> None:
    pipe, got = out / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"through")
    reader.join(10)
    assert got == [b"through"]
    write_file(Path("/dev/null"), b"away")
    assert Path("/dev/null").is_char_device()
    with (out / "log").open("w+") as log:
        log.write("before ")
        log.flush()
        write_file(Path(f"/dev/fd/{log.fileno()}"), "after")
        write_file(Path(f"/proc/self/fd/{log.fileno()}"), "!")
    assert (out / "log").read_text() == "before after!"
    with pytest.raises(OSError, match="No space left"):
        write_file(Path("/dev/full"), b"x")


def test_products_come_together(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one cannot be written none is, and a folder that was made for them goes."""
    (out / "tiny.h").mkdir()
    with pytest.raises(CompileError, match=r"out/tiny.h: cannot write: Is a directory"):
        rnncc.build(cells.elman(2, 2), out=out, name="tiny", products=["so", "h"])
    assert [path.name for path in out.iterdir()] == ["tiny.h"]
    monkeypatch.setattr("rnncc.packaging.texts.header", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rnncc.build(cells.elman(2, 2), out=out / "new" / "er", name="tiny", products=["so", "h"])
    assert [path.name for path in out.iterdir()] == ["tiny.h"]


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("together", [False, True], ids=["a file", "products"])
def test_a_file_is_on_the_disk_before_it_takes_its_name(
    together: bool, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, sync, replace = set[int](), os.fsync, Path.replace

    def note(descriptor: int) -> None:
        settled.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def checked(path: Path, target: Path) -> Path:
        assert path.stat().st_ino in settled, f"{target} may be lost"
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", checked)
    if together:
        with staged(out) as folder:
            for name in ("a.so", "a.h"):
                (folder / name).write_bytes(b"content")
    else:
        write_file(out / "a.h", "content")
    assert (out / "a.h").read_text() == "content"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_a_disk_that_cannot_tell(number: int, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems do not know the question; an error of the disk is one of the file."""

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if number == errno.EINVAL:
        write_file(out / "a.h", "content")
        assert (out / "a.h").read_text() == "content"
    else:
        with pytest.raises(OSError, match=r"a\.h"):
            write_file(out / "a.h", "content")
        assert not list(out.iterdir())


@pytest.mark.parametrize("at", range(3))
def test_an_interruption_comes_before_or_after(
    at: int, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, count = Path.replace, 0

    def interrupting(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == at + 1:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupting)
    with pytest.raises(KeyboardInterrupt), staged(out) as folder:
        for name in "abc":
            (folder / name).touch()
    assert [path.name for path in sorted(out.iterdir())] == ["a", "b", "c"]


def test_sets_of_files_do_not_mix(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that write into one folder at once: the library of one and the header of the other would
    be taken for a set."""
    replace, ready, moved = Path.replace, threading.Barrier(2), list[str]()

    def slowly(self: Path, target: Path) -> Path:
        moved.append(self.read_text())
        time.sleep(0.02)
        return replace(self, target)

    def write(whose: str) -> None:
        with staged(out) as folder:
            for name in "abc":
                (folder / name).write_text(whose)
            ready.wait(10)

    monkeypatch.setattr(Path, "replace", slowly)
    writers = [threading.Thread(target=write, args=[whose]) for whose in "12"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert moved in (list("111222"), list("222111"))
    assert {path.read_text() for path in out.iterdir()} == {moved[-1]}


def test_a_folder_that_another_program_locks(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that cannot be read, it is written to."""
    monkeypatch.setattr("rnncc.writing._PAUSE", 0)
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for mode in (0o755, 0o300):
        out.chmod(mode)
        with staged(out) as folder:
            (folder / "a").write_text(str(mode))
        assert (out / "a").read_text() == str(mode)
    out.chmod(0o755)
    os.close(descriptor)


def test_an_interruption_while_another_has_the_folder(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays open: a lock ends with its descriptor."""
    monkeypatch.setattr(time, "sleep", interrupted)
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    opened = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(KeyboardInterrupt), staged(out) as folder:
        (folder / "a").touch()
    assert len(list(Path("/dev/fd").iterdir())) == opened
    assert not list(out.iterdir())
    os.close(descriptor)


@pytest.mark.parametrize("done", [False, True])
def test_an_interruption_while_a_folder_is_removed(
    done: bool, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir, calls = os.rmdir, 0

    def interrupting(*args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if done or calls > 1:
            rmdir(*args, **kwargs)
        if calls == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rmdir", interrupting)
    with pytest.raises(KeyboardInterrupt), staged(out) as folder:
        (folder / "a").touch()
    assert calls > 0
    assert [path.name for path in out.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("linker", "told"),
    [
        ("sleep 100 #", None),
        (
            "echo 'collect2: error: x' >&2; echo 'ld: No space left on device' >&2; exit 1 #",
            "No sp",
        ),
        ("kill -9 $$ #", "failed: no message"),
        ("touch $TMPDIR/a.tmp; exit 3 #", "failed"),
    ],
)
def test_linkers_that_fail(
    linker: str, told: str | None, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = out.parent / "cc"
    script.write_text(f"#!/bin/sh\n{linker}\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr("rnncc.packaging.link._TIMEOUT", 0.2 if told is None else 60)
    with pytest.raises(CompileError, match=told or "took more than 0.2 s"):
        rnncc.build(cells.elman(2, 2), out=out, name="tiny", products=["so"])
    assert list(out.iterdir()) == []


def blamed(monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of a step that fails."""

    def fail(compilation: Compilation) -> None:
        raise KeyError("oops")

    program = cells.elman(2, 2)
    c = Compilation(Options(name="net"), programs={"net": replace(program, source="net.pb")})
    with pytest.raises(InternalError) as error:
        run(c, [Step("fuse", fail, "it fails")])
    return str(error.value)


def test_a_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no folder in it, of which nobody knows."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    with pytest.raises(FileNotFoundError) as caught, staged(Path()):
        pass
    assert caught.value.filename == "."


def test_the_ir_of_a_failed_step(out: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(out))
    (out / "rnncc-net-fuse.mlir").symlink_to(victim)
    start = "step 'fuse' failed on net.pb; its IR is in "
    failure = blamed(monkeypatch)
    assert failure.startswith(start)
    assert victim.read_text() == "precious"
    dump = Path(failure.removeprefix(start))
    assert dump.parent == out and dump.read_text().startswith("builtin.module")
    unwritten = "step 'fuse' failed on net.pb; its IR could not be written: "
    with monkeypatch.context() as patch:
        patch.setattr(ir_text, "write", lambda *_: [].pop())
        assert blamed(patch).startswith(unwritten)
    monkeypatch.setattr(tempfile, "tempdir", str(out / "none"))
    assert blamed(monkeypatch).startswith(unwritten)


def test_dumps_replace_links(out: Path, victim: Path) -> None:
    for name in ("01-read", "02-strip-stop-gradient"):
        (out / f"{name}.mlir").symlink_to(victim)
    text_of(cells.elman(2, 2), None, Options(dump_ir=out), "rnn")
    assert victim.read_text() == "precious"
    assert not any(path.is_symlink() for path in out.iterdir())
