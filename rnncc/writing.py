"""Writes every file: whole or not at all, under a name of nobody else's, never through a link.

A file is on the disk before it takes its name: a machine that stops leaves the old one or the new
one, and no holes. New files have the mode that the umask leaves. Where a link stands in the place
of a file, the link is replaced, and what it leads to stays. A device, a FIFO, or an open file such
as /dev/stdout is written to as it is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

PARTIAL = re.compile(r"\.rnncc-[0-9a-f]{16}")
"""What files and folders are called until they are whole."""

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})", re.ASCII)
_TRIES, _PAUSE = 200, 0.01
"""How often a folder that is locked is asked for, and the seconds between."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def write_file(path: Path, content: bytes | str) -> None:
    """Write a file; a text as UTF-8.

    Raises:
        OSError: it cannot be written; its `filename` is the path.
    """
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # a file's name may hold any bytes
    with writing(path) as file:
        file.write(content)


def write_new(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """Write a file that was not there, into a folder that others may write to.

    Returns:
        Its path: the stem, then a random number.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    path = folder / f"{stem}-{os.urandom(8).hex()}{suffix}"
    with _named(path):
        try:
            with create(path) as file:
                file.write(text.encode(errors="backslashreplace"))
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise
    return path


@contextmanager
def writing(path: Path) -> Generator[BinaryIO]:
    """A file to write to, which takes its place at the end of the block, unless that fails.

    Raises:
        OSError: it cannot be written; its `filename` is the path.
    """
    descriptor = _stream(path)
    if descriptor is None:
        with replacing(path) as file:
            yield file
        return
    with _named(path), os.fdopen(descriptor, "wb") as file:
        yield file


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Generator[BinaryIO]:
    """As `writing`, whatever stands in the file's place, unless it is a folder.

    Args:
        mode: of the new file, less what the umask takes.
    """
    partial = partial_name(path.parent)
    with _named(path):
        try:
            with create(partial, mode) as file:
                yield file
                file.flush()
                _settle(file.fileno())
            partial.replace(path)
        except BaseException:  # an interruption too
            with suppress(OSError):
                partial.unlink()
            raise


def create(path: Path, mode: int = 0o666) -> BinaryIO:
    """Open a file that was not there; raises `FileExistsError` where anything is, even a link."""
    return os.fdopen(os.open(path, _NEW, mode), "wb")


@contextmanager
def scratch(folder: Path) -> Generator[None]:
    """Make a folder of this process's own, and remove it at the end of the block."""
    try:
        folder.mkdir(mode=0o700)
        yield
    finally:
        try:
            rmtree(folder, ignore_errors=True)
        except KeyboardInterrupt:  # nothing of it stays, as in `_move`
            rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def staged(out: Path) -> Generator[Path]:
    """A folder whose files all go into `out` at the end of the block; none if the block fails.

    `out` is made if need be. Of several processes that write there each moves all of its files
    before the next one does.

    Raises:
        OSError: a file cannot be written; its `filename` is that in `out`, or `out` itself.
    """
    missing = [path for path in (out, *out.parents) if not path.exists()]
    folder = partial_name(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with scratch(folder):
            yield folder
            with _turn(out):
                _move(sorted(folder.iterdir()), out)
    except BaseException as error:  # an interruption too
        with suppress(OSError):
            for path in missing:
                path.rmdir()
        if not isinstance(error, OSError):
            raise
        path = Path(error.filename or out)
        inside = path.parent in (folder, out) and path != folder
        shown = out / path.name if inside else out
        raise OSError(error.errno, error.strerror or str(error), str(shown)) from error


@contextmanager
def _turn(folder: Path) -> Generator[None]:
    """Let no other process of ours move files into a folder meanwhile."""
    descriptor = None
    try:
        with suppress(OSError):  # a folder that cannot be read, a file system without locks
            descriptor = os.open(folder, os.O_RDONLY)
            _lock(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Wait for a lock, but not for long: we hold it for milliseconds, another program may keep it.

    It ends with the descriptor.
    """
    if sys.platform == "win32":
        return
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(_PAUSE)


def partial_name(folder: Path) -> Path:
    """A name that nothing in a folder has."""
    return folder / f".rnncc-{os.urandom(8).hex()}"


def _move(files: Sequence[Path], out: Path) -> None:
    """Put files in place: an interruption comes before the first or after the last."""
    for file in files:
        target = out / file.name
        if target.is_dir() and not target.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    for file in files:
        # the umask may leave a file that nobody can read
        with suppress(PermissionError), file.open("rb") as written:
            _settle(written.fileno())
    try:
        for file in files:
            file.replace(out / file.name)
    except KeyboardInterrupt:
        for file in files:
            with suppress(FileNotFoundError):
                file.replace(out / file.name)
        raise


def _settle(descriptor: int) -> None:
    """Wait until a file is on the disk, if its file system can tell."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


def _stream(path: Path) -> int | None:
    """A descriptor of what is written to as it is; None of a file that is replaced, or made."""
    match = _DESCRIPTOR.fullmatch(str(path))
    number = int(match[1]) if match else _STREAMS.get(str(path))
    with _named(path):
        if number is not None:
            return os.dup(number)
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(mode) or stat.S_ISREG(mode):
            return None
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            return os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.EINVAL, "is no file that can be replaced")


@contextmanager
def _named(path: Path) -> Generator[None]:
    """Let errors name this file, whatever it was called meanwhile."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except ValueError as error:  # a NUL in the path
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "embedded null byte", repr(str(path))) from error
        raise
