"""What is drawn: boxes and blobs with their texts, arrows between them, nets inside boxes."""

from __future__ import annotations

from dataclasses import dataclass, field
from unicodedata import east_asian_width

from rnncc.records import record

LETTER = 0.61
"""A letter's width in font sizes, in any of the usual fonts of one width."""
SIZES = {"type": 13.0, "name": 11.0, "blob": 12.0, "note": 11.0, "title": 12.0}
"""Font sizes by what a line tells: an operator's type, a name, a blob, what links it."""
LINE = 1.35
"""A line's height in font sizes."""
LONGEST = 46
"""How many letters of a name are shown."""


@record
class Line:
    """A line of text in a box."""

    text: str
    style: str

    @property
    def width(self) -> float:
        letters = sum(2 if east_asian_width(c) in "WF" else 1 for c in self.text)
        return letters * LETTER * SIZES[self.style]

    @property
    def height(self) -> float:
        return SIZES[self.style] * LINE


@record
class DrawnNode:
    """A box, or a blob.

    Attributes:
        kind: op, input, output, blob, again (a blob shown once more beside its reader), unread.
        tooltip: what shows when one points at it.
        parts: the nets inside, each with its title.
    """

    kind: str
    lines: tuple[Line, ...]
    tooltip: str = ""
    parts: tuple[tuple[str, DrawnGraph], ...] = ()


@dataclass
class DrawnGraph:
    """Nodes, and arrows as pairs of their positions."""

    nodes: list[DrawnNode] = field(default_factory=list[DrawnNode])
    edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def add(self, node: DrawnNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def line(text: str, style: str) -> Line:
    """A line, cut in its middle if it is long."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2 - 1]}…{text[-LONGEST // 2 :]}"
    return Line(text, style)
