"""What an object file of any format asks others for: ELF, COFF and Mach-O, read for tests."""

from __future__ import annotations

import struct


def undefined(code: bytes) -> set[str]:
    """The symbols that a linker has to find elsewhere."""
    if code[:4] == b"\x7fELF":
        return _elf(code)
    if code[:4] == b"\xcf\xfa\xed\xfe":
        return _macho(code)
    return _coff(code)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _elf(code: bytes) -> set[str]:
    wide = code[4] == 2
    header = struct.Struct("<16x HHIQQQIHHHHHH" if wide else "<16x HHIIIIIHHHHHH")
    section = struct.Struct("<IIQQQQIIQQ" if wide else "<IIIIIIIIII")
    told = header.unpack_from(code)
    table, count = told[5], told[11]
    sections = [section.unpack_from(code, table + i * section.size) for i in range(count)]
    found = set[str]()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:
            continue
        names = sections[link][4]
        step = 24 if wide else 16
        for at in range(offset + step, offset + size, step):
            if wide:
                name, _, _, index, _, _ = struct.unpack_from("<IBBHQQ", code, at)
            else:
                name, _, _, _, _, index = struct.unpack_from("<IIIBBH", code, at)
            if index == 0:
                found.add(_text(code, names + name))
    return found - {""}


def _coff(code: bytes) -> set[str]:
    table, count = struct.unpack_from("<II", code, 8)
    names, found, number = table + 18 * count, set[str](), 0
    while number < count:
        at = table + 18 * number
        value, section, _, kind, more = struct.unpack_from("<IhHBB", code, at + 8)
        if section == 0 and value == 0 and kind == 2:
            zero, offset = struct.unpack_from("<II", code, at)
            short = code[at : at + 8].rstrip(b"\0").decode()
            found.add(short if zero else _text(code, names + offset))
        number += 1 + more
    return found


def _macho(code: bytes) -> set[str]:
    commands, found, at = struct.unpack_from("<I", code, 16)[0], set[str](), 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, at)
        if command == 2:
            table, count, names, _ = struct.unpack_from("<IIII", code, at + 8)
            for i in range(count):
                name, kind, _, _, _ = struct.unpack_from("<IBBHQ", code, table + 16 * i)
                if kind & 0x0E == 0:
                    found.add(_text(code, names + name).removeprefix("_"))
        at += size
    return found
