"""What issue 17 asks for, beside what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Any

Row = dict[str, Any]
Bar = tuple[str, str, str, str]
Rows = Mapping[str, Sequence[Row]]

FLASH = {"units": 768, "batch": 16, "steps": 1024}
LEAST_LOAD = 1.0
FLASH_TRAINED = 5.1


def bars(rows: Rows) -> list[Bar]:
    """Bar, what is asked, what was found, whether it is met; of sections that ran."""
    judged: list[Bar] = []
    for name, judge in _JUDGES.items():
        if name in rows:
            judged += judge(rows)
    return judged


def _verdict(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "not met"


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _times(name: str, least: float, ratios: Iterable[float | None], worst: float = 0.0) -> Bar:
    """A bar on the geometric mean of ratios, and perhaps on the worst of them."""
    every = list(ratios)
    some = [ratio for ratio in every if ratio is not None]
    asked = f">= {least:g} times" + (f", none below {worst:g}" if worst else "")
    if not some:
        return name, asked, "-", _verdict(None)
    mean, low = _mean(some), min(some)
    found = f"{mean:.2f}, {low:.2f} to {max(some):.2f}; {len(some)} of {len(every)} cases"
    return name, asked, found, _verdict(mean >= least and low >= worst and len(some) == len(every))


def _ratio(row: Row, theirs: str, ours: str, times: str = "us") -> float | None:
    """How many times longer theirs takes; None if one is missing or ours is wrong."""
    both = row.get(times, {})
    if theirs not in both or ours not in both or ours in row.get("errors", {}):
        return None
    return both[theirs] / both[ours]


def _is_flash(row: Row) -> bool:
    return all(row[name] == value for name, value in FLASH.items())


def _load(rows: Rows) -> list[Bar]:
    judged: list[Bar] = []
    for row in rows["load"]:
        spent = row["load"] + row["first"] if "load" in row else None
        found = "-" if spent is None else f"{spent:.2f} s"
        met = None if spent is None else spent < LEAST_LOAD
        name = f"loaded and called once ({row['image']})"
        judged.append((name, f"< {LEAST_LOAD:g} s", found, _verdict(met)))
    return judged


def _golden(rows: Rows) -> list[Bar]:
    some = [row for row in rows["golden"] if "refused" not in row]
    right = sum(row.get("bits") is True for row in some)
    text = f"{right} of {len(some)}"
    return [("golden nets, run and trained", "the CPU's bits", text, _verdict(right == len(some)))]


def _sanitizer(rows: Rows) -> list[Bar]:
    judged: list[Bar] = []
    for row in rows["sanitizer"]:
        found = row.get("clean")
        text = "-" if found is None else "clean" if found else "not clean"
        judged.append((f"compute-sanitizer {row['tool']}", "clean", text, _verdict(found)))
    return judged


def _forward(rows: Rows) -> list[Bar]:
    grid = [row for row in rows["forward"] if not _is_flash(row)]
    lstm = [row for row in grid if row["cell"] == "lstm"]
    gru = [row for row in grid if row["cell"] == "gru"]
    judged = [
        _times("LSTM fp32, tf32 off", 2, (_ratio(r, "cudnn fp32", "fp32") for r in lstm), 1),
        _times("LSTM tf32, tf32 on", 1.5, (_ratio(r, "cudnn tf32", "tf32") for r in lstm)),
        _times("LSTM bf16", 1.5, (_ratio(r, "cudnn bf16", "bf16") for r in lstm)),
        _times("GRU fp32, tf32 off", 2.5, (_ratio(r, "cudnn fp32", "fp32") for r in gru)),
    ]
    for row in filter(_is_flash, rows["forward"]):
        ratio, times = _ratio(row, "cudnn fp16", "bf16"), row.get("us", {})
        found = f"{times['bf16']:.2f} and {times['cudnn fp16']:.2f} us a step" if ratio else "-"
        met = None if ratio is None else ratio >= 1
        judged.append(("LSTM 768/16/1024 bf16", "<= cuDNN's fp16", found, _verdict(met)))
    return judged


def _training(rows: Rows) -> list[Bar]:
    grid = [row for row in rows["training"] if not _is_flash(row)]
    name = "LSTM fp32, forward and backward"
    judged = [_times(name, 1.5, (_ratio(row, "fp32", "rnncc") for row in grid))]
    for row in filter(_is_flash, rows["training"]):
        ours = "rnncc bf16"
        own = None if ours in row.get("errors", {}) else row.get("us", {}).get(ours)
        found = "-" if own is None else f"{own:.2f} us a step"
        met = None if own is None else own <= FLASH_TRAINED
        name = "LSTM 768/16/1024 bf16, forward and backward"
        judged.append((name, f"<= {FLASH_TRAINED:g} us a step", found, _verdict(met)))
    return judged


def _custom(rows: Rows) -> list[Bar]:
    def eager(way: str) -> list[float | None]:
        return [_way_ratio(row, way, row.get("us", {}), "eager") for row in rows["custom"]]

    judged = [
        _times("custom cells, forward, beside eager", 5, eager("forward")),
        _times("custom cells, with gradients, beside eager", 20, eager("both")),
    ]
    for peer, least in (("torch.compile", 4), ("JAX", 3)):
        some = [row for row in rows.get("compiled", ()) if row["peer"] == peer]
        if some:
            ratios = [_peer_ratio(rows["custom"], row) for row in some]
            judged.append(_times(f"custom cells, with gradients, beside {peer}", least, ratios))
    return judged


def _way_ratio(row: Row, way: str, times: Mapping[str, Any], theirs: str) -> float | None:
    return _ratio({**row, "us": times.get(way, {})}, theirs, "rnncc")


def _peer_ratio(custom: Sequence[Row], row: Row) -> float | None:
    """Ours on the same cell at the same size, as many steps; theirs as they are called."""
    theirs = row.get("us", {}).get("both")
    same = ("cell", "units", "batch")
    for own in custom:
        if theirs is not None and all(own[name] == row[name] for name in same):
            way = "both" if own["steps"] == row["steps"] else "unrolled"
            times = {way: {**own.get("us", {}).get(way, {}), "peer": theirs}}
            return _way_ratio(own, way, times, "peer")
    return None


_JUDGES = {
    "load": _load,
    "golden": _golden,
    "sanitizer": _sanitizer,
    "forward": _forward,
    "training": _training,
    "custom": _custom,
}
