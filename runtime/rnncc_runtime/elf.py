"""What a library's file says of itself, before the system's loader takes it, which checks little.

A file that is cut off crashes the loader, and so does one with holes, which a file has where the
machine stopped before all of it was on the disk. One for another machine is "no such file" to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from rnncc_runtime.errors import LoadError

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32x QQ 6x HH HHH")
"""Where the tables of segments and of sections lie, an entry's size and how many there are in each;
which section has names."""
_SEGMENT = struct.Struct("<II QQQ QQQ")
"""Kind, flags, offset, addresses, size in the file, size in memory, alignment."""
_SECTION = struct.Struct("<II QQQQ II QQ")
"""Name, kind, flags, address, offset, size, two numbers, alignment, an entry's size."""
_STRINGS, _DYNAMIC, _NO_BITS = 3, 6, 8
_EXECUTABLE = 4
_MOST = 64
"""Entries of a table; ours have about ten."""
_BLOCK, _LEAST = 4096, 64
"""Bytes: holes are whole blocks of a file system; fewer zeros may stand between functions."""


def check_whole(file: Path) -> None:
    """Raise `LoadError` where a segment of an ELF file lies beyond its end, or where zeros stand in
    the place of its code or of its tables.

    Zeros among weights are not noticed. Other formats, and ELF files of other machines, are left to
    the loader.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            head = opened.read(64)
            if not head.startswith(_ELF64_LITTLE):
                return
            if len(head) < 64:
                raise LoadError(f"{file}: the library is cut off")
            segments, sections, width, count, own_width, own_count, names = _HEADER.unpack(head)
            if width != _SEGMENT.size or count > _MOST or segments + width * count > size:
                raise LoadError(f"{file}: the library is damaged")
            opened.seek(segments)
            entries = _SEGMENT.iter_unpack(opened.read(width * count))
            ends = [entry[2] + entry[5] for entry in entries]
            if max([*ends, sections + own_width * own_count]) > size:
                raise LoadError(f"{file}: the library is cut off at {size} bytes")
            if sections and own_width == _SECTION.size and 0 < names < own_count <= _MOST:
                hole = next(_holes(opened, size, sections, own_count, names), None)
                if hole is not None:
                    raise LoadError(f"{file}: the library is damaged: zeros from byte {hole} on")
    except OSError as error:
        raise LoadError(f"{file}: {error.strerror}") from error


def _holes(file: BinaryIO, end: int, table: int, count: int, names: int) -> Iterator[int]:
    """Where zeros stand in the place of the table of sections, of code, or of what leads to it.

    Args:
        end: the file's size.
        table: where the table is, of `count` sections.
        names: the number of the section that has their names.
    """
    file.seek(table)
    entries = list(_SECTION.iter_unpack(file.read(count * _SECTION.size)))
    if entries[names][1] != _STRINGS:
        yield table
        return
    for _, kind, flags, _, offset, size, *_ in entries:
        if offset + size > end:
            continue
        file.seek(offset)
        if kind == _DYNAMIC and not any(file.read(8)):  # it ends with its first entry
            yield offset
        if kind != _NO_BITS and flags & _EXECUTABLE:
            content = file.read(size)
            # a hole begins at a multiple of a block, and a section anywhere in one
            starts = [0, *range(-offset % _BLOCK or _BLOCK, size, _BLOCK), size]
            for start, stop in pairwise(starts):
                if stop - start >= _LEAST and content[start:stop] == bytes(stop - start):
                    yield offset + start
