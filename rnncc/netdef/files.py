"""NetDef files, in binary and in text form, distinguished by what they contain."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import Protocol, runtime_checkable

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from rnncc.errors import CompileError, Location
from rnncc.formats import kind_of, starts_as_onnx
from rnncc.netdef.netdef_pb2 import Argument, NetDef
from rnncc.sources import called, check_message, check_name, read_bytes
from rnncc.writing import write_file

MAX_NESTING = 64
"""How many braces of a text may be open at once."""
MAX_OPERATORS = 100_000
"""Of a net: so many are read in half a minute, and compiled in minutes."""
MAX_NAMES = 500_000
"""Of a net, with those inside: names of blobs, arguments and nets. So many are read in seconds."""

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_TEXT_START = re.compile(rb"(\s|#.*\n)*\w+\s*[:{<]")
_TEXT_ERROR = re.compile(r"(\d+):\d+ : (.*)", re.DOTALL)

_NETS = "a path, bytes, a NetDef, ModelProto or ExportedProgram, or what rnncc.cells builds"
_TORCH = "rnncc.torch.compile and build take modules, rnncc.torch.scan cells"


@runtime_checkable
class Message(Protocol):
    """Any library's NetDef message, such as Caffe2's own."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802, protobuf's name


def load(source: str | Path | bytes | Message | object, name: str = "<bytes>") -> NetDef:
    """Read a net from a path, from bytes, or from a NetDef message (ours is returned as it is).

    Args:
        name: what to call it in messages where `source` is no path.
    Raises:
        CompileError: no such file, damaged, a syntax error (with its line), names not in UTF-8.
    """
    if isinstance(source, (str, Path)):
        name, data = str(source), read_bytes(Path(source))
    elif isinstance(source, bytes):
        name, data = called(source, name), source
    elif isinstance(source, NetDef):
        check_text(source, name)
        return source
    elif isinstance(source, Message):
        data = source.SerializeToString()
    else:
        what = f"{type(source).__name__} is no net"
        raise CompileError(name, what, _TORCH if callable(source) else _NETS)
    net = _parse(data, name)
    check_text(net, name)
    return net


def save(net: NetDef, path: str | Path, text: bool = False) -> None:
    """Write a net: binary, or in text form."""
    data = text_format.MessageToString(net).encode() if text else net.SerializeToString()
    write_file(Path(path), data)


def parse_text(text: str, location: Location | str) -> NetDef:
    """Parse the text form; raises `CompileError` with the line of a syntax error."""
    _check_nesting(text, location)
    try:
        return text_format.Parse(text, NetDef())
    except text_format.ParseError as error:
        match = _TEXT_ERROR.match(str(error))
        where, what = (f"line {match[1]}: ", match[2]) if match else ("", str(error))
        what = what.replace('"rnncc.caffe2.', '"')
        raise CompileError(location, f"{where}{what[:200].rstrip('.')}", "text form") from error
    except (RecursionError, ValueError) as error:
        raise CompileError(location, "the text form is damaged") from error


def check_text(net: NetDef, location: Location | str) -> None:
    """Raise `CompileError` unless every name in the net, and in nets it holds, is readable text."""
    _check_text(net, location, 0, 0)


def _check_text(net: NetDef, location: Location | str, depth: int, names: int) -> int:
    """The same of a net in others that hold so many names; how many there are with its own."""
    if depth > MAX_NESTING:
        raise CompileError(location, f"nets are nested more than {MAX_NESTING} deep")
    if len(net.op) > MAX_OPERATORS:  # each takes a thousand bytes as soon as Python sees it
        what = f"has {len(net.op)} operators; at most {MAX_OPERATORS} are read"
        raise CompileError(location, what)
    names += len(net.external_input) + len(net.external_output)
    names += sum(len(op.input) + len(op.output) + len(op.arg) for op in net.op)
    names += sum(len(arg.nets) for op in net.op for arg in op.arg) if names <= MAX_NAMES else 0
    if names > MAX_NAMES:
        what = f"has more than {MAX_NAMES} names of blobs, arguments and nets"
        raise CompileError(location, what, "so many are read")
    for text in (net.name, net.type, *net.external_input, *net.external_output):
        check_name(text, location)
    for op in net.op:
        for text in (op.name, op.type, op.engine, *op.input, *op.output):
            check_name(text, location)
        for arg in op.arg:
            check_name(arg.name, location)
            for inner in _nets(arg):
                names = _check_text(inner, location, depth + 1, names)
    return names


def _nets(arg: Argument) -> list[NetDef]:
    return [*([arg.n] if arg.HasField("n") else []), *arg.nets]


def _parse(data: bytes, name: str) -> NetDef:
    """Texts start with a field's name and hold no control characters, as tags of fields are."""
    data = data.removeprefix(BOM_UTF8)
    if not data.strip():
        raise CompileError(name, "is empty", "a NetDef with operators is expected")
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise CompileError(name, "is text in UTF-16", "the text form of a NetDef is UTF-8")
    if starts_as_onnx(data):
        hint = (
            "`rnncc compile`, `run`, `check`, `inspect` and others read ONNX; netdef edits NetDefs"
        )
        raise CompileError(name, "is an ONNX model, not a NetDef", hint)
    unreadable = None
    if _TEXT_START.match(data) and not _CONTROL.search(data):
        try:
            return parse_text(data.decode(), name)
        except UnicodeDecodeError as error:
            unreadable = f"is no NetDef: a text that is not UTF-8 at byte {error.start}"
    check_message(data, name)
    try:
        return NetDef.FromString(data)
    except (DecodeError, RecursionError) as error:
        what, hint = unreadable or "is no NetDef: damaged, cut short, or another kind of file", None
        if kind := kind_of(data):
            what, hint = f"is no net but {kind[0]}", kind[1]
        raise CompileError(name, what, hint) from error


def _check_nesting(text: str, location: Location | str) -> None:
    """The text parser recurses: bound its depth before it starts."""
    depth = 0
    for brace in re.findall(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#.*|[{}<>]', text):
        depth += {"{": 1, "<": 1, "}": -1, ">": -1}.get(brace, 0)
        if depth > MAX_NESTING:
            raise CompileError(location, f"braces are nested more than {MAX_NESTING} deep")
