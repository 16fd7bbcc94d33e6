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
from rnncc.writing import write_file, writing

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
    data = _bytes(net, out, as_text)
    if out is None or str(out) == PIPE:
        print_bytes(data)
    else:
        write_file(out, data)


def write_with_init(
    net: NetDef, out: Path | None, init: NetDef, init_out: Path | None, as_text: bool | None
) -> None:
    """Write a net and, if there is a place for it, that of its parameters: both files or none.

    Raises:
        CompileError: both have one place.
    """
    if init_out is not None and _place(out) == _place(init_out):
        raise CompileError("--init-out", "is where the net itself goes", "-o FILE")
    if init_out is None or str(init_out) == PIPE:
        write(net, out, as_text)
        if init_out is not None:
            write(init, init_out, as_text)
        return
    with writing(init_out) as file:
        file.write(_bytes(init, init_out, as_text))
        file.flush()  # a full disk shows before the net is written
        write(net, out, as_text)


def _place(out: Path | None) -> Path | None:
    """A file, by the folder that it is in; None of standard output."""
    return None if out is None or str(out) == PIPE else out.parent.resolve() / out.name


def _bytes(net: NetDef, out: Path | None, as_text: bool | None) -> bytes:
    if as_text is None:
        as_text = sys.stdout.isatty() if _place(out) is None else is_text(out)
    return text_format.MessageToString(net).encode() if as_text else net.SerializeToString()


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
