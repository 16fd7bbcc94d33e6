"""Markdown at 100 columns: python -m tools.wrapping PAGE... wraps pages in place.

The tools that write pages wrap them here too. Only paragraphs and list items with a line that is
too long are filled again; code, tables and headings stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 100
_FENCE = re.compile(r"\s*(```|~~~)")
_FIXED = re.compile(r"\s*(\|[\s:-]|#|<|$)|\[[^\]]+\]: ")
"""Begins lines that stand alone: tables, headings, HTML, empty lines, definitions of links."""
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s+")
_WORD = re.compile(r"(?:`[^`]*`|[^\s`]|`)+")
"""A word; code is one, whatever spaces it has, as a line's end would be a part of it."""
_MARKER = re.compile(r"([-*+]|\d+[.)]|#+|[|>].*)$")
"""A word that begins a list, a heading, a table or a quotation where a line begins with it."""


def wrap(markdown: str) -> str:
    """The same page, its lines no longer than `WIDTH` where that can be."""
    blocks = (_fill(block) if fills else block for block, fills in _blocks(markdown.splitlines()))
    return "".join(f"{line}\n" for block in blocks for line in block)


def long_lines(markdown: str) -> list[str]:
    """The lines that are too long, but for those of tables and code."""
    is_code, found = False, list[str]()
    for line in markdown.splitlines():
        is_code ^= bool(_FENCE.match(line))
        if not is_code and len(line) > WIDTH and not line.lstrip().startswith("|"):
            found.append(line)
    return found


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Paragraphs and list items, which may be filled again, and any other line by itself."""
    is_code, block = False, list[str]()
    for line in lines:
        is_fence = bool(_FENCE.match(line))
        stands_alone = is_code or is_fence or bool(_FIXED.match(line))
        is_code ^= is_fence
        if block and (stands_alone or _ITEM.match(line)):
            yield block, True
            block = []
        if stands_alone:
            yield [line], False
        else:
            block.append(line)
    if block:
        yield block, True


def _fill(block: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in block):
        return block
    item, text = _ITEM.match(block[0]), block[0].lstrip()
    first = item[0] if item else block[0][: -len(text)]
    lines, line = list[str](), first
    for word in _words(" ".join(block)[len(first) :]):
        if len(line) + len(word) > WIDTH and line != first:
            lines.append(line.rstrip())
            line = " " * len(first)
        line += f"{word} "
    return [*lines, line.rstrip()]


def _words(text: str) -> list[str]:
    """The words of a paragraph; one that would be a marker stays with the one before it."""
    words = list[str]()
    for word in _WORD.findall(text):
        if words and _MARKER.match(word):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(wrap(Path(name).read_text()))
