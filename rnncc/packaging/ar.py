"""Writes a static library: one object with the index of its symbols, as every linker reads it."""

from __future__ import annotations

from collections.abc import Sequence

_MAGIC = b"!<arch>\n"


def archive(member: str, code: bytes, exported: Sequence[str], bsd: bool = False) -> bytes:
    """The bytes of a static library that holds one object; the same input gives the same bytes.

    Args:
        member: the object's file name.
        code: the object.
        exported: the symbols that it gives to others.
        bsd: in the form that Apple's linkers read.
    """
    if bsd:
        return _of_apple(member, code, exported)
    names = b"".join(name.encode() + b"\0" for name in exported)
    index_size = 4 + 4 * len(exported) + len(names)
    long_name = f"{member}/\n".encode()
    table = _entry("//", long_name)
    object_at = len(_MAGIC) + 60 + index_size + index_size % 2 + len(table)
    index = len(exported).to_bytes(4) + object_at.to_bytes(4) * len(exported) + names
    return _MAGIC + _entry("/", index) + table + _entry("/0", code)


def _of_apple(member: str, code: bytes, exported: Sequence[str]) -> bytes:
    """Names stand in front of contents; the index has offsets into its names."""

    def entry(name: str, content: bytes) -> bytes:
        padded = name.encode() + bytes(-(60 + len(name)) % 8 or 8)
        content += bytes(-len(content) % 8)
        return _entry(f"#1/{len(padded)}", padded + content)

    names, offsets = b"", list[int]()
    for name in exported:
        offsets.append(len(names))
        names += b"_" + name.encode() + b"\0"
    names += bytes(-len(names) % 8)

    def index(object_at: int) -> bytes:
        pairs = b"".join(_word(at) + _word(object_at) for at in offsets)
        return entry("__.SYMDEF", _word(len(pairs)) + pairs + _word(len(names)) + names)

    return _MAGIC + index(len(_MAGIC) + len(index(0))) + entry(member, code)


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _entry(name: str, content: bytes) -> bytes:
    """A header of 60 columns, then the content, padded to an even size."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)
