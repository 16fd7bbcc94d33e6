"""Reads every input: files, pipes and standard input, bounded while they are read; and names.

In: paths. Out: bytes, of which there are never more than `limit()`.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from rnncc.errors import CompileError, Location
from rnncc.sizes import parse_bytes

LIMIT = 2 << 30
"""The most bytes of one input, where neither an option nor the environment says otherwise."""
VARIABLE = "RNNCC_MAX_INPUT"
HINT = f"--max-input or {VARIABLE} allows more"
MAX_MESSAGE = (2 << 30) - 1
"""Protobuf's own limit on the size of a message."""
MAX_NAME = 1000
"""How many characters a name may have."""
STDIN = "<stdin>"

_CHUNK = 1 << 20
_chosen: ContextVar[int | None] = ContextVar("max_input", default=None)
_noted: ContextVar[list[Path] | None] = ContextVar("noted", default=None)


class Content(bytes):
    """What was read of something that can be read only once.

    Attributes:
        origin: what messages call it; also the text that `str` gives.
    """

    origin: str

    def __new__(cls, data: bytes, origin: str) -> Content:
        content = super().__new__(cls, data)
        content.origin = origin
        return content

    def __str__(self) -> str:
        return self.origin


NetFile = Path | Content
"""A net that a command was given: a path, or what was read of a pipe."""


def limit() -> int:
    """The most bytes that are read of one input.

    Raises:
        CompileError: RNNCC_MAX_INPUT is no number of bytes.
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    text = os.environ.get(VARIABLE)
    return LIMIT if text is None else parse_bytes(text, VARIABLE)


@contextmanager
def limited(most: int | None) -> Generator[None]:
    """Until the end of the block read no more than this of one input; None changes nothing."""
    before = _chosen.set(_chosen.get() if most is None else most)
    try:
        yield
    finally:
        _chosen.reset(before)


@contextmanager
def noted() -> Generator[list[Path]]:
    """A list that gets the paths of all files that are read until the end of the block."""
    paths = list[Path]()
    before = _noted.set(paths)
    try:
        yield paths
    finally:
        _noted.reset(before)


def note(path: Path) -> None:
    """Say that a file is read."""
    if (paths := _noted.get()) is not None:
        paths.append(path)


def check_kept(out: Path | None, read: Iterable[Path]) -> None:
    """Raise `CompileError` where what is written would take the place of a file that is read.

    A link is replaced without what it leads to.
    """
    with suppress(OSError, ValueError):
        if out is None or not out.is_file() or out.is_symlink():
            return
        status = out.stat()
        for path in {*read}:
            with suppress(OSError, ValueError):
                if os.path.samestat(status, path.stat()):
                    what = "is read, too: what is written would take its place"
                    raise CompileError(str(out), what, "choose another file")


def read_bytes(path: Path) -> bytes:
    """What a file, a pipe or a device holds.

    Raises:
        CompileError: there is no such file, it cannot be read, or it is too large.
    """
    try:
        with path.open("rb", buffering=0) as file:
            note(path)
            return read_stream(file, str(path))
    except OSError as error:
        raise CompileError(str(path), error.strerror or str(error)) from error
    except ValueError as error:  # a path with a NUL in it
        raise CompileError(repr(str(path)), str(error)) from error


def read_stdin() -> Content:
    """What standard input holds; raises `CompileError` where it is closed or too large."""
    try:
        return Content(read_stream(sys.stdin.buffer, STDIN), STDIN)
    except OSError as error:
        raise CompileError(STDIN, error.strerror or str(error)) from error


def read_stream(file: BinaryIO, name: str) -> bytes:
    """All that is left of an open file.

    Raises:
        CompileError: it is too large, found out before more than the limit is held.
        OSError: it cannot be read.
    """
    most = limit()
    if _regular_size(file) > most:
        raise too_large(name, most)
    content = io.BytesIO()
    while chunk := file.read(_CHUNK):
        if content.tell() + len(chunk) > most:
            raise too_large(name, most)
        content.write(chunk)
    return content.getvalue()


def _regular_size(file: BinaryIO) -> int:
    """The size of a regular file, 0 of anything else."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # a stream of Python's own has no descriptor
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def too_large(name: str, most: int) -> CompileError:
    """The error of an input that holds more than the limit."""
    return CompileError(name, f"holds more than {most} bytes", HINT)


def is_regular(path: Path) -> bool:
    """Whether a path leads to a regular file; no path raises."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def head(path: Path, count: int) -> bytes:
    """The first bytes of a regular file that can be read; nothing of others."""
    if not is_regular(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


def settled(source: Any) -> Any:
    """A pipe's or a device's path as its content, which can be read only once; else the source.

    Raises:
        CompileError: as for `read_bytes`.
    """
    if not isinstance(source, (str, Path)):
        return source
    try:
        mode = Path(source).stat().st_mode
    except (OSError, ValueError):
        return source  # whoever reads it says why
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return source
    return Content(read_bytes(Path(source)), str(source))


def called(source: object, otherwise: str) -> str:
    """What messages call a source: a path, the origin of what was read; else as given."""
    return str(source) if isinstance(source, (str, Path, Content)) else otherwise


def check_message(data: bytes, name: str) -> None:
    """Raise `CompileError` for more bytes than a message of protobuf may have."""
    if len(data) > MAX_MESSAGE:
        what = f"is larger than {MAX_MESSAGE} bytes, protobuf's limit"
        raise CompileError(name, what, "an ONNX model can have its tensors in other files")


def check_name(text: str | bytes, location: Location | str) -> None:
    """Raise `CompileError` unless a name in a message is readable text."""
    # protobuf hands bytes out where a string field is not UTF-8
    if isinstance(text, bytes):
        raise CompileError(location, f"the name {text[:40]!r} is not UTF-8")
    if len(text) > MAX_NAME or not text.isprintable():
        what = "is too long" if len(text) > MAX_NAME else "holds a control character"
        raise CompileError(location, f"the name {text[:40]!r} {what}")
