"""A net as equations in boxes, loops as boxes around those of a step: SVG, or a page with it."""

from __future__ import annotations

from html import escape

from rnncc.drawing.reading import read
from rnncc.errors import CompileError
from rnncc.ir.program import Program
from rnncc.netdef.drawing.layout import place
from rnncc.netdef.drawing.svg import write

__all__ = ["MOST", "draw", "page"]

MOST = 20_000
"""How many operations a net may have that is drawn: more would be no picture."""


def draw(program: Program) -> str:
    """The SVG of a program, in the reader's colours, light or dark.

    Raises:
        CompileError: it has more than `MOST` operations.
    """
    count = sum(1 for _ in program.net.walk())
    if count > MOST:
        what = f"has {count} operations, of which at most {MOST} can be drawn"
        raise CompileError(program.source or program.name, what)
    return write(read(program), program.name, place)


def page(svg: str, title: str) -> str:
    """A page that shows a drawing at its own size."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    style = "<style>:root { color-scheme: light dark; } body { margin: 0; }</style>"
    return f'<!doctype html>\n<html lang="en">\n{head}\n{style}\n<body>\n{svg}</body>\n</html>\n'
