"""Graphviz places the boxes, where its `dot` is installed; the drawing itself stays ours."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from rnncc.netdef.drawing.layout import Edge, Layout, Point, Size

INCH = 72.0
SECONDS = 20
"""How long dot may take for one net."""


def available() -> bool:
    """Whether dot is installed."""
    return shutil.which("dot") is not None


def place(sizes: Sequence[Size], edges: Sequence[Edge]) -> Layout | None:
    """As `layout.place`; None if dot is not there, fails, or takes too long."""
    if not sizes or not available():
        return None
    nodes = "".join(
        f"n{n} [width={w / INCH:.4f} height={h / INCH:.4f}]\n" for n, (w, h) in enumerate(sizes)
    )
    arrows = "".join(f"n{source} -> n{target}\n" for source, target in edges)
    style = 'node [shape=box fixedsize=true label=""]\nedge [arrowhead=none]\n'
    text = f"digraph {{\nnodesep=0.3\nranksep=0.35\n{style}{nodes}{arrows}}}\n"
    try:
        done = subprocess.run(
            ["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _read(done.stdout, len(sizes), edges) if done.returncode == 0 else None


def _read(plain: str, count: int, edges: Sequence[Edge]) -> Layout | None:
    """Dot's plain output: inches, upwards; its edges stand in an order of its own."""
    size, centres = (0.0, 0.0), [(0.0, 0.0)] * count
    drawn: dict[Edge, list[Point]] = {}
    for row in plain.replace("\\\n", "").splitlines():
        word, *rest = row.split()
        if word == "graph":
            size = float(rest[1]) * INCH, float(rest[2]) * INCH
        elif word == "node":
            centres[int(rest[0][1:])] = _point(rest[1], rest[2], size)
        elif word == "edge":
            edge = int(rest[0][1:]), int(rest[1][1:])
            places = rest[3 : 3 + 2 * int(rest[2])]
            pairs = zip(places[::2], places[1::2], strict=True)
            drawn[edge] = [_point(x, y, size) for x, y in pairs]
    return Layout(size, centres, [drawn[edge] for edge in edges])


def _point(x: str, y: str, size: Size) -> Point:
    return float(x) * INCH, size[1] - float(y) * INCH
