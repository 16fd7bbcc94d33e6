"""A picture of results: bars, each as the best peer's time over the contender's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rnncc.bench.running import Result

LABELS, PLOT, FIGURES = 250, 420, 110
BAR, GAP, TOP = 13, 12, 46
COLOURS = ("#1b6ca8", "#d08c2e", "#5a9367", "#a34a52", "#7a6aa8", "#5f6b73", "#b0884e", "#3f8f8f")


def draw(results: Sequence[Result], title: str) -> str:
    """SVG; longer bars are faster, the line is the best peer."""
    names = list(dict.fromkeys(name for result in results for name in result.times))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    values = {id(r): {name: speed(r, name) for name in r.times} for r in results}
    most = max(1.0, *(value for each in values.values() for value in each.values()))
    scale = PLOT / most
    parts, y = [_legend(title, names, colours)], float(TOP)
    for result in results:
        parts.append(_text(LABELS - 8, y + BAR - 3, result.case.name, "end"))
        for name, value in values[id(result)].items():
            parts.append(_bar(y, value, scale, colours[name], result, name))
            y += BAR
        y += GAP
    line = LABELS + scale
    parts.append(
        f'<line x1="{line:.1f}" y1="{TOP - 6}" x2="{line:.1f}" y2="{y - GAP + 4:.1f}"'
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


def _legend(title: str, names: Sequence[str], colours: dict[str, str]) -> str:
    parts, x = [_text(8, 14, f"{title}: best peer's time / own time", "start")], 8.0
    for name in names:
        parts.append(f'<rect x="{x:.1f}" y="23" width="10" height="10" fill="{colours[name]}"/>')
        parts.append(_text(x + 14, 32, name, "start"))
        x += 26 + 6.5 * len(name)
    return "\n".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
