"""The page: parsed with the standard library, and opened in a browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest

from rnncc.ir.dims import Dim
from rnncc.planning.drawing import draw, short_bytes
from rnncc.planning.layout import plan
from rnncc.planning.report import PlanReport, SharedBlock, plan_report
from tests.kern_samples import N, T, lstm, port
from tests.planning.helpers import Place, chain

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")


class Page(HTMLParser):
    """Collects rectangles with what hovering over them tells, a list a drawing, and all texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.drawings: list[list[dict[str, str]]] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        self.open.append(tag)
        if tag == "svg":
            self.drawings.append([])
        if tag == "rect":
            self.drawings[-1].append(values)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())
        if self.open[-2:] == ["rect", "title"]:
            self.drawings[-1][-1]["told"] = data


def two_programs(steps: int = 7) -> PlanReport:
    forward, backward = lstm(64, 40), chain()
    slots = [
        Place(port=port("saved:h<1>", T, N, 6), offset=Dim.of(64)),
        Place(port=port("saved:c", T, N, 6), offset=T * N * 24 + 64),
    ]
    tape = SharedBlock("tape", "saved", slots, T * N * 48 + 64)
    halves = [("forward", forward, plan(forward)), ("backward", backward, plan(backward))]
    return plan_report("net", halves, {"T": steps, "N": 3}, [tape])


def edges(rect: dict[str, str], enlarged: bool = False) -> tuple[float, float, float, float]:
    y, height = ("data-y", "data-height") if enlarged else ("y", "height")
    left, top = float(rect["x"]), float(rect[y])
    return left, top, left + float(rect["width"]), top + float(rect[height])


def assert_apart(rects: list[dict[str, str]], enlarged: bool) -> None:
    slack = 0.02  # of a pixel: coordinates are rounded
    for a, b in combinations([edges(rect, enlarged) for rect in rects], 2):
        aside = a[2] <= b[0] + slack or b[2] <= a[0] + slack
        assert aside or a[3] <= b[1] + slack or b[3] <= a[1] + slack


@pytest.mark.parametrize("steps", [0, 1, 7, 500])
def test_one_rectangle_a_buffer_and_none_over_another(steps: int) -> None:
    report = two_programs(steps)
    page = Page(draw(report))
    assert len(page.drawings) == 3
    for program, rects in zip(report.programs, page.drawings, strict=False):
        held = [row for row in program.buffers if row.role != "param" and row.bytes]
        assert [rect["told"].split(" ")[0] for rect in rects] == [row.name for row in held]
        assert_apart(rects, False)
        assert_apart(rects, True)
    slots = [rect["told"].split(" ")[0] for rect in page.drawings[2]]
    assert slots == (["saved:h<1>", "saved:c"] if steps else [])


def test_rectangles_tell_the_plan_to_scale() -> None:
    report = two_programs()
    rects = Page(draw(report)).drawings[0]
    gates = next(rect for rect in rects if rect["told"].startswith("gates"))
    row = next(row for row in report.programs[0].buffers if row.name == "gates")
    assert f"{row.size} = {row.bytes} bytes" in gates["told"]
    assert f"in use from {row.first} to {row.last}" in gates["told"]
    heights = sum(float(rect["height"]) for rect in rects)
    share = row.bytes / report.programs[0].peak  # everything lives at once
    assert float(gates["height"]) / heights == pytest.approx(share, rel=1e-3)


def test_an_heir_begins_in_the_middle_of_the_kernel_that_makes_it() -> None:
    a, b = Page(draw(two_programs())).drawings[1]
    assert a["told"].startswith("a (") and "takes over a" in b["told"]
    assert edges(a)[2] == pytest.approx(edges(b)[0])
    assert edges(a)[1] == edges(b)[1]


def test_the_page_needs_no_other_file_and_names_the_kernels() -> None:
    text = draw(two_programs())
    page = Page(text)
    assert page.addresses == []
    assert not re.search(r"https?:|@import|url\(", text)
    assert "gemm: gates" in page.texts and "for t in run" in page.texts
    assert "saved:h<1>" in page.texts and "h<1>" not in text
    assert "{{" not in text


def test_sizes_on_the_axis() -> None:
    assert [short_bytes(n) for n in (0, 512, 1536, 2**20, 3 * 2**29)] == [
        *("0 B", "512 B", "1.5 KiB", "1 MiB", "1.5 GiB")
    ]


def browse(page: Path, *options: str) -> Iterator[str]:
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    yield done.stdout
    yield done.stderr


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("enlarged", [False, True])
def test_a_browser_draws_it(tmp_path: Path, enlarged: bool) -> None:
    """Every rectangle is as large as it says, and the switch enlarges the small ones."""
    text = draw(two_programs(500))
    click = "document.getElementById('enlarge').click();" if enlarged else ""
    probe = """<script>%s
      const found = [...document.querySelectorAll("svg.workspace rect")].map(rect => {
        const box = rect.getBoundingClientRect();
        return [rect.querySelector("title").textContent.split(" ")[0], box.height].join("=");
      });
      document.title = "drawn " + found.join(" ") + " width " + document.body.scrollWidth;
    </script></body>"""
    page = tmp_path / "plan.html"
    page.write_text(text.replace("</body>", probe % click), encoding="utf-8")
    dom, told = browse(page, "--window-size=1300,900", "--dump-dom", "--enable-logging=stderr")
    assert "Uncaught" not in told
    title = re.search(r"<title>drawn (.*?) width (\d+)</title>", dom)
    assert title is not None
    drawn = dict(pair.split("=") for pair in title[1].split(" "))
    assert drawn.keys() == {"hidden_all", "cell", "gates", "a", "b"}
    assert all(float(height) > (5 if enlarged else 0) for height in drawn.values())
    assert int(title[2]) <= 1300
