"""The measurements as Markdown: what was asked and what was found, then all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.cuda.bars import bars
from benchmarks.cuda.sections import SECTIONS, Row

CELLS = {"lstm": "LSTM", "gru": "GRU"}
CUSTOM = {"milstm": "MI-LSTM", "layernorm_lstm": "layer-norm LSTM", "own": "a user's own"}

MOST = 8
"""Cases that are named where many have the same fault."""


def markdown(results: Mapping[str, Any]) -> str:
    """All of a run; sections that did not run are not in it."""
    parts = [_head(results), _grid(("bar", "asked", "found", ""), bars(results["rows"]))]
    for name, rows in results["rows"].items():
        parts += [f"### {SECTIONS[name].title}", _TABLES[name](rows), *_faults(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(results: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in results["versions"].items())
    return f"{results['device']}, {results['date']}; {versions}; {results['seconds']:.0f} s"


def _grid(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def us(value: float | None, base: float | None = None) -> str:
    """Microseconds; in brackets how many times the base that is."""
    if value is None:
        return "-"
    return f"{value:.2f}" if base is None else f"{value:.2f} ({value / base:.1f})"


def _load(rows: Sequence[Row]) -> str:
    titles = ("image", "load, s", "first call, s", "second call, s", "driver's start, s")
    names = ("load", "first", "second", "driver")
    lines = [[row["image"], *(_seconds(row.get(name)) for name in names)] for row in rows]
    return _grid(titles, lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _golden(rows: Sequence[Row]) -> str:
    titles = ("nets", "the CPU's bits", "other bits", "refused on the CPU too", "not computed")
    lines: list[list[object]] = []
    for mode in ("run", "train"):
        some = [row for row in rows if row["mode"] == mode]
        counts = [_count(some, "bits", True), _count(some, "bits", False)]
        refused = sum("refused" in row for row in some)
        errors = sum("error" in row for row in some)
        lines.append([f"{len(some)}, {mode}", *counts, refused, errors])
    return _grid(titles, lines)


def _count(rows: Sequence[Row], name: str, value: object) -> int:
    return sum(name in row and row[name] is value for row in rows)


def _sanitizer(rows: Sequence[Row]) -> str:
    lines = [[row["tool"], _clean(row), "; ".join(row.get("told", ()))] for row in rows]
    return _grid(("tool", "clean", "said"), lines)


def _clean(row: Row) -> str:
    return "-" if "clean" not in row else "yes" if row["clean"] else "no"


def _forward(rows: Sequence[Row]) -> str:
    """Microseconds a step; in a graph behind the bar."""
    ours = ("fp32", "tf32", "bf16")
    theirs = ("cudnn fp32", "cudnn tf32", "cudnn bf16", "cudnn fp16")
    titles = ["cell", "H", "B", "T", *(f"rnncc {kind}" for kind in ours)]
    titles += [kind.replace("cudnn", "cuDNN") for kind in theirs]
    lines = [[*_case(row), *(_both(row, kind) for kind in (*ours, *theirs))] for row in rows]
    return "Microseconds a step: called, in a CUDA graph.\n\n" + _grid(titles, lines)


def _case(row: Row) -> list[object]:
    return [CELLS[row["cell"]], row["units"], row["batch"], row["steps"]]


def _both(row: Row, kind: str) -> str:
    called, graph = (row.get(name, {}).get(kind) for name in ("us", "graph_us"))
    return "-" if called is None and graph is None else f"{us(called)}, {us(graph)}"


def _training(rows: Sequence[Row]) -> str:
    titles = ("H", "B", "T", "rnncc fp32", "rnncc bf16", "cuDNN fp32", "tf32", "bf16", "fp16")
    kinds = ("rnncc bf16", "fp32", "tf32", "bf16", "fp16")
    lines: list[list[object]] = []
    for row in rows:
        times = row.get("us", {})
        own = times.get("rnncc")
        cells = [us(own), *(us(times.get(kind), own) for kind in kinds)]
        lines.append([row["units"], row["batch"], row["steps"], *cells])
    return "Microseconds a step; in brackets times rnncc's fp32.\n\n" + _grid(titles, lines)


def _custom(rows: Sequence[Row]) -> str:
    titles = ("cell", "H", "B", "T", "", "rnncc", "bf16", "eager", "in a graph: rnncc", "eager")
    lines: list[list[object]] = []
    for row in rows:
        for way, name in (("forward", "forward"), ("both", "with gradients")):
            times, graphs = (row.get(n, {}).get(way, {}) for n in ("us", "graph_us"))
            own, alone = times.get("rnncc"), graphs.get("rnncc")
            called = [us(own), us(times.get("rnncc bf16"), own), us(times.get("eager"), own)]
            lines.append([*_named(row), name, *called, us(alone), us(graphs.get("eager"), alone)])
    return _grid(titles, lines)


def _named(row: Row) -> list[object]:
    return [CUSTOM[row["cell"]], row["units"], row["batch"], row["steps"]]


def _compiled(rows: Sequence[Row]) -> str:
    titles = ("peer", "cell", "H", "B", "T", "with gradients", "in a graph", "compiled in, s")
    lines: list[list[object]] = []
    for row in rows:
        times = [us(row.get(name, {}).get("both")) for name in ("us", "graph_us")]
        spent = row.get("compile_s")
        lines.append([row["peer"], *_named(row), *times, "-" if spent is None else f"{spent:.0f}"])
    return _grid(titles, lines)


def _faults(rows: Sequence[Row]) -> list[str]:
    """What was not measured or was wrong: each reason with its cases."""
    cases: dict[str, list[str]] = {}
    for row in rows:
        words = [v for n, v in row.items() if n != "error" and isinstance(v, str | int)]
        found = [row["error"]] if "error" in row else []
        found += [f"{name}: {why}" for name, why in row.get("errors", {}).items()]
        found += [f"other bits in {', '.join(row['differing'])}"] if "differing" in row else []
        for why in found:
            cases.setdefault(why, []).append(" ".join(map(str, words)))
    lines = [f"- {why}: {_some(names)}" for why, names in cases.items()]
    return ["Not measured, or wrong:", "\n".join(lines)] if lines else []


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def _warm(rows: Sequence[Row]) -> str:
    seconds = [row["seconds"] for row in rows if "seconds" in row]
    longest = max(seconds, default=0.0)
    return (
        f"{len(seconds)} of {len(rows)} libraries, {sum(seconds):.0f} s, at most {longest:.0f} s."
    )


_TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "warm": _warm,
    "load": _load,
    "golden": _golden,
    "sanitizer": _sanitizer,
    "forward": _forward,
    "training": _training,
    "custom": _custom,
    "compiled": _compiled,
}
