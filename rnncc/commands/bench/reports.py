"""How `rnncc bench` prints: tables of times and of ceilings, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from rnncc.bench.machine import Ceilings
from rnncc.bench.running import CaseResult, Effort
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.commands.tables import bytes_text, print_table, printable
from rnncc.driver.timing import time_text

Cell = Callable[[CaseResult, str], str]
"""The text of a case's cell for one of ours."""


def print_ceilings(several: Sequence[Ceilings]) -> None:
    """A column for one core, one for all."""
    first = several[0]
    heads = ["", *("one core" if c.cores == 1 else f"{c.cores} cores" for c in several)]
    rows = [
        (f"multiply-adds {d}", *(f"{c.flops[d] / 1e9:.0f} GFLOP/s" for c in several))
        for d in first.flops
    ]
    mixed = [f"{c.computed / 1e9:.2f} G vectors/s" for c in several]
    rows.append(("multiply-adds and additions in turn", *mixed))
    for level in first.levels:
        size = f", {bytes_text(first.caches[level])}" if level in first.caches else ""
        cells = [f"{c.levels[level] / 1e9:.0f} GB/s" for c in several]
        rows.append((f"reads from {level}{size}", *cells))
    print_table("", heads, rows)


def print_results(results: Sequence[CaseResult], ceilings: Sequence[Ceilings] = ()) -> None:
    """A row a case; times with half of the quartiles' distance in percent."""
    if ceilings:
        print_ceilings(ceilings)
    names = list(dict.fromkeys(name for result in results for name in result.times))
    own = [name for name in names if any(name in result.own for result in results)]
    compared = any(result.ratio(name) for result in results for name in result.own)
    heads = ["case"]
    for name in names:
        heads += [name, *(_figures(compared, bool(ceilings)) if name in own else [])]
    rows: list[list[str]] = []
    for result in results:
        rows.append([result.case.name])
        for name in names:
            rows[-1].append(_time(result, name))
            if name in own:
                cells = _figures(compared, bool(ceilings)).values()
                rows[-1] += [cell(result, name) for cell in cells]
    print_table("", heads, rows)
    _print_notes(results, compared, bool(ceilings))


def print_markdown(results: Sequence[CaseResult]) -> None:
    """A table in Markdown: microseconds, and in brackets how many times the first one's that is."""
    names = list(dict.fromkeys(name for result in results for name in result.times))
    for row in (["case", *names], ["---"] * (len(names) + 1)):
        click.echo(f"| {' | '.join(row)} |")
    for result in results:
        cells = [_cell(result, name, names[0]) for name in names]
        click.echo(f"| {' | '.join([printable(result.case.name), *cells])} |")


def _cell(result: CaseResult, name: str, first: str) -> str:
    """Of three digits."""
    if name not in result.times:
        return ""
    seconds = result.times[name].median
    text = f"{float(f'{1e6 * seconds:.3g}'):,g}"
    if name == first or first not in result.times:
        return text
    return f"{text} ({seconds / result.times[first].median:.2f})"


def _figures(compared: bool, bounded: bool) -> dict[str, Cell]:
    """What stands beside a time of ours, by heading."""
    ratio: dict[str, Cell] = {"ratio": lambda result, name: _number(result.ratio(name))}
    least: dict[str, Cell] = {
        "least": lambda result, name: _seconds(result.least.get(name)),
        "part": lambda result, name: _number(result.fraction(name)),
    }
    return (ratio if compared else {}) | (least if bounded else {})


def _time(result: CaseResult, name: str) -> str:
    times = result.times.get(name)
    return "" if times is None else f"{time_text(times.median)} ±{times.spread / 2:.0%}"


def _seconds(value: float | None) -> str:
    return "" if value is None else time_text(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _print_notes(results: Sequence[CaseResult], compared: bool, bounded: bool) -> None:
    """What the headings mean, and who is missing."""
    if compared:
        click.echo("ratio: the best fp32 peer's time over ours")
    if bounded:
        click.echo("least: what arithmetic and bytes allow here; part: least over our time")
    reasons = {f"{name}: {why}" for result in results for name, why in result.left.items() if why}
    for line in sorted(reasons):
        print(f"left out: {printable(line)}", file=sys.stderr)


def print_json(
    results: Sequence[CaseResult], effort: Effort, ceilings: Sequence[Ceilings] = ()
) -> None:
    """Everything that was measured, in seconds."""
    report: dict[str, Any] = {
        "cpu": resolve_target().cpu,
        "cores": list(effort.cores),
        "rounds": effort.rounds,
        "ceilings": [one.to_dict() for one in ceilings],
        "results": [result.to_dict() for result in results],
    }
    click.echo(json.dumps(report, indent=2))
