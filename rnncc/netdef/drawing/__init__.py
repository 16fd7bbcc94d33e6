"""A net as a drawing: SVG with the nets inside operators as boxes in boxes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rnncc.errors import NetError
from rnncc.netdef.drawing import graphviz, layout
from rnncc.netdef.drawing.reading import operators, read
from rnncc.netdef.drawing.svg import write
from rnncc.netdef.netdef_pb2 import NetDef

__all__ = ["LAYOUTS", "draw"]

LAYOUTS = ("auto", "dot", "own")
"""Who places the boxes: graphviz where that is installed, graphviz, ourselves."""

MOST, MOST_ARROWS, MOST_FOR_DOT = 3000, 20_000, 500
"""How many operators and inputs of theirs a drawing may show, and how many operators graphviz is
given without being asked for: it takes minutes for thousands."""


def draw(net: NetDef, parameters: Collection[str] = (), by: str = "auto", title: str = "") -> str:
    """The SVG of a net.

    Args:
        parameters: blobs that are weights and are named in the boxes of their readers.
        by: one of `LAYOUTS`; what graphviz cannot place in time we place ourselves.
    Raises:
        NetError: more than `MOST` operators; graphviz is asked for and not installed.
        CompileError: a step net in text form with a syntax error.
    """
    sizes = [len(op.input) for op in operators(net)]
    _check_size(net, len(sizes), sum(sizes))
    if by == "dot" and not graphviz.available():
        raise NetError("", "graphviz is not installed: there is no program named dot")
    by_dot = by == "dot" or (by == "auto" and len(sizes) <= MOST_FOR_DOT)

    def place(
        sizes: Sequence[layout.Size], edges: Sequence[layout.Edge], forks: frozenset[int]
    ) -> layout.Layout:
        placed = graphviz.place(sizes, edges) if by_dot else None
        return placed or layout.place(sizes, edges, forks)

    return write(read(net, parameters), title or net.name or "net", place)


def _check_size(net: NetDef, count: int, arrows: int) -> None:
    for number, most, what in ((count, MOST, "operators"), (arrows, MOST_ARROWS, "inputs of them")):
        if number > most:
            problem = f"has {number} {what}, of which at most {most} can be drawn"
            raise NetError(net.name, problem, "rnncc netdef extract takes a part of a net")
