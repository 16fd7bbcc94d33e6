"""Reads what we need of a 64-bit little-endian ELF file: its symbols and sections."""

from __future__ import annotations

import struct

from rnncc.records import record

_SYMTAB, _DYNSYM, _DYNAMIC = 2, 11, 6
_WRITE, _EXECUTE = 1, 4
_HEADER = struct.Struct("<16x HHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@record
class Section:
    """One entry of the section table."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int

    @property
    def is_writable_code(self) -> bool:
        """Whether the section can be both written and run."""
        return bool(self.flags & _WRITE and self.flags & _EXECUTE)


@record
class Symbol:
    """One named symbol."""

    name: str
    is_global: bool
    is_defined: bool


class Elf:
    """An ELF file in memory.

    Raises:
        ValueError: the bytes are no 64-bit little-endian ELF file.
    """

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = data
        header: tuple[int, ...] = _HEADER.unpack_from(data)
        table, count, names_at = header[5], header[11], header[12]
        raw: list[tuple[int, ...]] = [
            _SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)
        ]
        names = raw[names_at][4] if count else 0
        self.sections = [
            Section(self._text(names + r[0]), r[1], r[2], r[4], r[5], r[6]) for r in raw
        ]

    @property
    def symbols(self) -> list[Symbol]:
        """Those of `.symtab`."""
        return self._symbols(_SYMTAB)

    @property
    def dynamic_symbols(self) -> list[Symbol]:
        """What a shared library imports and exports."""
        return self._symbols(_DYNSYM)

    @property
    def needed(self) -> list[str]:
        """The libraries that a shared library loads."""
        libraries: list[str] = []
        for section in self.sections:
            if section.kind == _DYNAMIC:
                names = self.sections[section.link].offset
                for at in range(section.offset, section.offset + section.size, 16):
                    tag, value = struct.unpack_from("<qQ", self.data, at)
                    if tag == 1:
                        libraries.append(self._text(names + value))
        return libraries

    def _symbols(self, kind: int) -> list[Symbol]:
        symbols: list[Symbol] = []
        for section in self.sections:
            if section.kind == kind:
                names = self.sections[section.link].offset
                for at in range(section.offset, section.offset + section.size, _SYMBOL.size):
                    name, info, _, index, _, _ = _SYMBOL.unpack_from(self.data, at)
                    symbols.append(
                        Symbol(self._text(names + name), info >> 4 in (1, 2), index != 0)
                    )
        return [symbol for symbol in symbols if symbol.name]

    def _text(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode()
