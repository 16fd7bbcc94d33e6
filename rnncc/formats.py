"""What a file is that is no net, for messages: its first bytes in, its kind and a way out."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence

ELF = b"\x7fELF"

_START = 1 << 16
"""How many bytes of a text are looked at."""

ZIP_ENTRY, _MOST = b"PK\x01\x02", 10_000
"""Begins each entry of a zip file's table; how many are looked at."""

_LIBRARY = "`rnncc run`, `inspect`, `plan` and `bench` take libraries; this needs the net"
_ARRAYS = "arrays go behind `rnncc run NET --input`"
_SCRIPT = "in Python, rnncc.torch.build(torch.jit.load(file), example) compiles it"
_EXPORT = "torch.export.save(rnncc.torch.export(module, args), file) writes the graph too"
_BY_ONNX = "export it as ONNX"
_UNPACK = "unpack it first"
_FETCH = "`git lfs pull` fetches it"
_RUN = "in it, rnncc.build and rnncc.torch.build write libraries: run it with python"

_PYTHON = re.compile(
    rb"""(?:[ \t]*(?:\#[^\n]*|'[^'\n]*'|"[^"\n]*")?\r?\n)*"""
    rb"""(?:\"{3}|(?:import|from)[ ]\w|(?:def|class)[ ]\w+[^\n]*:\s*$)""",
    re.MULTILINE,
)
"""How programs in Python begin, behind their comments."""

_BEGINS = (
    (ELF, "a compiled library or program (ELF)", _LIBRARY),
    (b"!<arch>\n", "a static library (ar)", _LIBRARY),
    (b"\x93NUMPY", "an array of NumPy (.npy)", _ARRAYS),
    (b"PAR1", "a table in Parquet", _ARRAYS),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", _BY_ONNX),
    (b"GGUF", "weights without a graph (GGUF)", _BY_ONNX),
    (b"RIFF", "audio or video (RIFF)", None),
    (b"\x1f\x8b", "packed by gzip", _UNPACK),
    (b"BZh", "packed by bzip2", _UNPACK),
    (b"\xfd7zXZ", "packed by xz", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", _UNPACK),
    (b"\x89PNG", "a picture (PNG)", None),
    (b"%PDF", "a PDF", None),
    (b"version https://git-lfs", "a pointer of Git LFS in place of the file", _FETCH),
    (b"<ir_version", "an ONNX model as text", "onnx.parser.parse_model makes a model of it"),
    (b"<", "XML or HTML", None),
    (b"{", "JSON", None),
    (b"\x80\x02", "a pickle of Python, which is not read: it may run code", _EXPORT),
    (b"\x80\x03", "a pickle of Python, which is not read: it may run code", _EXPORT),
    (b"\x80\x04", "a pickle of Python, which is not read: it may run code", _EXPORT),
    (b"\x80\x05", "a pickle of Python, which is not read: it may run code", _EXPORT),
)
"""First bytes, kind, what to do."""

_HOLDS = (
    ("constants.pkl", "a program of TorchScript", _SCRIPT),
    ("data.pkl", "a pickle of torch.save, which holds weights and no graph", _EXPORT),
    ("config.json", "a model of Keras", "model.export(file, format='onnx') writes ONNX"),
    (".npy", "arrays of NumPy (.npz)", _ARRAYS),
)
"""How the name of a zip file's member ends, kind, what to do."""


def starts_as_onnx(data: bytes) -> bool:
    """Whether these may be the first bytes of an ONNX model.

    Field 1 is a small number, the IR's version, and field 2, 7 or 8 a message; a NetDef's field 1
    is a text.
    """
    return len(data) > 2 and data[0] == 0x08 and data[1] < 0x40 and data[2] in (0x12, 0x3A, 0x42)


def kind_of(data: bytes) -> tuple[str, str | None] | None:
    """What a file is, and what to do about it; None where nothing shows it."""
    if data.startswith(b"PK"):
        return _kind_of_zip(data)
    if data[4:8] == b"TFL3":
        return "a model of TensorFlow Lite", _BY_ONNX
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") < len(data):
        return "weights without a graph (safetensors)", _BY_ONNX
    for begin, kind, hint in _BEGINS:
        if data.startswith(begin):
            return kind, hint
    return ("a program in Python", _RUN) if _PYTHON.match(data[:_START]) else None


def _kind_of_zip(data: bytes) -> tuple[str, str | None] | None:
    if data.count(ZIP_ENTRY) > _MOST:  # before each becomes an object
        return "a zip file", _UNPACK
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names: Sequence[str] = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    for ending, kind, hint in _HOLDS:
        if any(name.endswith(ending) for name in names):
            return kind, hint
    return "a zip file", _UNPACK
