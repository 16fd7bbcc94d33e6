"""Tables, JSON and pictures of made-up times."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from math import log
from pathlib import Path

import pytest

from rnncc.bench.cases import Case
from rnncc.bench.chart import TIMES, draw
from rnncc.bench.contenders import Contender
from rnncc.bench.machine import Ceilings
from rnncc.bench.running import CaseResult, Effort
from rnncc.commands.bench.reports import print_ceilings, print_json, print_results
from rnncc.driver.timing import Times, time_text

Capture = pytest.CaptureFixture[str]
CEILINGS = Ceilings(16, {"L1": 32768}, {"f32": 1e11}, [(8192, 4e11), (1 << 25, 2e10)])


def microseconds(median: float) -> Times:
    return Times(median * 1e-6, median * 0.9e-6, median * 1.1e-6, 9)


def contender(name: str) -> Contender:
    """Ours or a peer, by its name."""
    ours, precision = name.startswith("rnncc"), "bf16" if "bf16" in name else "fp32"
    return Contender(name, "rnncc.bench.own" if ours else "peer", "", precision)


def made_up(left: dict[str, str] | None = None) -> CaseResult:
    named = {"rnncc": 100, "rnncc bf16": 50, "A": 150, "B": 400, "C bf16": 60}
    return CaseResult(
        Case("lstm", 64, 1, 100, called="LSTM"),
        {name: microseconds(median) for name, median in named.items()},
        {name: contender(name) for name in named},
        left or {},
        {"rnncc": 80e-6},
    )


def test_ratios() -> None:
    result = made_up()
    assert (result.best(), result.best("bf16"), result.best("int8")) == ("A", "C bf16", None)
    assert result.ratio("rnncc") == pytest.approx(1.5)
    assert result.ratio("rnncc bf16") == pytest.approx(3)
    assert result.ratio("rnncc bf16", "bf16") == pytest.approx(1.2)
    assert result.ratio("rnncc", "int8") is None
    assert result.fraction("rnncc") == pytest.approx(0.8)
    assert result.fraction("rnncc bf16") is None


def test_ratios_are_to_peers_with_as_many_threads() -> None:
    result = made_up()
    for name, median in {"rnncc": 60, "A": 75}.items():
        both = contender(name).on(2)
        assert both.name == f"{name}, 2 threads"
        result.times[both.name], result.contenders[both.name] = microseconds(median), both
    assert result.ratio("rnncc, 2 threads") == pytest.approx(75 / 60)
    assert result.ratio("rnncc") == pytest.approx(1.5)
    assert result.ratio("rnncc bf16") == pytest.approx(3)


def test_table(capsys: Capture) -> None:
    print_results([made_up({"D": "not there", "E": ""})], [CEILINGS])
    told = capsys.readouterr()
    row = next(line for line in told.out.splitlines() if line.lstrip().startswith("lstm"))
    for cell in ("100 µs ±10%", "1.50", "80.0 µs", "0.80", "50.0 µs", "3.00", "400 µs"):
        assert cell in row
    assert "memory" in told.out and "20 GB/s" in told.out
    assert told.err == "left out: D: not there\n"


def test_table_without_peers_has_no_ratio(capsys: Capture) -> None:
    alone = {"rnncc": contender("rnncc")}
    print_results([CaseResult(Case("gru", 8), {"rnncc": microseconds(3)}, alone)])
    assert "ratio" not in capsys.readouterr().out


def test_json(capsys: Capture) -> None:
    print_json([made_up()], Effort([1]), [CEILINGS])
    report = json.loads(capsys.readouterr().out)
    (found,) = report["results"]
    assert found["best_peer"] == "A"
    assert found["times"]["rnncc"]["median"] == pytest.approx(100e-6)
    assert found["times"]["rnncc"]["ratio"] == pytest.approx(1.5)
    assert found["times"]["rnncc bf16"]["ratio_bf16"] == pytest.approx(1.2)
    assert report["ceilings"][0]["levels"]["memory"] == 2e10
    assert Case.from_dict(found["case"]) == made_up().case


def test_ceilings_of_several_cores(capsys: Capture) -> None:
    both = Ceilings(16, {"L1": 32768}, {"f32": 2e11}, [(8192, 8e11)], 2)
    print_ceilings([CEILINGS, both])
    printed = capsys.readouterr().out
    assert "2 cores" in printed and "200 GFLOP/s" in printed


def test_picture() -> None:
    odd = CaseResult(
        Case("net", net="a<b>.pb", sizes=(("T", 3),)),
        {"rnncc": microseconds(5)},
        {"rnncc": contender("rnncc")},
    )
    svg = ET.fromstring(draw([made_up(), odd], "standard", "one core"))
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in svg.iter(f"{space}text")]
    assert {"standard", "one core", "LSTM 64", "100 µs", f"1.50{TIMES}"} <= set(texts)
    marks = {title.text or "": mark for title, mark in svg.findall(f"{space}g")}
    assert len(marks) == 6
    assert "a<b>.pb T=3: rnncc, 5.00 µs (1.00)" in marks
    told = {name.split(": ")[1].split(",")[0]: mark for name, mark in marks.items()}
    a, b = (float(told[name].get("cx", 0)) for name in "AB")
    one = float(told["rnncc"].get("x", 0)) + 3
    assert (a - one) / (b - one) == pytest.approx(log(1.5) / log(4), abs=0.01)
    assert "prefers-color-scheme: dark" in (svg.findtext(f"{space}style") or "")


def test_picture_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text(draw([made_up()], "x"), encoding="utf-8")
    assert ET.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1.1523524, "1.15 s"),
        (0.9996, "1.00 s"),
        (0.0123456, "12.3 ms"),
        (417.9e-6, "418 µs"),
        (1e-6, "1.00 µs"),
        (42.3e-9, "42.3 ns"),
        (1234.5, "1234 s"),
    ],
)
def test_times_have_three_digits(seconds: float, told: str) -> None:
    assert time_text(seconds) == told
