"""What a library's file says of itself, before the system's loader takes it, which checks little.

A file that is cut off crashes the loader; one for another machine is "no such file" to it.
"""

from __future__ import annotations

import struct
from pathlib import Path

from rnncc_runtime.errors import LoadError

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32xQ14xHH")
"""Where the table of segments lies, an entry's size, and how many there are."""
_SEGMENT = struct.Struct("<II QQQ QQQ")
"""Kind, flags, offset, addresses, size in the file, size in memory, alignment."""
_MOST = 64
"""Segments of a library; ours have about nine."""


def check_whole(file: Path) -> None:
    """Raise `LoadError` where a segment of an ELF file lies beyond its end.

    Other formats, and ELF files of other machines, are left to the loader.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            head = opened.read(64)
            if not head.startswith(_ELF64_LITTLE):
                return
            if len(head) < 64:
                raise LoadError(f"{file}: the library is cut off")
            table, width, count = _HEADER.unpack_from(head)
            if width != _SEGMENT.size or count > _MOST or table + width * count > size:
                raise LoadError(f"{file}: the library is damaged")
            opened.seek(table)
            entries = opened.read(width * count)
    except OSError as error:
        raise LoadError(f"{file}: {error.strerror}") from error
    for _, _, offset, _, _, file_size, _, _ in _SEGMENT.iter_unpack(entries):
        if offset + file_size > size:
            raise LoadError(f"{file}: the library is cut off at {size} bytes")
