"""What reading a net of any format needs: the bytes of a file, bounded, and names that are text."""

from __future__ import annotations

from pathlib import Path

from rnncc.errors import CompileError, Location

MAX_BYTES = 1 << 31
"""Protobuf's own limit on the size of a message."""
MAX_NAME = 1000
"""How many characters a name may have."""


def read_bytes(path: Path) -> bytes:
    """What a file holds.

    Raises:
        CompileError: there is no such file, it cannot be read, or it is too large.
    """
    try:
        if path.is_file() and path.stat().st_size >= MAX_BYTES:
            raise CompileError(str(path), f"is larger than {MAX_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise CompileError(str(path), error.strerror or str(error)) from error
    except ValueError as error:  # a path with a NUL in it
        raise CompileError(repr(str(path)), str(error)) from error


def check_name(text: str | bytes, location: Location | str) -> None:
    """Raise `CompileError` unless a name in a message is readable text."""
    # protobuf hands bytes out where a string field is not UTF-8
    if isinstance(text, bytes):
        raise CompileError(location, f"the name {text[:40]!r} is not UTF-8")
    if len(text) > MAX_NAME or not text.isprintable():
        what = "is too long" if len(text) > MAX_NAME else "holds a control character"
        raise CompileError(location, f"the name {text[:40]!r} {what}")
