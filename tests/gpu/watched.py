"""LLVM IR in which each access of memory and each wait says to the emulator what and where it is.

In front of each load, store and atomic stands a call of `emu_access(address, bytes, kind, place)`;
`emu_sites` has a text for each place. Waits get their place as a last argument.
"""

from __future__ import annotations

import re

_TYPE = r"<[^>]*>|\[[^\]]*\]|\{[^}]*\}|[\w.]+"
_ADDRESS = r'[%@](?:"[^"]*"|[\w.$-]+)|(?:getelementptr|inttoptr)[^(]*\(.*?\)(?=,| )'
_POINTER = rf"ptr (?P<address>{_ADDRESS})"
_FORMS = [
    (re.compile(rf"  .* = load (?:volatile )?(?P<type>{_TYPE}), {_POINTER}"), 0),
    (re.compile(rf"  store (?:volatile )?(?P<type>{_TYPE}) .*, {_POINTER}(?:, align.*)?$"), 1),
    (re.compile(rf"  .* = (?:atomicrmw|cmpxchg) .*?{_POINTER}, (?P<type>{_TYPE}) "), 2),
    (re.compile(rf"  store atomic (?P<type>{_TYPE}) .*, {_POINTER} "), 2),
    (re.compile(rf"  .* = load atomic (?P<type>{_TYPE}), {_POINTER}"), 3),
]
_TOUCHES = re.compile(r"  (?:.* = )?(?:load|store|atomicrmw|cmpxchg) ")
_COPIES = re.compile(r"  .*call .*@llvm\.(?:masked|mem(?:cpy|set|move))")
_WAITS = re.compile(r"  (?:tail )?call void @emu_(block|grid)_wait\((?P<args>.*)\)")
_DECLARED = """
declare void @emu_access(ptr, i32, i32, i32)
declare void @emu_block_wait_at(i32)
declare void @emu_grid_wait_at(ptr, i32, i32)
"""


def watched(text: str) -> str:
    """A module as LLVM prints it, with its calls."""
    sites: list[str] = []
    lines: list[str] = []
    where = block = ""
    for line in text.splitlines():
        if line.startswith("define "):
            where, block = line.partition("@")[2].partition("(")[0], "entry"
        elif found := re.match(r'("[^"]*"|[\w.$-]+):', line):
            block = found[1]
        call = _call_before(line, len(sites))
        wait = _WAITS.match(line)
        if call:
            lines += [call, line]
        else:
            lines.append(_numbered(wait, len(sites)) if wait else line)
        if call or wait:
            sites.append(f"{where}, {block}: {line.strip()}")
    return "\n".join(lines) + _DECLARED + _table(sites)


def accesses(text: str) -> int:
    """How many calls `watched` puts into a module."""
    return sum(_call_before(line, 0) is not None for line in text.splitlines())


def _call_before(line: str, site: int) -> str | None:
    assert not _COPIES.match(line), f"an access that is not watched: {line}"
    if not _TOUCHES.match(line):
        return None
    for form, kind in _FORMS:
        if (found := form.match(line)) and found["type"] != "atomic":
            args = f"ptr {found['address']}, i32 {_bytes(found['type'])}, i32 {kind}, i32 {site}"
            return f"  call void @emu_access({args})"
    raise AssertionError(f"an access that is not watched: {line}")


def _numbered(wait: re.Match[str], site: int) -> str:
    args = f"{wait['args']}, i32 {site}" if wait["args"] else f"i32 {site}"
    return f"  call void @emu_{wait[1]}_wait_at({args})"


_SIZES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}


def _bytes(type_: str) -> int:
    if vector := re.fullmatch(r"[<\[](\d+) x (.*)[>\]]", type_):
        return int(vector[1]) * _bytes(vector[2])
    return _SIZES.get(type_) or -(-int(type_.removeprefix("i")) // 8)


def _table(sites: list[str]) -> str:
    """`emu_sites`, an array of texts, and how many they are."""
    texts = [site.encode()[:400] + b"\0" for site in sites] or [b"\0"]
    made = [
        f'@emu_site.{i} = private constant [{len(text)} x i8] c"{_escaped(text)}"'
        for i, text in enumerate(texts)
    ]
    all_ = ", ".join(f"ptr @emu_site.{i}" for i in range(len(texts)))
    made.append(f"@emu_sites = constant [{len(texts)} x ptr] [{all_}]")
    made.append(f"@emu_site_count = constant i32 {len(sites)}")
    return "\n".join(made) + "\n"


def _escaped(text: bytes) -> str:
    return "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in text)
