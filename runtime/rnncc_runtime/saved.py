"""States as bytes: what a stream saves, checked when it comes back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast
from zlib import crc32

from rnncc_runtime.errors import StreamError

_MAGIC, _VERSION = b"rnncc state\r\n\x1a\n\0", 1
_HEADER = struct.Struct("<16sIIIIQ")
"""The magic, the version, checksums of layout and content, how many sizes, bytes of content."""


def pack(layout: int, sizes: Sequence[int], values: bytes) -> bytes:
    """A state's bytes.

    Args:
        layout: a checksum of the net's arrays and of the state's values.
        sizes: of the symbols in these shapes.
    """
    content = struct.pack(f"<{len(sizes)}q", *sizes) + values
    return (
        _HEADER.pack(_MAGIC, _VERSION, layout, crc32(content), len(sizes), len(content)) + content
    )


def unpack(saved: object, layout: int, count: int) -> tuple[list[int], bytes]:
    """The sizes and the values of a saved state.

    Raises:
        StreamError: it is none, of another version or layout, cut off, or damaged.
    """
    if not isinstance(saved, (bytes, bytearray, memoryview)):
        raise StreamError(f"a state is bytes, not {type(saved).__name__}")
    saved = bytes(cast("bytes", saved))
    if len(saved) < _HEADER.size or not saved.startswith(_MAGIC):
        raise StreamError("these bytes are not the state of a stream")
    _, version, made_for, checksum, sizes, length = _HEADER.unpack_from(saved)
    if version != _VERSION:
        raise StreamError(f"a state of version {version}, expected {_VERSION}")
    if made_for != layout or sizes != count:
        raise StreamError("the state is of another model")
    content = saved[_HEADER.size :]
    if len(content) != length or crc32(content) != checksum:
        raise StreamError("the state is damaged")
    if length < 8 * count:
        raise StreamError("the state is damaged")
    numbers: list[int] = list(struct.unpack_from(f"<{count}q", content))
    if min(numbers, default=0) < 0:
        raise StreamError("the state is damaged: a size is below 0")
    return numbers, content[8 * count :]
