"""The drawing as SVG: sizes the boxes, has them placed from the inside out, writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from xml.sax.saxutils import escape

from rnncc.netdef.drawing.colours import DARK, INK, LIGHT, rules
from rnncc.netdef.drawing.graph import SIZES, DrawnGraph, DrawnNode, Line, line
from rnncc.netdef.drawing.layout import Edge, Layout, Point, Size
from rnncc.records import record

Place = Callable[[Sequence[Size], Sequence[Edge], frozenset[int]], Layout]

PAD = 9.0
"""From a box's border to its text."""
INSET = 14.0
"""Around the net in a box, and around the whole."""

FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
STYLE = f"""
text {{ font-family: {FONT}; fill: {INK["light"][0]}; }}
.page {{ fill: {INK["light"][2]}; }}
{rules(LIGHT)}
.again {{ fill: none; stroke: #8793a3; stroke-dasharray: 3 2; }}
.arrow {{ fill: none; stroke: #76828f; }}
.tip {{ fill: #76828f; }}
text.type {{ font-weight: 600; }}
text.name, text.note, text.title, .unread text {{ fill: {INK["light"][1]}; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: {INK["dark"][0]}; }}
.page {{ fill: {INK["dark"][2]}; }}
{rules(DARK)}
.again {{ stroke: #7d8a99; }}
.arrow {{ stroke: #8995a3; }}
.tip {{ fill: #8995a3; }}
text.name, text.note, text.title, .unread text {{ fill: {INK["dark"][1]}; }}
}}
"""


@record
class PlacedGraph:
    """A graph with its layout, and those of the nets in its boxes."""

    graph: DrawnGraph
    layout: Layout
    sizes: list[Size]
    inner: list[list[PlacedGraph]]


def write(graph: DrawnGraph, title: str, place: Place) -> str:
    """The SVG of a graph."""
    placed = _placed(graph, place)
    heading = line(title, "title")
    width = max(placed.layout.size[0], heading.width) + 2 * INSET
    top = heading.height + INSET
    height = placed.layout.size[1] + top + 2 * INSET
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path class="tip" d="M0 1 8 4 0 7z"/></marker></defs>',
            f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
            _text(heading, (INSET, INSET + SIZES["title"]), "start"),
            *_drawn(placed, (INSET, top + INSET)),
            "</svg>\n",
        ]
    )


def _placed(graph: DrawnGraph, place: Place) -> PlacedGraph:
    inner = [[_placed(net, place) for _, net in node.parts] for node in graph.nodes]
    sizes = [_size(node, parts) for node, parts in zip(graph.nodes, inner, strict=True)]
    forks = frozenset(n for n, node in enumerate(graph.nodes) if node.kind != "op")
    return PlacedGraph(graph, place(sizes, graph.edges, forks), sizes, inner)


def _size(node: DrawnNode, parts: Sequence[PlacedGraph]) -> Size:
    text = max(entry.width for entry in node.lines), sum(entry.height for entry in node.lines)
    if not parts:
        bare = node.kind in ("blob", "unread")
        return text[0] + (4 if bare else 2 * PAD), text[1] + (2 if bare else PAD)
    frames = [_frame(title, net) for (title, _), net in zip(node.parts, parts, strict=True)]
    width = sum(w for w, _ in frames) + INSET * (len(frames) + 1)
    height = max(h for _, h in frames) + text[1] + 2 * INSET
    return max(width, text[0] + 2 * INSET), height


def _frame(title: str, net: PlacedGraph) -> Size:
    """The size of the frame around a net in a box."""
    heading = line(title, "title")
    width = max(net.layout.size[0], heading.width) + 2 * INSET
    return width, net.layout.size[1] + heading.height + 2.5 * INSET


def _drawn(placed: PlacedGraph, at: Point) -> Iterable[str]:
    yield f'<g transform="translate({at[0]:.1f} {at[1]:.1f})">'
    for (_, target), points in zip(placed.graph.edges, placed.layout.curves, strict=True):
        if points:
            bare = placed.graph.nodes[target].kind in ("blob", "unread")
            yield _arrow(points, tip=not bare)
    rows = zip(placed.graph.nodes, placed.layout.centres, placed.sizes, placed.inner, strict=True)
    for node, centre, size, inner in rows:
        yield from _node(node, (centre[0] - size[0] / 2, centre[1] - size[1] / 2), size, inner)
    yield "</g>"


def _node(
    node: DrawnNode, corner: Point, size: Size, inner: Sequence[PlacedGraph]
) -> Iterable[str]:
    yield f'<g class="{node.kind}-node{" unread" if node.kind == "unread" else ""}">'
    yield f"<title>{escape(node.tooltip)}</title>"
    kind = ("group" if inner else "box") if node.kind == "op" else node.kind
    if kind not in ("blob", "unread"):
        round_ = 4 if node.kind == "op" else min(size[1] / 2, 12)
        yield _rect(kind, corner, size, round_)
    text = sum(entry.height for entry in node.lines)
    y = corner[1] + (INSET / 2 if inner else (size[1] - text) / 2)
    for entry in node.lines:
        x = corner[0] + (INSET if inner else size[0] / 2)
        yield _text(entry, (x, y + 0.98 * SIZES[entry.style]), "start" if inner else "middle")
        y += entry.height
    x = corner[0] + INSET
    for (title, _), net in zip(node.parts, inner, strict=True):
        frame = _frame(title, net)
        heading = line(title, "title")
        yield _rect("part", (x, y + INSET / 2), frame, 3)
        yield _text(heading, (x + INSET / 2, y + INSET + SIZES["title"] / 2 + 4), "start")
        left = x + (frame[0] - net.layout.size[0]) / 2
        yield from _drawn(net, (left, y + heading.height + 1.75 * INSET))
        x += frame[0] + INSET
    yield "</g>"


def _rect(kind: str, corner: Point, size: Size, round_: float) -> str:
    x, y = corner
    place = f'x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}"'
    return f'<rect class="{kind}" {place} rx="{round_:.1f}"/>'


def _text(entry: Line, at: Point, anchor: str) -> str:
    size = f'font-size="{SIZES[entry.style]:g}"'
    place = f'x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}"'
    return f'<text class="{entry.style}" {place} {size}>{escape(entry.text)}</text>'


def _arrow(points: Sequence[Point], tip: bool) -> str:
    start, *rest = (f"{x:.1f} {y:.1f}" for x, y in points)
    end = ' marker-end="url(#tip)"' if tip else ""
    return f'<path class="arrow" d="M{start}C{" ".join(rest)}"{end}/>'
