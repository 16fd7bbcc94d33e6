"""How the command line prints: tables on a terminal and in a pipe, JSON, sizes, a spinner."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

PIPE_WIDTH = 1000
"""Columns of a table that no terminal cuts off."""


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings; on a terminal in its width, in a pipe uncut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    sys.stdout.flush()  # else rich does it, which ends the process where nobody reads
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    table = Table(
        *columns, title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for row in rows:
        table.add_row(*(printable(str(cell)) for cell in row))
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        print(line.rstrip())


def print_bytes(data: bytes) -> None:
    """Print bytes, or a file in UTF-8, whatever the locale says of texts."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def printable(text: str) -> str:
    """A blob's name without what would steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shape_text(shape: Iterable[object]) -> str:
    """`[T, N, 40]`."""
    return f"[{', '.join(map(str, shape))}]"


def bytes_text(size: int) -> str:
    """`1.5 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


@contextmanager
def working(what: str) -> Generator[None]:
    """Show that something is being done, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(printable(what)):
        yield
