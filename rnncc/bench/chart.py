"""A picture of results: bars, each as the best peer's time over the contender's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rnncc.bench.running import Result

LABELS, PLOT, FIGURES = 250, 420, 110
BAR, GAP, LINE = 13, 12, 18
FIRST_HUE, NEXT_HUE = 205, 137.5
"""Degrees; steps by the golden angle keep any number of hues apart."""


def draw(results: Sequence[Result], title: str) -> str:
    """SVG; longer bars are faster, the line is the best peer."""
    names = list(dict.fromkeys(name for result in results for name in result.times))
    hues = {name: (FIRST_HUE + place * NEXT_HUE) % 360 for place, name in enumerate(names)}
    colours = {name: f"hsl({hue:.0f},50%,45%)" for name, hue in hues.items()}
    values = {id(r): {name: speed(r, name) for name in r.times} for r in results}
    most = max(1.0, *(value for each in values.values() for value in each.values()))
    scale = PLOT / most
    legend, top = _legend(title, names, colours)
    parts, y = [legend], top
    for result in results:
        parts.append(_text(LABELS - 8, y + BAR - 3, result.case.name, "end"))
        for name, value in values[id(result)].items():
            parts.append(_bar(y, value, scale, colours[name], result, name))
            y += BAR
        y += GAP
    line = LABELS + scale
    parts.append(
        f'<line x1="{line:.1f}" y1="{top - 6:.1f}" x2="{line:.1f}" y2="{y - GAP + 4:.1f}"'
        ' stroke="#222" stroke-dasharray="3 3"/>'
    )
    width, height = LABELS + PLOT + FIGURES, y + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}"'
        f' viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def speed(result: Result, name: str) -> float:
    """The best peer's time over this one's; over rnncc's own where there is no peer."""
    ratio = result.ratio(name)
    if ratio is not None:
        return ratio
    first = next(iter(result.times.values()))
    return first.median / result.times[name].median


def _bar(y: float, value: float, scale: float, colour: str, result: Result, name: str) -> str:
    median = result.times[name].median * 1e6
    told = f"{value:.2f}  {median:,.1f} us"
    length = max(value * scale, 1.0)
    return (
        f"<g><title>{escape(f'{result.case.name}: {name}, {median:,.2f} us')}</title>"
        f'<rect x="{LABELS}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>'
        + _text(LABELS + length + 4, y + BAR - 4, told, "start")
        + "</g>"
    )


def _legend(title: str, names: Sequence[str], colours: dict[str, str]) -> tuple[str, float]:
    """The names' colours, on as many lines as they take, and where these end."""
    parts, x, y = [_text(8, 14, f"{title}: best peer's time / own time", "start")], 8.0, 32.0
    for name in names:
        width = 26 + 6.5 * len(name)
        if x + width > LABELS + PLOT + FIGURES:
            x, y = 8.0, y + LINE
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colours[name]}"/>'
        )
        parts.append(_text(x + 14, y, name, "start"))
        x += width
    return "\n".join(parts), y + LINE - 2


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
