"""Files of arrays: `.npy` and `.npz` read, bounded and checked, and written.

The formats are NumPy's (numpy.lib.format); nothing that is read is code.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from rnncc.errors import CompileError
from rnncc.formats import ZIP_ENTRY
from rnncc.sources import limit, read_bytes, too_large
from rnncc.writing import writing

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

MAX_HEADER = 10_000
"""Characters of an array's header, as NumPy has it."""
MAX_ARRAYS = 10_000
"""Arrays in one file."""
KINDS = "biufU"
"""Numbers, truth values and texts."""
MAX_CHARACTER = 0x10FFFF

_MAGIC = b"\x93NUMPY"
_ENCRYPTED = 1
_FIELD = re.compile(
    r"\s*'(\w+)'\s*:\s*('[^'\\]*'|True|False|\((?:\s*\d{1,18}L?\s*,)*(?:\s*\d{1,18}L?)?\s*\))\s*,?\s*",
    re.ASCII,
)
"""A field of an array's header and its value; Python 2 wrote an L behind a size."""
_BEGINS = {"descr": "'", "fortran_order": ("True", "False"), "shape": "("}
_NOT_ARRAYS = "is no .npy or .npz file of plain arrays"


def read(path: Path) -> Array | Arrays:
    """The array of an `.npy` file, or those of an `.npz` file by name; the content decides which.

    Arrays are contiguous and in this machine's byte order.

    Raises:
        CompileError: there is no such file, it is none of the two or damaged, or it holds more
            than the limit of `rnncc.sources`, also when it is unpacked.
    """
    return parse(read_bytes(path), str(path))


def parse(data: bytes, name: str) -> Array | Arrays:
    """As `read`, of a file's bytes."""
    try:
        return _array(data) if data.startswith(_MAGIC) else dict(_members(data, name))
    except (CompileError, MemoryError):
        raise
    except _Damaged as error:
        raise CompileError(name, f"{_NOT_ARRAYS}: {error}") from error
    except Exception as error:  # zipfile and zlib have no end of them
        raise CompileError(name, _NOT_ARRAYS) from error


class _Damaged(Exception):
    """What is wrong with a file of arrays."""


def _members(data: bytes, name: str) -> Iterator[tuple[str, Array]]:
    """The arrays of a zip file."""
    if data.count(ZIP_ENTRY) > MAX_ARRAYS:  # before each becomes an object
        raise _Damaged(f"it holds more than {MAX_ARRAYS}")
    remaining, seen = limit(), set[str]()
    with ZipFile(io.BytesIO(data)) as file:
        for info in file.infolist():
            content = _unpacked(file, info, remaining)
            remaining -= len(content)
            if remaining < 0:
                raise too_large(name, limit())
            key = info.filename.removesuffix(".npy")
            if key in seen:
                raise _Damaged(f"it holds two arrays named {key[:80]!r}")
            seen.add(key)
            try:
                yield key, _array(content)
            except _Damaged as error:
                raise _Damaged(f"{info.filename[:80]!r}: {error}") from error


def _unpacked(file: ZipFile, info: ZipInfo, most: int) -> bytes:
    """A member's bytes; one more than `most` where there are more."""
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others are unpacked without bounds
        raise _Damaged(f"{info.filename[:80]!r} is packed by method {info.compress_type}")
    if info.flag_bits & _ENCRYPTED:
        raise _Damaged(f"{info.filename[:80]!r} is encrypted")
    with file.open(info) as member:
        return member.read(most + 1)


def _array(data: bytes) -> Array:
    """The array of an `.npy` file's bytes."""
    start, fields = _header(data)
    dtype, order = _dtype(fields["descr"][1:-1]), "F" if fields["fortran_order"] == "True" else "C"
    shape = tuple(int(size) for size in re.findall(r"\d+", fields["shape"]))
    if dtype.itemsize == 0:
        raise _Damaged("its elements have no bytes")
    size, held = prod(shape) * dtype.itemsize, len(data) - start
    if size != held:
        raise _Damaged(f"shape {list(shape)} of {dtype.name} takes {size} bytes, it has {held}")
    array = np.frombuffer(data, dtype, prod(shape), start).reshape(shape, order=order)
    array = np.require(array, dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.kind == "U" and (array.reshape(-1).view(np.uint32) > MAX_CHARACTER).any():
        raise _Damaged("a text holds no characters")
    return array


def _header(data: bytes) -> tuple[int, dict[str, str]]:
    """Where an array's elements begin, and the texts of the fields before them."""
    if not data.startswith(_MAGIC) or len(data) < 12:
        raise _Damaged("a member is no array")
    major = data[len(_MAGIC)]
    if major not in (1, 2, 3):
        raise _Damaged(f"it is of version {major}")
    width = 2 if major == 1 else 4
    length = int.from_bytes(data[8 : 8 + width], "little")
    start = 8 + width + length
    text = data[8 + width : start].decode("latin-1").strip()
    if length > MAX_HEADER or start > len(data) or text[:1] != "{" or text[-1:] != "}":
        raise _Damaged("its header is damaged")
    fields, at = dict[str, str](), 1
    while match := _FIELD.match(text, at):
        fields[match[1]], at = match[2], match.end()
    if at != len(text) - 1:
        what = (
            "its elements are records, expected numbers" if "[" in text else "its header is damaged"
        )
        raise _Damaged(what)
    if fields.keys() != {"descr", "fortran_order", "shape"} or not all(
        value.startswith(_BEGINS[name]) for name, value in fields.items()
    ):
        raise _Damaged("its header is damaged")
    return start, fields


def _dtype(text: str) -> np.dtype[Any]:
    match = re.fullmatch(r"[<>|=]?([a-zA-Z?])\d{0,6}", text)
    try:
        dtype = np.dtype(text) if match else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in KINDS:
        raise _Damaged(f"its elements are {text[:40]!r}, expected numbers")
    return dtype


def write(arrays: Mapping[str, Array], path: Path) -> None:
    """Write `.npz`, or one array as `.npy`.

    Raises:
        CompileError: the file's suffix is another, or there is more than one array for `.npy`.
        OSError: the file cannot be written.
    """
    if path.suffix != ".npz" and (path.suffix != ".npy" or len(arrays) != 1):
        raise CompileError(str(path), f"{len(arrays)} outputs go into an .npz file")
    with writing(path) as file:
        if path.suffix == ".npy":
            _write_array(file, next(iter(arrays.values())))
            return
        with ZipFile(file, "w") as members:
            for name, array in arrays.items():
                with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, array)


def _write_array(file: Any, array: Array) -> None:
    """NumPy's own writer takes the position of a file, which a pipe has not."""
    array = np.asarray(array, order="C")
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    file.write(array.reshape(-1).view(np.uint8).data)
