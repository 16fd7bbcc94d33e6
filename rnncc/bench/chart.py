"""A picture of results: for each case every contender's time, relative to rnncc's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log

from rnncc.bench.cases import NET
from rnncc.bench.running import CaseResult
from rnncc.driver.timing import time_text

WIDTH, PLOT, RIGHT = 880, 270, 690
"""The picture's; where the plot begins and ends: names stand left of it, figures right."""
LONGEST = 36
"""Letters of a name."""
ROW, DOT, EDGE = 34, 6, 24
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TIMES = "\N{MULTIPLICATION SIGN}"
MARGIN = 1.15
"""Room beyond the first and the last dot."""
LETTER = 8.6
"""Width of a letter of the legend, on average."""

LIGHT = "#ffffff #1f2328 #59636e #d8dee4 #d1440c".split()
DARK = "#0d1117 #f0f6fc #9198a1 #30363d #ff8a4c".split()
"""Paper, ink, faint ink, lines, rnncc."""
PEERS = "#0969da #1a7f37 #8250df #b08800 #0e7c86 #bf3989 #6e7781".split()
PEERS_DARK = "#58a6ff #3fb950 #bc8cff #e3b341 #39c5cf #f778ba #9198a1".split()
_ROLES = ("paper", "ink", "faint", "line", "own")


def draw(results: Sequence[CaseResult], title: str, subtitle: str = "") -> str:
    """SVG in the reader's colours, light or dark: dots left of the line are faster than rnncc."""
    names = list(dict.fromkeys(name for result in results for name in result.times))
    own = {name for result in results for name in result.own}
    marks = _marks(names, own)
    values = [relative(result) for result in results]
    axis = _Axis.of([value for row in values for value in row.values()])
    legend, top = _legend(names, own, marks)
    bottom = top + ROW * len(results)
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{bottom + 58}" rx="8"/>',
        _text(EDGE, 34, title, "ink title"),
        _text(EDGE, 54, subtitle, "faint"),
        *legend,
        *_ticks(axis, top, bottom),
        _text(PLOT - 18, top - 10, _names(results), "faint", "end"),
        *_texts(top - 10, *_heading(results), kind="faint"),
    ]
    for place, (result, row) in enumerate(zip(results, values, strict=True)):
        parts += _row(result, row, axis, top + ROW * place + ROW / 2, marks, own)
    return _document(parts, bottom + 58)


def relative(result: CaseResult) -> dict[str, float]:
    """Every contender's time over that of rnncc; of the first one where rnncc has none."""
    first = _first(result)
    return {name: times.median / result.times[first].median for name, times in result.times.items()}


def _first(result: CaseResult) -> str:
    """What times are relative to."""
    return next(iter(result.own), next(iter(result.times)))


class _Axis:
    """Places of ratios, on a logarithmic scale."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    @staticmethod
    def of(values: Sequence[float]) -> _Axis:
        return _Axis(min(1.0, *values) / MARGIN, max(2.0, *values) * MARGIN)

    def place(self, value: float) -> float:
        share = log(value / self.least) / log(self.most / self.least)
        return PLOT + share * (RIGHT - PLOT)

    @property
    def ticks(self) -> list[float]:
        return [tick for tick in TICKS if self.least <= tick <= self.most]


def _marks(names: Sequence[str], own: set[str]) -> dict[str, str]:
    """The class of each contender's dots; ours have one colour."""
    peers = [name for name in names if name not in own]
    return {
        name: "own" if name in own else f"peer{peers.index(name) % len(PEERS)}" for name in names
    }


def _row(
    result: CaseResult,
    row: Mapping[str, float],
    axis: _Axis,
    y: float,
    marks: Mapping[str, str],
    own: set[str],
) -> list[str]:
    ends = axis.place(min(row.values())), axis.place(max(row.values()))
    parts = [
        _text(PLOT - 18, y + 4, _short(result.case.title), "ink", "end"),
        _line(ends[0], y, ends[1], y),
        *_texts(y + 4, *_figures(result), kind="ink"),
    ]
    for name, value in sorted(row.items(), key=lambda entry: entry[0] in own):
        tooltip = f"{result.case.title}: {name}, {time_text(result.times[name].median)}"
        parts.append(
            f"<g><title>{escape(tooltip)} ({value:.2f})</title>"
            f"{_mark(axis.place(value), y, name, marks, own)}</g>"
        )
    return parts


def _mark(x: float, y: float, name: str, marks: Mapping[str, str], own: set[str]) -> str:
    """A dot; ours a bar, of lower precision or with more threads a diamond."""
    if name == next(iter(n for n in marks if n in own), ""):
        return f'<rect class="own" x="{x - 3:.1f}" y="{y - 10}" width="6" height="20" rx="2"/>'
    if name in own:
        points = f"{x:.1f},{y - 8} {x + 8:.1f},{y} {x:.1f},{y + 8} {x - 8:.1f},{y}"
        return f'<polygon class="own" points="{points}"/>'
    return f'<circle class="{marks[name]}" cx="{x:.1f}" cy="{y}" r="{DOT}"/>'


def _names(results: Sequence[CaseResult]) -> str:
    return "" if any(result.case.cell == NET for result in results) else "cell and units"


def _heading(results: Sequence[CaseResult]) -> tuple[str, str]:
    own = "rnncc" if any(result.own for result in results) else "time"
    return own, "best peer" if any(result.best() for result in results) else ""


def _figures(result: CaseResult) -> tuple[str, str]:
    """Rnncc's time, and how many times it the best peer takes."""
    first = _first(result)
    ratio = result.ratio(first) if first in result.own else None
    return time_text(result.times[first].median), "" if ratio is None else f"{ratio:.2f}{TIMES}"


def _texts(y: float, left: str, right: str, kind: str) -> list[str]:
    """Two columns at the right edge."""
    return [
        _text(WIDTH - EDGE - 76, y, left, kind, "end"),
        _text(WIDTH - EDGE, y, right, kind, "end"),
    ]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"…{text[1 - LONGEST :]}"


def _ticks(axis: _Axis, top: float, bottom: float) -> list[str]:
    parts = list[str]()
    for tick in axis.ticks:
        x = axis.place(tick)
        parts.append(_line(x, top, x, bottom, "ink-line" if tick == 1 else "line"))
        parts.append(_text(x, bottom + 18, f"{tick:g}{TIMES}", "faint", "middle"))
    caption = "time relative to rnncc: further right is slower"
    return [*parts, _text((PLOT + RIGHT) / 2, bottom + 40, caption, "faint", "middle")]


def _legend(
    names: Sequence[str], own: set[str], marks: Mapping[str, str]
) -> tuple[list[str], float]:
    """The contenders' marks, on as many lines as they take, and where the plot begins."""
    parts, x, y = list[str](), float(EDGE + DOT), 84.0
    for name in names:
        width = 34 + LETTER * len(name)
        if x + width > WIDTH - EDGE:
            x, y = float(EDGE + DOT), y + 26
        parts.append(_mark(x, y - 4, name, marks, own))
        parts.append(_text(x + 14, y, name, "ink"))
        x += width
    return parts, y + 38


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _document(parts: Sequence[str], height: float) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    font = 'font-family="system-ui, -apple-system, Segoe UI, sans-serif" font-size="14"'
    dark = f"@media (prefers-color-scheme: dark) {{\n{_colours(DARK, PEERS_DARK)}\n}}"
    style = f"<style>\n{_colours(LIGHT, PEERS)}\n.title{{font-size:20px;font-weight:600}}\n{dark}\n"
    root = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    return "\n".join([root, f"{style}</style>", *parts, "</svg>\n"])


def _colours(roles: Sequence[str], peers: Sequence[str]) -> str:
    named = dict(zip(_ROLES, roles, strict=True))
    named |= {f"peer{number}": colour for number, colour in enumerate(peers)}
    fills = [f".{name}{{fill:{colour}}}" for name, colour in named.items()]
    edge = f"circle,polygon{{stroke:{roles[0]};stroke-width:1.5}}"
    lines = [f".line{{stroke:{roles[3]}}}", f".ink-line{{stroke:{roles[2]}}}"]
    return "\n".join([*fills, edge, *lines])
