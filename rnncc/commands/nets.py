"""Reading and writing nets for `rnncc netdef`: files and pipes, binary and text."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf import text_format

from rnncc.commands.tables import print_bytes
from rnncc.errors import CompileError
from rnncc.netdef import NetDef, load
from rnncc.sources import STDIN, read_stdin
from rnncc.writing import write_file

TEXT_SUFFIXES = {".pbtxt", ".prototxt", ".txt", ".textproto"}
PIPE = "-"


def read(path: Path) -> NetDef:
    """A net from a file, or from standard input for `-`."""
    if str(path) == PIPE:
        return load(read_stdin())
    return load(path)


def read_init(path: Path | None) -> NetDef | None:
    """The net of parameters, where there is one."""
    return None if path is None else read(path)


def called(path: Path) -> str:
    """What messages call a file."""
    return STDIN if str(path) == PIPE else str(path)


def write(net: NetDef, out: Path | None, as_text: bool | None = None) -> None:
    """Write a net to a file, or to standard output for `-` and None.

    Args:
        as_text: by default as the file's suffix says; on a terminal text, into a pipe binary.
    """
    to_stdout = out is None or str(out) == PIPE
    if as_text is None:
        as_text = sys.stdout.isatty() if to_stdout else is_text(out)
    data = text_format.MessageToString(net).encode() if as_text else net.SerializeToString()
    if out is None or to_stdout:
        print_bytes(data)
    else:
        write_file(out, data)


def is_text(path: Path | None) -> bool:
    """Whether a file's suffix is one of texts."""
    return path is not None and path.suffix in TEXT_SUFFIXES


@contextmanager
def named_after(path: Path, net: NetDef) -> Generator[None]:
    """Let errors name the net's file in place of the net."""
    try:
        yield
    except CompileError as error:
        place = error.location
        if place == net.name or place.startswith(f"{net.name}: "):
            place = place[len(net.name) :].removeprefix(": ")
        place = f"{called(path)}: {place}" if place else called(path)
        raise type(error)(place, error.what, error.hint) from error
