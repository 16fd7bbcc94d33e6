"""How the command line prints: tables on a terminal and in a pipe, JSON, sizes, a spinner."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnncc.arrays import Array

GAP = 3
"""Columns between cells."""


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    spare: Sequence[str] = (),
) -> None:
    """Print rows under headings: on a terminal in its width, in a pipe whole.

    Args:
        spare: columns that a terminal may do without, the first of them first.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    sys.stdout.flush()  # else rich does it, which ends the process where nobody reads
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [
        max([len(head), *(len(row[place]) for row in cells)]) for place, head in enumerate(columns)
    ]
    whole = sum(widths) + GAP * len(columns)
    console = Console(markup=False, highlight=False, emoji=False)
    left = list[str]()
    if sys.stdout.isatty():
        of = dict(zip(columns, widths, strict=True))
        left = _left_out([(head, of.get(head, 0)) for head in spare], whole, console.width)
    else:
        console.width = max(whole, 1)
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    shown = [place for place, head in enumerate(columns) if head not in left]
    for place in shown:
        table.add_column(columns[place], overflow="fold")
    for row in cells:
        table.add_row(*(row[place] for place in shown))
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        print(line.rstrip())
    if left:
        print(
            f"columns left out: {', '.join(left)} (a wider terminal, a pipe and --json have them)"
        )


def _left_out(spare: Iterable[tuple[str, int]], width_needed: int, room: int) -> list[str]:
    """The columns, with their widths, without which a table fits, or all that may be left out."""
    left = list[str]()
    for head, width in spare:
        if width_needed <= room:
            break
        width_needed -= width + GAP
        left.append(head)
    return left


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
    """Show what is being done and at which step the compiler is, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from rnncc.driver.trace import watched

    shown = printable(what)
    with (
        Console(stderr=True).status(shown) as status,
        watched(lambda step: status.update(f"{shown}: {step}")),
    ):
        yield


@contextmanager
def terminal_bar(total: int) -> Generator[Callable[[int], None]]:
    """A bar of how much is done, on a terminal only; the function adds to it."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("rows", total=total)
        yield lambda count: progress.advance(task, count)


def print_arrays(results: Mapping[str, Array]) -> None:
    """A table of what the arrays hold; of texts the first and the last in their order."""

    def row(name: str, array: Array) -> list[object]:
        kind, shown = array.dtype, ["", "", ""]
        if kind.kind == "U":
            kind, words = "text", array.reshape(-1).tolist()
            shown = [printable(min(words)), "", printable(max(words))] if words else shown
        elif array.size:
            shown = [f"{value:.6g}" for value in (array.min(), array.mean(), array.max())]
        return [name, kind, shape_text(array.shape), *shown]

    columns = ["output", "dtype", "shape", "min", "mean", "max"]
    print_table("", columns, [row(name, array) for name, array in results.items()])
