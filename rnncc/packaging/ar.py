"""Writes a static library: one object with the index of its symbols, as every linker reads it."""

from __future__ import annotations

from rnncc.packaging.elf import Elf

_MAGIC = b"!<arch>\n"


def archive(member: str, code: bytes) -> bytes:
    """The bytes of a static library that holds one object; the same input gives the same bytes.

    Args:
        member: the object's file name.
        code: an ELF object.
    """
    exported = [s.name for s in Elf(code).symbols if s.is_global and s.is_defined]
    names = b"".join(name.encode() + b"\0" for name in exported)
    index_size = 4 + 4 * len(exported) + len(names)
    long_name = f"{member}/\n".encode()
    table = _entry("//", long_name)
    object_at = len(_MAGIC) + 60 + index_size + index_size % 2 + len(table)
    index = len(exported).to_bytes(4) + object_at.to_bytes(4) * len(exported) + names
    return _MAGIC + _entry("/", index) + table + _entry("/0", code)


def _entry(name: str, content: bytes) -> bytes:
    """A header of 60 columns, then the content, padded to an even size."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)
